/* The functions of POSIX: between two threads, over streams and messages; without waiting; polls and looks. */
#include "common.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/select.h>
#include <sys/uio.h>

enum { LONG = 3000000 };

static unsigned char *octets, *copy;

static int ready(int fd, short events, int timeout) {
    struct pollfd one = {fd, events, 0};
    CHECK(exs_sync_poll(&one, 1, timeout) == (one.revents != 0));
    return one.revents;
}

static void make_both(int type, int ends[2]) {
    struct sockaddr_in address = loopback(0), peer;
    socklen_t len = sizeof address;
    int listener = exs_sync_socket(AF_INET, type | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0);
    FAILS(exs_sync_accept(listener, NULL, NULL), EINVAL);
    CHECK(exs_sync_bind(listener, (struct sockaddr *)&address, len) == 0);
    CHECK(exs_sync_listen(listener, 4) == 0);
    CHECK(exs_sync_getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    CHECK(exs_sync_fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    CHECK(exs_sync_fcntl(listener, F_GETFL) == (O_RDWR | O_NONBLOCK));
    FAILS(exs_sync_accept(listener, NULL, NULL), EAGAIN);
    CHECK(ready(listener, POLLIN, 0) == 0);
    ends[0] = exs_sync_socket(AF_INET, type, 0);
    FAILS(exs_sync_send(ends[0], "x", 1, 0), ENOTCONN);
    CHECK(exs_sync_connect(ends[0], (struct sockaddr *)&address, len) == 0);
    FAILS(exs_sync_connect(ends[0], (struct sockaddr *)&address, len), EISCONN);
    CHECK(ready(listener, POLLIN, -1) == POLLIN);
    ends[1] = exs_sync_accept(listener, (struct sockaddr *)&peer, &len);
    CHECK(ends[1] >= 0 && len == sizeof peer && ntohl(peer.sin_addr.s_addr) == INADDR_LOOPBACK);
    CHECK(exs_sync_getpeername(ends[1], (struct sockaddr *)&address, &len) == 0);
    CHECK(memcmp(&address, &peer, sizeof peer) == 0);
    CHECK(exs_sync_close(listener) == 0);
}

static void *send_all(void *argument) {
    int fd = *(int *)argument;
    for (size_t sent = 0; sent < LONG;) {
        ssize_t here = exs_sync_write(fd, octets + sent, LONG - sent < 100000 ? LONG - sent : 100000);
        CHECK(here > 0);
        sent += (size_t)here;
    }
    CHECK(exs_sync_send(fd, octets, LONG, 0) == LONG);
    CHECK(exs_sync_shutdown(fd, SHUT_WR) == 0);
    FAILS(exs_sync_send(fd, octets, LONG, 0), EPIPE);
    return NULL;
}

static void streams(void) {
    int ends[2];
    pthread_t thread;
    make_both(SOCK_STREAM, ends);
    CHECK(ready(ends[1], POLLIN, 0) == 0 && ready(ends[1], POLLIN | POLLOUT, -1) == POLLOUT);
    FAILS(exs_sync_recv(ends[1], copy, 10, MSG_DONTWAIT), EAGAIN);

    CHECK(exs_sync_send(ends[0], "hello", 5, MSG_NOSIGNAL) == 5);
    CHECK(ready(ends[1], POLLIN, -1) == POLLIN);
    CHECK(exs_sync_recv(ends[1], copy, 3, MSG_PEEK) == 3 && memcmp(copy, "hel", 3) == 0);
    CHECK(exs_sync_recv(ends[1], copy, 2, 0) == 2 && memcmp(copy, "he", 2) == 0);
    CHECK(ready(ends[1], POLLIN, 0) == POLLIN);
    CHECK(exs_sync_recv(ends[1], copy, 10, MSG_DONTWAIT) > 0 && memcmp(copy, "l", 1) == 0);
    while (exs_sync_recv(ends[1], copy, 10, MSG_DONTWAIT) > 0) {
    }
    CHECK(errno == EAGAIN);

    struct iovec parts[3] = {{"one", 3}, {"", 0}, {"two", 3}}, rooms[2] = {{copy, 2}, {copy + 10, 4}};
    CHECK(exs_sync_writev(ends[0], parts, 3) == 6);
    CHECK(exs_sync_recv(ends[1], copy, 1, MSG_PEEK) == 1);
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = rooms, message.msg_iovlen = 2;
    CHECK(exs_sync_recvmsg(ends[1], &message, MSG_WAITALL) == 6);
    CHECK(memcmp(copy, "on", 2) == 0 && memcmp(copy + 10, "etwo", 4) == 0);

    CHECK(pthread_create(&thread, NULL, send_all, &ends[0]) == 0);
    CHECK(exs_sync_recv(ends[1], copy, LONG, MSG_WAITALL) == LONG && memcmp(octets, copy, LONG) == 0);
    memset(copy, 0, LONG);
    size_t have = 0;
    fd_set set;
    while (1) {
        FD_ZERO(&set);
        FD_SET(ends[1], &set);
        CHECK(exs_sync_select(ends[1] + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(ends[1], &set));
        ssize_t here = exs_sync_recv(ends[1], copy + have, have < LONG / 2 ? 5000 : LONG - have, MSG_DONTWAIT);
        CHECK(here >= 0);
        if (here == 0) break;
        have += (size_t)here;
    }
    CHECK(have == LONG && memcmp(octets, copy, LONG) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(ready(ends[1], POLLIN, 0) & POLLIN);

    /* The other direction goes on, until nobody takes more. */
    CHECK(exs_sync_fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    ssize_t sent = 0, here;
    while ((here = exs_sync_send(ends[1], octets, 100000, 0)) > 0) sent += here;
    CHECK(errno == EAGAIN && sent > 0 && ready(ends[1], POLLOUT, 0) == 0);
    for (ssize_t got = 0; got < sent; got += here) {
        here = exs_sync_read(ends[0], copy, LONG);
        CHECK(here > 0);
    }
    CHECK(ready(ends[1], POLLOUT, -1) == POLLOUT);
    CHECK(exs_sync_close(ends[0]) == 0 && exs_sync_close(ends[1]) == 0);
    FAILS(exs_sync_close(ends[0]), EBADF);
}

static void messages(void) {
    int ends[2];
    make_both(SOCK_SEQPACKET, ends);
    CHECK(exs_sync_send(ends[0], octets, 200, 0) == 200 && exs_sync_send(ends[0], NULL, 0, 0) == 0);
    CHECK(exs_sync_send(ends[0], octets + 7, 100000, 0) == 100000);
    struct iovec room = {copy, 50};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = &room, message.msg_iovlen = 1;
    CHECK(exs_sync_recvmsg(ends[1], &message, 0) == 50 && message.msg_flags == MSG_TRUNC);
    CHECK(exs_sync_recv(ends[1], copy, 100, 0) == 0);
    CHECK(ready(ends[1], POLLIN, -1) == POLLIN);
    CHECK(exs_sync_recv(ends[1], copy, LONG, 0) == 100000 && memcmp(octets + 7, copy, 100000) == 0);
    FAILS(exs_sync_recv(ends[1], copy, 100, MSG_PEEK), EOPNOTSUPP);
    exs_mhandle_t m = exs_mregister(octets, LONG, 0), n = exs_mregister(copy, LONG, 0);
    exs_iovec_t piece = {copy, 70000, n};
    exs_msghdr_t pieces;
    memset(&pieces, 0, sizeof pieces);
    pieces.msg_iov = &piece, pieces.msg_iovlen = 1;
    exs_qhandle_t q = exs_qcreate(1);
    CHECK(exs_send(ends[0], octets, 80000, 0, q, 1, m) == 0);
    CHECK(exs_sync_mrecvmsg(ends[1], &pieces, 0) == 70000 && pieces.msg_flags == MSG_TRUNC);
    CHECK(take(q, EXS_EVT_SEND, 1).flags & MSG_TRUNC);
    CHECK(exs_recv(ends[1], copy, 10, 0, q, 2, n) == 0);
    piece.iov_base = octets, piece.iov_len = 9, piece.iov_mhandle = m;
    CHECK(exs_sync_msendmsg(ends[0], &pieces, 0) == 9);
    CHECK(take(q, EXS_EVT_RECV, 2).u.xfer.len == 9);
    CHECK(exs_mderegister(m) == 0 && exs_mderegister(n) == 0 && exs_qdelete(q) == 0);
    CHECK(exs_sync_close(ends[0]) == 0);
    CHECK(exs_sync_recv(ends[1], copy, 100, 0) == 0 && exs_sync_close(ends[1]) == 0);
}

/* A connect that does not wait: to somebody, and to nobody. */
static void connects(void) {
    struct sockaddr_in address = loopback(0), nobody = loopback(1);
    socklen_t len = sizeof address;
    int error = -1, listener = exs_sync_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(exs_sync_bind(listener, (struct sockaddr *)&address, len) == 0 && exs_sync_listen(listener, 4) == 0);
    CHECK(exs_sync_getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    int fd = exs_sync_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    /* It connects from the address that it is bound to. */
    struct sockaddr_in own = loopback(0), peer;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    CHECK(exs_sync_bind(fd, (struct sockaddr *)&own, len) == 0);
    FAILS(exs_sync_connect(fd, (struct sockaddr *)&address, len), EINPROGRESS);
    CHECK(ready(fd, POLLOUT, -1) == POLLOUT);
    len = sizeof error;
    CHECK(exs_sync_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
    len = sizeof peer;
    int other = exs_sync_accept(listener, (struct sockaddr *)&peer, &len);
    CHECK(other >= 0 && peer.sin_addr.s_addr == own.sin_addr.s_addr && peer.sin_port != 0);
    CHECK(exs_sync_getsockname(fd, (struct sockaddr *)&own, &len) == 0 && own.sin_port == peer.sin_port);
    len = sizeof error;
    CHECK(exs_sync_write(fd, "x", 1) == 1 && exs_sync_read(other, copy, 10) == 1);
    CHECK(exs_sync_close(fd) == 0 && exs_sync_close(other) == 0 && exs_sync_close(listener) == 0);

    fd = exs_sync_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    FAILS(exs_sync_connect(fd, (struct sockaddr *)&nobody, sizeof nobody), EINPROGRESS);
    CHECK(ready(fd, POLLOUT, -1) & POLLOUT);
    CHECK(exs_sync_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == ECONNREFUSED);
    CHECK(exs_sync_close(fd) == 0);
}

static void files(void) {
    char name[] = "/tmp/weft-exs-XXXXXX";
    int ends[2], file = mkstemp(name);
    off_t offset = 1000;
    CHECK(file >= 0 && unlink(name) == 0 && write(file, octets, 90000) == 90000);
    make_both(SOCK_STREAM, ends);
    CHECK(exs_sync_sendfile(ends[0], file, &offset, 100000) == 89000 && offset == 90000);
    CHECK(exs_sync_recv(ends[1], copy, 89000, MSG_WAITALL) == 89000 && memcmp(copy, octets + 1000, 89000) == 0);
    CHECK(lseek(file, 10, SEEK_SET) == 10 && exs_sync_sendfile(ends[0], file, NULL, 20) == 20);
    CHECK(lseek(file, 0, SEEK_CUR) == 30);
    CHECK(exs_sync_recv(ends[1], copy, 20, MSG_WAITALL) == 20 && memcmp(copy, octets + 10, 20) == 0);
    FAILS(exs_sync_sendfile(ends[0], -1, NULL, 20), EBADF);
    CHECK(exs_sync_close(ends[0]) == 0 && exs_sync_close(ends[1]) == 0);
    close(file);
}

int main(void) {
    octets = malloc(LONG), copy = malloc(LONG);
    for (int i = 0; i < LONG; i++) octets[i] = (unsigned char)(i * 7 + (i >> 8) * 3 + (i >> 16));
    streams();
    messages();
    connects();
    files();
    free(octets);
    free(copy);
    puts("ok");
    return 0;
}
