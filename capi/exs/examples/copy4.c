/*
 * Copies a file to another host, by Extended Sockets: with messages. Short ones are read where they came.
 *
 *   copy4 -s FOLDER [PORT]        takes one file, and prints its port first
 *   copy4 ADDRESS PORT FILE NAME  sends a file, which gets this name in the folder
 *
 * On the wire: a message with the length of the name (4 octets) and of the file (8), in network order, and the name;
 * messages with the octets of the file; and back one with their CRC32c.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <exs.h>

#include "copy.h"

enum { PIECE = 1 << 18, PIECES = 16, OTHER = PIECES, SMALL = 300 };

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

/* Receives a short message, which is in the library's memory until it is recycled. */
static exs_event_t receive_small(int fd) {
    if (exs_recv(fd, pieces, SMALL, EXS_MSG_INPLACE, queue, OTHER, memory) < 0) fail("recv");
    exs_event_t event = next_event();
    if (!(event.flags & EXS_MSG_INPLACE)) refuse("this is no short message");
    return event;
}

static void recycle(int fd, exs_event_t *event) {
    if (exs_recycle_rcv_buffer(fd, event->u.xfer.buf) < 0) fail("recycle");
}

/* Makes a socket whose short messages are immediate data. */
static int make_socket(void) {
    int fd = exs_socket(AF_INET, SOCK_SEQPACKET, 0);
    if (fd < 0) fail("socket");
    if (exs_fcntl(fd, EXS_F_SET(EXS_SMALL_PACKET_MAX), SMALL) < 0) fail("fcntl");
    return fd;
}

static size_t shorter(uint64_t rest) { return rest < PIECE ? (size_t)rest : PIECE; }

static void take_file(int fd, FILE *file, uint64_t rest, uint32_t *crc) {
    uint64_t started = 0, done = 0;
    while (done < rest) {
        for (; started < rest && started - done < (uint64_t)PIECES * PIECE; started += shorter(rest - started)) {
            int piece = (int)(started / PIECE % PIECES);
            size_t len = shorter(rest - started);
            if (exs_recv(fd, pieces + piece * PIECE, len, 0, queue, piece, memory) < 0) fail("recv");
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
    int listener = make_socket();
    if (exs_setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) fail("setsockopt");
    if (exs_bind(listener, (struct sockaddr *)&address, sizeof address) < 0) fail("bind");
    if (exs_listen(listener, 1) < 0) fail("listen");
    if (exs_getsockname(listener, (struct sockaddr *)&address, &len) < 0) fail("getsockname");
    say_port(&address);
    if (exs_accept(listener, NULL, 1, queue, OTHER) < 0) fail("accept");
    int fd = next_event().u.accept.fd;

    struct head head;
    char name[MAX_NAME + 1];
    exs_event_t event = receive_small(fd);
    if (event.u.xfer.len < sizeof head) refuse("this is no header");
    memcpy(&head, event.u.xfer.buf, sizeof head);
    size_t name_len = name_length(&head);
    if (event.u.xfer.len != sizeof head + name_len) refuse("this is no header");
    memcpy(name, (char *)event.u.xfer.buf + sizeof head, name_len);
    name[name_len] = '\0';
    recycle(fd, &event);
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
    int fd = make_socket();
    if (exs_connect(fd, (struct sockaddr *)&address, sizeof address, queue, OTHER) < 0) fail("connect");
    next_event();

    struct head head = make_head(name, rest);
    char both[sizeof head + MAX_NAME];
    memcpy(both, &head, sizeof head);
    memcpy(both + sizeof head, name, strlen(name));
    send_all(fd, both, sizeof head + strlen(name));
    uint32_t crc = 0, theirs;
    send_file(fd, file, rest, &crc);
    close_file(file);
    exs_event_t event = receive_small(fd);
    if (event.u.xfer.len != sizeof theirs) refuse("this is no CRC");
    memcpy(&theirs, event.u.xfer.buf, sizeof theirs);
    recycle(fd, &event);
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
