/*
 * Copies a file to another host, by Extended Sockets: asynchronously. Sixteen pieces are under way at a time.
 *
 *   copy3 -s FOLDER [PORT]        takes one file, and prints its port first
 *   copy3 ADDRESS PORT FILE NAME  sends a file, which gets this name in the folder
 *
 * On the wire: the length of the name (4 octets) and of the file (8), in network order, and the name; the octets of the
 * file; and back their CRC32c.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <exs.h>

#include "copy.h"

enum { PIECE = 1 << 18, PIECES = 16, OTHER = PIECES };

static exs_qhandle_t queue;
static exs_mhandle_t memory;
static char *pieces;

static void prepare(void) {
    if (exs_init(EXS_VERSION) < 0) fail("init");
    queue = exs_qcreate(PIECES + 1);
    if (queue == EXS_QHANDLE_INVALID) fail("qcreate");
    pieces = allocate((size_t)PIECES * PIECE);
    memory = exs_mregister(pieces, (size_t)PIECES * PIECE, 0);
    if (memory == EXS_MHANDLE_INVALID) fail("mregister");
}

static void clean_up(void) {
    if (exs_mderegister(memory) < 0) fail("mderegister");
    if (exs_qdelete(queue) < 0) fail("qdelete");
    free(pieces);
}

/* Waits for the next event. Of operations in one direction events come in the order of the starts. */
static exs_event_t next_event(void) {
    exs_event_t event;
    if (exs_qdequeue(queue, &event, 1, NULL) != 1) fail("qdequeue");
    errno = event.error;
    if (event.error != 0) fail(exs_strevent(event.type));
    return event;
}

static void send_all(int fd, const void *octets, size_t len) {
    if (exs_send(fd, octets, len, 0, queue, OTHER, EXS_MHANDLE_UNREGISTERED) < 0) fail("send");
    next_event();
}

static void receive_all(int fd, void *octets, size_t len) {
    if (exs_recv(fd, octets, len, MSG_WAITALL, queue, OTHER, EXS_MHANDLE_UNREGISTERED) < 0) fail("recv");
    if (next_event().u.xfer.len != len) refuse("the peer has ended early");
}

static size_t shorter(uint64_t rest) { return rest < PIECE ? (size_t)rest : PIECE; }

static void take_file(int fd, FILE *file, uint64_t rest, uint32_t *crc) {
    uint64_t started = 0, done = 0;
    while (done < rest) {
        for (; started < rest && started - done < (uint64_t)PIECES * PIECE; started += shorter(rest - started)) {
            int piece = (int)(started / PIECE % PIECES);
            size_t len = shorter(rest - started);
            if (exs_recv(fd, pieces + piece * PIECE, len, MSG_WAITALL, queue, piece, memory) < 0) fail("recv");
        }
        exs_event_t event = next_event();
        if (event.u.xfer.len != shorter(rest - done)) refuse("the peer has ended early");
        write_piece(file, event.u.xfer.buf, event.u.xfer.len);
        *crc = crc32c(*crc, event.u.xfer.buf, event.u.xfer.len);
        done += event.u.xfer.len;
    }
}

static void send_file(int fd, FILE *file, uint64_t rest, uint32_t *crc) {
    uint64_t started = 0, done = 0;
    while (done < rest) {
        for (; started < rest && started - done < (uint64_t)PIECES * PIECE; started += shorter(rest - started)) {
            int piece = (int)(started / PIECE % PIECES);
            size_t len = read_piece(file, pieces + piece * PIECE, shorter(rest - started));
            *crc = crc32c(*crc, pieces + piece * PIECE, len);
            if (exs_send(fd, pieces + piece * PIECE, len, 0, queue, piece, memory) < 0) fail("send");
        }
        done += next_event().u.xfer.len;
    }
}

static void serve(const char *folder, int port) {
    struct sockaddr_in address = address_of("0.0.0.0", port);
    socklen_t len = sizeof address;
    int on = 1;
    int listener = exs_socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0) fail("socket");
    if (exs_setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) fail("setsockopt");
    if (exs_bind(listener, (struct sockaddr *)&address, sizeof address) < 0) fail("bind");
    if (exs_listen(listener, 1) < 0) fail("listen");
    if (exs_getsockname(listener, (struct sockaddr *)&address, &len) < 0) fail("getsockname");
    say_port(&address);
    if (exs_accept(listener, NULL, 1, queue, OTHER) < 0) fail("accept");
    int fd = next_event().u.accept.fd;

    struct head head;
    char name[MAX_NAME + 1];
    receive_all(fd, &head, sizeof head);
    size_t name_len = name_length(&head);
    receive_all(fd, name, name_len);
    name[name_len] = '\0';
    FILE *file = open_below(folder, name);
    uint32_t crc = 0;
    take_file(fd, file, file_length(&head), &crc);
    close_file(file);
    crc = htonl(crc);
    send_all(fd, &crc, sizeof crc);
    if (exs_close(fd, queue, OTHER) < 0 || exs_close(listener, EXS_QHANDLE_INVALID, 0) < 0) fail("close");
    next_event();
}

static void copy(const char *host, int port, const char *path, const char *name) {
    struct sockaddr_in address = address_of(host, port);
    uint64_t rest;
    FILE *file = open_file(path, &rest);
    int fd = exs_socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) fail("socket");
    if (exs_connect(fd, (struct sockaddr *)&address, sizeof address, queue, OTHER) < 0) fail("connect");
    next_event();

    struct head head = make_head(name, rest);
    send_all(fd, &head, sizeof head);
    send_all(fd, name, strlen(name));
    uint32_t crc = 0, theirs;
    send_file(fd, file, rest, &crc);
    close_file(file);
    receive_all(fd, &theirs, sizeof theirs);
    check_crc(crc, ntohl(theirs));
    if (exs_close(fd, queue, OTHER) < 0) fail("close");
    next_event();
}

int main(int argc, char **argv) {
    prepare();
    if (argc >= 3 && strcmp(argv[1], "-s") == 0) {
        serve(argv[2], argc > 3 ? atoi(argv[3]) : 0);
    } else if (argc == 5) {
        copy(argv[1], atoi(argv[2]), argv[3], argv[4]);
    } else {
        fprintf(stderr, "usage: %s -s FOLDER [PORT] | ADDRESS PORT FILE NAME\n", argv[0]);
        return 2;
    }
    clean_up();
    return 0;
}
