/* Streams with programs of plain TCP: sockets of the system in this process. */
#include "common.h"
#include <sys/socket.h>

enum { LONG = 300000 };

static exs_qhandle_t q;
static unsigned char from[LONG], to[LONG];

static int option(int fd, int number) {
    int value = exs_fcntl(fd, EXS_F_GET(number));
    CHECK(value >= 0);
    return value;
}

static void set_plain(int fd, int value) {
    CHECK(exs_fcntl(fd, EXS_F_SET(EXS_PLAIN), value) == 0);
    CHECK(option(fd, EXS_PLAIN) == value);
}

static int listen_at(int plain, struct sockaddr_in *address) {
    socklen_t len = sizeof *address;
    int listener = exs_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0);
    set_plain(listener, plain);
    *address = loopback(0);
    CHECK(exs_bind(listener, (struct sockaddr *)address, len) == 0 && exs_listen(listener, 8) == 0);
    CHECK(exs_getsockname(listener, (struct sockaddr *)address, &len) == 0);
    return listener;
}

/* Octets both ways between a socket of EXS and one of the system, and the end of each. */
static void talk(int fd, int peer) {
    exs_event_t event;
    CHECK(option(fd, EXS_PLAIN) == EXS_PLAIN_ALWAYS);
    for (size_t i = 0; i < LONG; i++) from[i] = (unsigned char)(i * 31 + (i >> 8));
    CHECK(exs_recv(fd, to, 1000, MSG_WAITALL, q, 1, EXS_MHANDLE_UNREGISTERED) == 0);
    CHECK(send(peer, from, 400, 0) == 400 && send(peer, from + 400, 600, 0) == 600);
    event = take(q, EXS_EVT_RECV, 1);
    CHECK(event.error == 0 && event.u.xfer.len == 1000 && !(event.flags & EXS_MSG_DIRECT));
    CHECK(memcmp(from, to, 1000) == 0);

    memset(to, 0, LONG);
    CHECK(exs_send(fd, from, LONG, 0, q, 2, EXS_MHANDLE_UNREGISTERED) == 0);
    CHECK(recv(peer, to, LONG, MSG_WAITALL) == LONG && memcmp(from, to, LONG) == 0);
    event = take(q, EXS_EVT_SEND, 2);
    CHECK(event.error == 0 && event.u.xfer.len == LONG);

    CHECK(exs_shutdown(fd, EXS_SHUT_WR, q, 3) == 0);
    take(q, EXS_EVT_SHUTDOWN, 3);
    CHECK(recv(peer, to, 1, 0) == 0);
    CHECK(close(peer) == 0);
    CHECK(exs_recv(fd, to, 10, 0, q, 4, EXS_MHANDLE_UNREGISTERED) == 0);
    event = take(q, EXS_EVT_RECV, 4);
    CHECK(event.error == 0 && event.u.xfer.len == 0 && event.u.xfer.is_end);
    CHECK(exs_close(fd, q, 5) == 0);
    CHECK(take(q, EXS_EVT_CLOSE, 5).error == 0);
}

static int connect_plain(const struct sockaddr_in *address) {
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(peer >= 0 && connect(peer, (const struct sockaddr *)address, sizeof *address) == 0);
    return peer;
}

/* A listener takes both kinds of peers at one port, or plain ones only. */
static void accepted(void) {
    struct sockaddr_in address;
    for (int plain = EXS_PLAIN_ACCEPT; plain <= EXS_PLAIN_ALWAYS; plain++) {
        int listener = listen_at(plain, &address);
        int peer = connect_plain(&address);
        /* Its first octets say that it does not speak EXS. A talk goes on behind them. */
        CHECK(send(peer, "hi", 2, 0) == 2);
        CHECK(exs_accept(listener, NULL, 1, q, 7) == 0);
        exs_event_t event = take(q, EXS_EVT_ACCEPT, 7);
        CHECK(event.error == 0);
        int fd = event.u.accept.fd;
        CHECK(exs_recv(fd, to, 2, MSG_WAITALL, q, 8, EXS_MHANDLE_UNREGISTERED) == 0);
        CHECK(take(q, EXS_EVT_RECV, 8).u.xfer.len == 2 && memcmp(to, "hi", 2) == 0);
        talk(fd, peer);
        CHECK(exs_close(listener, EXS_QHANDLE_INVALID, 0) == 0);
    }
    int listener = listen_at(EXS_PLAIN_ACCEPT, &address), ours = exs_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(exs_accept(listener, NULL, 1, q, 9) == 0);
    CHECK(exs_connect(ours, (struct sockaddr *)&address, sizeof address, q, 10) == 0);
    exs_event_t events[2];
    CHECK(exs_qdequeue(q, events, -2, NULL) == 2 && events[0].error == 0 && events[1].error == 0);
    int theirs = events[events[0].type == EXS_EVT_ACCEPT ? 0 : 1].u.accept.fd;
    CHECK(option(ours, EXS_PLAIN) == EXS_PLAIN_OFF && option(theirs, EXS_PLAIN) == EXS_PLAIN_OFF);
    CHECK(exs_close(ours, EXS_QHANDLE_INVALID, 0) == 0 && exs_close(theirs, EXS_QHANDLE_INVALID, 0) == 0);
    CHECK(exs_close(listener, EXS_QHANDLE_INVALID, 0) == 0);
}

/* A socket connects to a server of the system, by events and by the calls of POSIX. */
static void connected(void) {
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(server, (struct sockaddr *)&address, len) == 0 && listen(server, 8) == 0);
    CHECK(getsockname(server, (struct sockaddr *)&address, &len) == 0);

    int fd = exs_socket(AF_INET, SOCK_STREAM, 0);
    set_plain(fd, EXS_PLAIN_ALWAYS);
    CHECK(exs_connect(fd, (struct sockaddr *)&address, len, q, 11) == 0);
    CHECK(take(q, EXS_EVT_CONNECT, 11).error == 0);
    talk(fd, accept(server, NULL, NULL));

    fd = exs_sync_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(exs_sync_fcntl(fd, EXS_F_SET(EXS_PLAIN), EXS_PLAIN_ALWAYS) == 0);
    CHECK(exs_sync_connect(fd, (struct sockaddr *)&address, len) == 0);
    int peer = accept(server, NULL, NULL);
    CHECK(exs_sync_send(fd, from, 500, 0) == 500);
    CHECK(recv(peer, to, 500, MSG_WAITALL) == 500 && memcmp(from, to, 500) == 0);
    CHECK(send(peer, from, 700, 0) == 700 && exs_sync_recv(fd, to, 700, MSG_WAITALL) == 700);
    CHECK(memcmp(from, to, 700) == 0 && close(peer) == 0 && exs_sync_close(fd) == 0);

    /* Messages have no way over plain TCP, and a number that is no kind of peer is none. */
    fd = exs_socket(AF_INET, SOCK_SEQPACKET, 0);
    FAILS(exs_fcntl(fd, EXS_F_SET(EXS_PLAIN), EXS_PLAIN_ALWAYS), EINVAL);
    FAILS(exs_fcntl(fd, EXS_F_SET(EXS_PLAIN), 3), EINVAL);
    CHECK(exs_close(fd, EXS_QHANDLE_INVALID, 0) == 0 && close(server) == 0);
}

int main(void) {
    q = exs_qcreate(16);
    CHECK(q != EXS_QHANDLE_INVALID);
    accepted();
    connected();
    CHECK(exs_qdelete(q) == 0);
    puts("ok");
    return 0;
}
