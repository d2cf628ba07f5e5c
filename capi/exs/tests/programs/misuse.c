/* Bad handles, handles that are gone, NULL, lengths that nothing has, and what Weft has not: each has its number. */
#include "common.h"
#include <fcntl.h>
#include <sys/mman.h>

static exs_qhandle_t q;
static char octets[9000];

/* On no socket: a number that is none, standard input, and one that was closed. */
static void sockets(int fd) {
    struct sockaddr_in address = loopback(1);
    socklen_t len = sizeof address;
    exs_msghdr_t message;
    exs_xferfile_t part;
    struct timeval time = {0, 0};
    memset(&message, 0, sizeof message);
    memset(&part, 0, sizeof part);
    FAILS(exs_bind(fd, (struct sockaddr *)&address, len), EBADF);
    FAILS(exs_listen(fd, 1), EBADF);
    FAILS(exs_accept(fd, NULL, 1, q, 1), EBADF);
    FAILS(exs_connect(fd, (struct sockaddr *)&address, len, q, 1), EBADF);
    FAILS(exs_send(fd, octets, 1, 0, q, 1, EXS_MHANDLE_UNREGISTERED), EBADF);
    FAILS(exs_recv(fd, octets, 1, 0, q, 1, EXS_MHANDLE_UNREGISTERED), EBADF);
    FAILS(exs_rcv(fd, octets, 1, 0, q, 1, EXS_MHANDLE_UNREGISTERED), EBADF);
    FAILS(exs_sendmsg(fd, &message, 0, q, 1), EBADF);
    FAILS(exs_recvmsg(fd, &message, 0, q, 1), EBADF);
    FAILS(exs_sendfile(fd, &part, 1, 0, q, 1), EBADF);
    FAILS(exs_recycle_rcv_buffer(fd, octets), EBADF);
    FAILS(exs_poll(fd, EXS_POLLIN, q, 1), EBADF);
    FAILS(exs_shutdown(fd, EXS_SHUT_WR, q, 1), EBADF);
    FAILS(exs_close(fd, q, 1), EBADF);
    FAILS(exs_cancel(fd, 1, EXS_CAF_FILDES), EBADF);
    FAILS(exs_fcntl(fd, F_GETFL), EBADF);
    FAILS(exs_getsockopt(fd, SOL_SOCKET, SO_ERROR, octets, &len), EBADF);
    FAILS(exs_setsockopt(fd, SOL_SOCKET, SO_ASYNC_SEND_TIMEOUT, &time, sizeof time), EBADF);
    FAILS(exs_getsockname(fd, (struct sockaddr *)&address, &len), EBADF);
    FAILS(exs_getpeername(fd, (struct sockaddr *)&address, &len), EBADF);
    FAILS(exs_sync_accept(fd, NULL, NULL), EBADF);
    FAILS(exs_sync_connect(fd, (struct sockaddr *)&address, len), EBADF);
    FAILS(exs_sync_send(fd, octets, 1, 0), EBADF);
    FAILS(exs_sync_recv(fd, octets, 1, 0), EBADF);
    FAILS(exs_sync_sendfile(fd, 0, NULL, 1), EBADF);
    FAILS(exs_sync_msend(fd, octets, 1, 0, EXS_MHANDLE_UNREGISTERED), EBADF);
    FAILS(exs_sync_mrecv(fd, octets, 1, 0, EXS_MHANDLE_UNREGISTERED), EBADF);
    FAILS(exs_sync_close(fd), EBADF);
    CHECK(exs_qcount(q) == 0);
}

static void queues(exs_qhandle_t bad, const int ends[2]) {
    exs_event_t event;
    int value;
    FAILS(exs_qdequeue(bad, &event, 1, NULL), EINVAL);
    FAILS(exs_qdelete(bad), EINVAL);
    FAILS(exs_qmodify(bad, EXS_QATTR_WAIT, EXS_WAIT_NOTIFY), EINVAL);
    FAILS(exs_qstatus(bad, EXS_QATTR_WAIT, &value), EINVAL);
    FAILS(exs_qfd(bad), EINVAL);
    FAILS(exs_qcount(bad), EINVAL);
    FAILS(exs_send(ends[0], octets, 1, 0, bad, 1, EXS_MHANDLE_UNREGISTERED), EINVAL);
    FAILS(exs_recv(ends[0], octets, 1, 0, bad, 1, EXS_MHANDLE_UNREGISTERED), EINVAL);
    FAILS(exs_poll(ends[0], EXS_POLLIN, bad, 1), EINVAL);
    FAILS(exs_shutdown(ends[0], EXS_SHUT_WR, bad, 1), EINVAL);
    if (bad != EXS_QHANDLE_INVALID) FAILS(exs_close(ends[0], bad, 1), EINVAL);
}

static void handles(exs_mhandle_t bad, const int ends[2]) {
    FAILS(exs_mderegister(bad), EINVAL);
    FAILS(exs_send(ends[0], octets, 1, 0, q, 1, bad), EINVAL);
    FAILS(exs_recv(ends[0], octets, 1, 0, q, 1, bad), EINVAL);
    FAILS(exs_sync_msend(ends[0], octets, 1, 0, bad), EINVAL);
    FAILS(exs_sync_mrecv(ends[0], octets, 1, 0, bad), EINVAL);
}

/* Places and lengths that are no memory, or too much of it. */
static void lengths(const int ends[2], exs_mhandle_t m) {
    FAILS(exs_send(ends[0], octets - 1, 10, 0, q, 1, m), EINVAL);
    FAILS(exs_send(ends[0], octets + 1, sizeof octets, 0, q, 1, m), EINVAL);
    FAILS(exs_send(ends[0], NULL, 10, 0, q, 1, m), EINVAL);
    FAILS(exs_recv(ends[0], octets + 8990, 11, 0, q, 1, m), EINVAL);
    FAILS(exs_send(ends[0], NULL, 10, 0, q, 1, EXS_MHANDLE_UNREGISTERED), EFAULT);
    FAILS(exs_recv(ends[0], NULL, 10, 0, q, 1, EXS_MHANDLE_UNREGISTERED), EFAULT);
    FAILS(exs_recv(ends[0], NULL, 10000, 0, q, 1, EXS_MHANDLE_UNREGISTERED), EFAULT);
    FAILS(exs_send(ends[0], (void *)64, 10000, 0, q, 1, EXS_MHANDLE_UNREGISTERED), EFAULT);
    FAILS(exs_send(ends[0], octets, (size_t)-1, 0, q, 1, EXS_MHANDLE_UNREGISTERED), EMSGSIZE);
    FAILS(exs_recv(ends[0], octets, (size_t)1 << 32, 0, q, 1, EXS_MHANDLE_UNREGISTERED), EMSGSIZE);
    FAILS(exs_recv(ends[0], octets, (size_t)1 << 32, 0, q, 1, m), EMSGSIZE);
    CHECK(exs_mregister(NULL, 100, 0) == EXS_MHANDLE_INVALID && errno == EFAULT);
    CHECK(exs_mregister((void *)64, 100, 0) == EXS_MHANDLE_INVALID && errno == EFAULT);
    CHECK(exs_mregister(octets, (size_t)-100, 0) == EXS_MHANDLE_INVALID);
    CHECK(exs_mregister(octets, 100, 2) == EXS_MHANDLE_INVALID && errno == EINVAL);

    exs_iovec_t pieces[2] = {{octets, 10, m}, {octets, (size_t)-1, EXS_MHANDLE_UNREGISTERED}};
    exs_msghdr_t message;
    memset(&message, 0, sizeof message);
    FAILS(exs_sendmsg(ends[0], NULL, 0, q, 1), EFAULT);
    FAILS(exs_recvmsg(ends[0], NULL, 0, q, 1), EFAULT);
    message.msg_iovlen = -1;
    FAILS(exs_sendmsg(ends[0], &message, 0, q, 1), EINVAL);
    message.msg_iovlen = 1;
    FAILS(exs_recvmsg(ends[0], &message, 0, q, 1), EFAULT);
    message.msg_iov = pieces, message.msg_iovlen = 2;
    FAILS(exs_sendmsg(ends[0], &message, 0, q, 1), EMSGSIZE);
    pieces[1].iov_len = 10, pieces[1].iov_base = NULL;
    FAILS(exs_recvmsg(ends[0], &message, 0, q, 1), EFAULT);
    pieces[1].iov_base = octets, pieces[1].iov_mhandle = 12345;
    FAILS(exs_sendmsg(ends[0], &message, 0, q, 1), EINVAL);
    FAILS(exs_sendfile(ends[0], NULL, 1, 0, q, 1), EFAULT);
    FAILS(exs_sendfile(ends[0], NULL, -1, 0, q, 1), EINVAL);

    FAILS(exs_sync_send(ends[0], NULL, 10, 0), EFAULT);
    FAILS(exs_sync_recv(ends[0], NULL, 10, 0), EFAULT);
    FAILS(exs_sync_sendmsg(ends[0], NULL, 0), EFAULT);
    FAILS(exs_sync_recvmsg(ends[0], NULL, 0), EFAULT);
    FAILS(exs_sync_readv(ends[0], NULL, -1), EINVAL);
    FAILS(exs_sync_writev(ends[0], NULL, 2), EFAULT);
    FAILS(exs_sync_poll(NULL, 2, 0), EFAULT);
    FAILS(exs_sync_select(-1, NULL, NULL, NULL, NULL), EINVAL);
    FAILS(exs_recycle_rcv_buffer(ends[0], octets), EINVAL);
    FAILS(exs_recycle_rcv_buffer(ends[0], NULL), EFAULT);
    CHECK(exs_qcount(q) == 0);
}

static void arguments(const int ends[2]) {
    struct sockaddr_in address = loopback(1);
    socklen_t len = sizeof address, zero = 0;
    struct timeval never = {-1, 0};
    exs_event_t event;
    int value = 7, fd = exs_socket(AF_INET, SOCK_STREAM, 0);
    FAILS(exs_init(0), EINVAL);
    FAILS(exs_init(2), EINVAL);
    CHECK(exs_qcreate(0) == EXS_QHANDLE_INVALID && exs_qcreate(-5) == EXS_QHANDLE_INVALID);
    CHECK(exs_qcreate(EXS_EVTVEC_MAX + 1) == EXS_QHANDLE_INVALID && errno == EINVAL);
    FAILS(exs_qdequeue(q, NULL, 1, NULL), EFAULT);
    FAILS(exs_qdequeue(q, &event, 1, &never), EINVAL);
    CHECK(exs_qdequeue(q, NULL, 0, NULL) == 0);
    FAILS(exs_qmodify(q, EXS_QATTR_WAIT, 3), EINVAL);
    FAILS(exs_qmodify(q, EXS_QATTR_EVENTS, 3), EINVAL);
    FAILS(exs_qmodify(q, 77, 3), EINVAL);
    FAILS(exs_qstatus(q, EXS_QATTR_DEPTH, NULL), EFAULT);
    CHECK(exs_qstatus(q, EXS_QATTR_DEPTH, &value) == 0 && value == 4);
    CHECK(exs_qstatus(q, EXS_QATTR_EVENTS, &value) == 0 && value == 0);
    for (int wait = EXS_WAIT_BUSY_POLL; wait >= EXS_WAIT_ADAPTIVE; wait--) {
        struct timeval soon = {0, 1000};
        CHECK(exs_qmodify(q, EXS_QATTR_WAIT, wait) == 0);
        CHECK(exs_qstatus(q, EXS_QATTR_WAIT, &value) == 0 && value == wait);
        CHECK(exs_qdequeue(q, &event, 1, &soon) == 0);
    }
    FAILS(exs_bind(fd, NULL, len), EFAULT);
    FAILS(exs_sync_connect(fd, NULL, len), EFAULT);
    FAILS(exs_bind(fd, (struct sockaddr *)&address, 3), EINVAL);
    FAILS(exs_connect(fd, NULL, len, q, 1), EFAULT);
    FAILS(exs_accept(fd, NULL, 1, q, 1), EINVAL);
    FAILS(exs_accept(fd, NULL, 0, q, 1), EINVAL);
    FAILS(exs_accept(fd, NULL, -1, q, 1), EINVAL);
    FAILS(exs_send(fd, octets, 1, 0, q, 1, EXS_MHANDLE_UNREGISTERED), ENOTCONN);
    FAILS(exs_getpeername(fd, (struct sockaddr *)&address, &len), ENOTCONN);
    FAILS(exs_getsockname(fd, NULL, &len), EFAULT);
    FAILS(exs_getsockname(fd, (struct sockaddr *)&address, NULL), EFAULT);
    FAILS(exs_getpeername(ends[0], NULL, &len), EFAULT);
    FAILS(exs_poll(ends[0], 0, q, 1), EINVAL);
    FAILS(exs_shutdown(ends[0], 9, q, 1), EINVAL);
    FAILS(exs_cancel(ends[0], 1, 8), EINVAL);
    FAILS(exs_setsockopt(fd, SOL_SOCKET, SO_ASYNC_RECV_TIMEOUT, &value, sizeof value), EINVAL);
    FAILS(exs_setsockopt(fd, SOL_SOCKET, SO_LINGER, NULL, 8), EFAULT);
    FAILS(exs_getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, NULL), EFAULT);
    FAILS(exs_getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &zero), EINVAL);
    FAILS(exs_fcntl(fd, EXS_F_SET(EXS_WINDOW), -1), EINVAL);
    FAILS(exs_fcntl(fd, EXS_F_SET(99), 1), EINVAL);
    FAILS(exs_fcntl(ends[0], EXS_F_SET(EXS_WINDOW), 64), EINVAL);
    FAILS(exs_fcntl(fd, EXS_F_SET(EXS_WINDOW), 7), EINVAL);
    FAILS(exs_fcntl(fd, EXS_F_SET(EXS_RING), 100), EINVAL);
    CHECK(exs_fcntl(fd, EXS_F_GET(EXS_WINDOW)) == 32 && exs_fcntl(fd, EXS_F_SET(EXS_WINDOW), 8) == 0);
    CHECK(exs_fcntl(fd, EXS_F_GET(EXS_WINDOW)) == 8);
    CHECK(exs_listen(fd, 1) == 0);
    FAILS(exs_connect(fd, (struct sockaddr *)&address, len, q, 1), EINVAL);
    CHECK(exs_close(fd, EXS_QHANDLE_INVALID, 0) == 0);
    CHECK(strcmp(exs_strevent(EXS_EVT_SEND), "EXS_EVT_SEND") == 0 && strcmp(exs_strevent(-3), "no event") == 0);

    /* The loopback interface has nobody there. */
    fd = exs_socket(AF_INET, SOCK_STREAM, 0);
    len = sizeof address;
    CHECK(exs_connect(fd, (struct sockaddr *)&address, len, q, 1) == 0);
    CHECK(take(q, EXS_EVT_CONNECT, 1).error == ECONNREFUSED);
    len = sizeof value;
    CHECK(exs_getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &len) == 0 && value == ECONNREFUSED);
    CHECK(exs_close(fd, EXS_QHANDLE_INVALID, 0) == 0);
}

/* What Weft has not. */
static void missing(const int ends[2], exs_mhandle_t m) {
    FAILS(exs_socket(AF_INET, SOCK_DGRAM, 0), EOPNOTSUPP);
    FAILS(exs_socket(AF_INET, SOCK_RAW, 0), EOPNOTSUPP);
    FAILS(exs_socket(AF_UNIX, SOCK_STREAM, 0), EOPNOTSUPP);
    FAILS(exs_socket(27 /* AF_IB */, SOCK_STREAM, 0), EOPNOTSUPP);
    FAILS(exs_socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EOPNOTSUPP);
    FAILS(exs_qmodify(q, EXS_QATTR_SIGNAL, 1), ENOTSUP);
    FAILS(exs_qmodify(q, EXS_QATTR_DEPTH, 100), ENOTSUP);
    FAILS(exs_mmodify(1, 0), ENOTSUP);
    FAILS(exs_send(ends[0], octets, 1, MSG_OOB, q, 1, EXS_MHANDLE_UNREGISTERED), EOPNOTSUPP);
    FAILS(exs_recv(ends[0], octets, 1, MSG_OOB, q, 1, EXS_MHANDLE_UNREGISTERED), EOPNOTSUPP);
    FAILS(exs_recv(ends[0], octets, 1, MSG_PEEK, q, 1, EXS_MHANDLE_UNREGISTERED), EOPNOTSUPP);
    FAILS(exs_recv(ends[0], octets, 1, EXS_MSG_INPLACE, q, 1, EXS_MHANDLE_UNREGISTERED), EOPNOTSUPP);
    exs_iovec_t piece = {octets, 1, EXS_MHANDLE_UNREGISTERED};
    exs_msghdr_t message;
    memset(&message, 0, sizeof message);
    message.msg_iov = &piece, message.msg_iovlen = 1;
    FAILS(exs_recvmsg(ends[0], &message, EXS_MSG_INPLACE, q, 1), EOPNOTSUPP);
    message.msg_control = octets, message.msg_controllen = 64;
    FAILS(exs_sendmsg(ends[0], &message, 0, q, 1), EOPNOTSUPP);
    FAILS(exs_recvmsg(ends[0], &message, 0, q, 1), EOPNOTSUPP);
    FAILS(exs_sync_msendmsg(ends[0], &message, 0), EOPNOTSUPP);
    FAILS(exs_sync_mrecvmsg(ends[0], &message, 0), EOPNOTSUPP);
    struct msghdr plain;
    memset(&plain, 0, sizeof plain);
    plain.msg_control = octets, plain.msg_controllen = 64;
    FAILS(exs_sync_sendmsg(ends[0], &plain, 0), EOPNOTSUPP);
    FAILS(exs_sync_msend(ends[0], octets, 1, MSG_DONTWAIT, m), EOPNOTSUPP);
    FAILS(exs_sync_mrecv(ends[0], octets, 1, MSG_PEEK, m), EOPNOTSUPP);
    FAILS(exs_sync_send(ends[0], octets, 1, MSG_OOB), EOPNOTSUPP);
    FAILS(exs_sync_recv(ends[0], octets, 1, MSG_OOB), EOPNOTSUPP);
    FAILS(exs_setsockopt(ends[0], SOL_SOCKET, SO_BROADCAST, octets, 4), ENOPROTOOPT);
    FAILS(exs_fcntl(ends[0], F_GETOWN), EOPNOTSUPP);
    CHECK(exs_qcount(q) == 0);
}

/* Memory that cannot be written is for sends alone. */
static void read_only(const int ends[2]) {
    static const char text[] = "a text";
    char there[sizeof text];
    exs_mhandle_t m = exs_mregister((void *)(uintptr_t)text, sizeof text, 0);
    CHECK(m > 0);
    FAILS(exs_recv(ends[0], (void *)(uintptr_t)text, 1, 0, q, 1, m), EFAULT);
    CHECK(exs_send(ends[0], text, sizeof text, 0, q, 2, m) == 0 && take(q, EXS_EVT_SEND, 2).error == 0);
    CHECK(exs_sync_recv(ends[1], there, sizeof there, MSG_WAITALL) == sizeof there);
    CHECK(strcmp(there, text) == 0 && exs_mderegister(m) == 0);
}

/* Memory that has gone ends its connection only, and the side to which it belonged hears why. */
static void gone_memory(void) {
    enum { LEN = 1 << 20 };
    int ends[2];
    make_pair(SOCK_SEQPACKET, q, ends, NULL);
    char *memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    exs_mhandle_t m = exs_mregister(memory, LEN, 0);
    CHECK(m > 0 && munmap(memory, LEN) == 0);
    CHECK(exs_recv(ends[1], memory, LEN, 0, q, 1, m) == 0);
    CHECK(exs_send(ends[0], octets, sizeof octets, 0, q, 2, EXS_MHANDLE_UNREGISTERED) == 0);
    exs_event_t events[2];
    CHECK(exs_qdequeue(q, events, -2, NULL) == 2);
    for (int i = 0; i < 2; i++) CHECK(events[i].error == (events[i].type == EXS_EVT_RECV ? EFAULT : ECONNRESET));
    CHECK(exs_close(ends[0], EXS_QHANDLE_INVALID, 0) == 0 && exs_close(ends[1], EXS_QHANDLE_INVALID, 0) == 0);
    CHECK(exs_mderegister(m) == 0);
}

/* Names that are in use stay. */
static void busy(int ends[2], exs_mhandle_t m) {
    for (int i = 0; i < 4; i++) CHECK(exs_recv(ends[0], octets + i, 1, 0, q, i, m) == 0);
    FAILS(exs_recv(ends[0], octets, 1, 0, q, 5, m), EAGAIN);
    FAILS(exs_qdelete(q), EBUSY);
    FAILS(exs_mderegister(m), EBUSY);
    CHECK(exs_close(ends[1], EXS_QHANDLE_INVALID, 0) == 0);
    for (int i = 0; i < 4; i++) {
        exs_event_t event = take(q, EXS_EVT_RECV, i);
        CHECK(event.error == 0 && event.u.xfer.len == 0 && event.u.xfer.is_end == 1);
    }
    CHECK(exs_close(ends[0], q, 9) == 0);
    CHECK(take(q, EXS_EVT_CLOSE, 9).error == 0);
}

int main(void) {
    int ends[2];
    CHECK(exs_init(EXS_VERSION) == 0);
    q = exs_qcreate(4);
    exs_mhandle_t m = exs_mregister(octets, sizeof octets, 0);
    CHECK(m > 0);
    make_pair(SOCK_STREAM, q, ends, NULL);
    int gone = exs_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(exs_close(gone, EXS_QHANDLE_INVALID, 0) == 0);
    sockets(-1);
    sockets(0);
    sockets(9999);
    sockets(gone);
    exs_qhandle_t gone_queue = exs_qcreate(1);
    CHECK(exs_qdelete(gone_queue) == 0);
    queues(EXS_QHANDLE_INVALID, ends);
    queues(0, ends);
    queues(m, ends);
    queues(gone_queue, ends);
    exs_mhandle_t gone_handle = exs_mregister(octets, 10, 0);
    CHECK(exs_mderegister(gone_handle) == 0);
    handles(EXS_MHANDLE_INVALID, ends);
    handles(0, ends);
    handles(q, ends);
    handles(gone_handle, ends);
    lengths(ends, m);
    arguments(ends);
    missing(ends, m);
    read_only(ends);
    gone_memory();
    busy(ends, m);
    CHECK(exs_mderegister(m) == 0 && exs_qdelete(q) == 0);
    FAILS(exs_mderegister(m), EINVAL);
    puts("ok");
    return 0;
}
