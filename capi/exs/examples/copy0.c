/*
 * Copies a file to another host, by POSIX sockets.
 *
 *   copy0 -s FOLDER [PORT]        takes one file, and prints its port first
 *   copy0 ADDRESS PORT FILE NAME  sends a file, which gets this name in the folder
 *
 * On the wire: the length of the name (4 octets) and of the file (8), in network order, and the name; the octets of the
 * file; and back their CRC32c.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "copy.h"

enum { PIECE = 1 << 16 };

static void send_all(int fd, const void *octets, size_t len) {
    const char *rest = octets;
    while (len > 0) {
        ssize_t sent = send(fd, rest, len, 0);
        if (sent < 0) fail("send");
        rest += sent;
        len -= (size_t)sent;
    }
}

static void receive_all(int fd, void *octets, size_t len) {
    if (len > 0 && recv(fd, octets, len, MSG_WAITALL) != (ssize_t)len) fail("recv");
}

static void serve(const char *folder, int port) {
    struct sockaddr_in address = address_of("0.0.0.0", port);
    socklen_t len = sizeof address;
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0) fail("socket");
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) fail("setsockopt");
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0) fail("bind");
    if (listen(listener, 1) < 0) fail("listen");
    if (getsockname(listener, (struct sockaddr *)&address, &len) < 0) fail("getsockname");
    say_port(&address);
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) fail("accept");

    struct head head;
    char name[MAX_NAME + 1];
    receive_all(fd, &head, sizeof head);
    size_t name_len = name_length(&head);
    receive_all(fd, name, name_len);
    name[name_len] = '\0';
    FILE *file = open_below(folder, name);
    uint64_t rest = file_length(&head);
    uint32_t crc = 0;
    char *piece = allocate(PIECE);
    while (rest > 0) {
        size_t wanted = rest < PIECE ? (size_t)rest : PIECE;
        ssize_t here = recv(fd, piece, wanted, 0);
        if (here <= 0) fail("recv");
        write_piece(file, piece, (size_t)here);
        crc = crc32c(crc, piece, (size_t)here);
        rest -= (uint64_t)here;
    }
    close_file(file);
    crc = htonl(crc);
    send_all(fd, &crc, sizeof crc);
    free(piece);
    close(fd);
    close(listener);
}

static void copy(const char *host, int port, const char *path, const char *name) {
    struct sockaddr_in address = address_of(host, port);
    uint64_t rest;
    FILE *file = open_file(path, &rest);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) fail("socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");

    struct head head = make_head(name, rest);
    send_all(fd, &head, sizeof head);
    send_all(fd, name, strlen(name));
    uint32_t crc = 0, theirs;
    char *piece = allocate(PIECE);
    while (rest > 0) {
        size_t here = read_piece(file, piece, rest < PIECE ? (size_t)rest : PIECE);
        send_all(fd, piece, here);
        crc = crc32c(crc, piece, here);
        rest -= here;
    }
    close_file(file);
    receive_all(fd, &theirs, sizeof theirs);
    check_crc(crc, ntohl(theirs));
    free(piece);
    close(fd);
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "-s") == 0) {
        serve(argv[2], argc > 3 ? atoi(argv[3]) : 0);
    } else if (argc == 5) {
        copy(argv[1], atoi(argv[2]), argv[3], argv[4]);
    } else {
        fprintf(stderr, "usage: %s -s FOLDER [PORT] | ADDRESS PORT FILE NAME\n", argv[0]);
        return 2;
    }
    return 0;
}
