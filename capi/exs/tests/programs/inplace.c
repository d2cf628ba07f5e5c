/* Messages where they came, options that both ends agree on, timeouts, signals, forks, the descriptor of a queue. */
#include "common.h"
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static exs_qhandle_t q;
static char from[6000], to[6000];

static void small(int fd) {
    int small = exs_fcntl(fd, EXS_F_GET(EXS_SMALL_PACKET_MAX)) == 1024 ? 2000 : 0;
    CHECK(exs_fcntl(fd, EXS_F_SET(EXS_SMALL_PACKET_MAX), small) == 0);
    CHECK(exs_fcntl(fd, EXS_F_SET(EXS_RECV_CREDITS), 2) == 0);
}

static int is_readable(int fd) {
    struct pollfd one = {fd, POLLIN, 0};
    return poll(&one, 1, 0);
}

static void in_place(const int ends[2], exs_mhandle_t m) {
    CHECK(exs_recv(ends[1], to, sizeof to, EXS_MSG_INPLACE, q, 1, m) == 0);
    CHECK(exs_send(ends[0], from, 1500, 0, q, 2, EXS_MHANDLE_UNREGISTERED) == 0);
    exs_event_t event = take(q, EXS_EVT_RECV, 1);
    CHECK(event.error == 0 && event.flags == EXS_MSG_INPLACE && event.u.xfer.len == 1500);
    CHECK(event.u.xfer.buf != to && memcmp(event.u.xfer.buf, from, 1500) == 0);
    /* The sender hears of it when it has been given back. */
    CHECK(exs_qcount(q) == 0);
    FAILS(exs_recycle_rcv_buffer(ends[0], event.u.xfer.buf), EINVAL);
    CHECK(exs_recycle_rcv_buffer(ends[1], event.u.xfer.buf) == 0);
    CHECK(take(q, EXS_EVT_SEND, 2).error == 0);
    FAILS(exs_recycle_rcv_buffer(ends[1], event.u.xfer.buf), EINVAL);

    /* A longer one is read into the receive. */
    CHECK(exs_recv(ends[1], to, sizeof to, EXS_MSG_INPLACE, q, 3, m) == 0);
    CHECK(exs_send(ends[0], from, 5000, 0, q, 4, EXS_MHANDLE_UNREGISTERED) == 0);
    exs_event_t events[2];
    CHECK(exs_qdequeue(q, events, -2, NULL) == 2);
    for (int i = 0; i < 2; i++) CHECK(events[i].error == 0 && events[i].flags == EXS_MSG_DIRECT);
    CHECK(memcmp(to, from, 5000) == 0);
}

static void options(const int ends[2]) {
    struct timeval time = {0, 30000};
    struct linger linger = {1, 7};
    socklen_t len = sizeof time;
    for (int i = 0; i < 2; i++) {
        CHECK(exs_fcntl(ends[i], EXS_F_GET(EXS_SEND_CREDITS)) == 2 && exs_fcntl(ends[i], EXS_F_GET(EXS_WINDOW)) == 32);
        CHECK(exs_setsockopt(ends[i], SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    }
    CHECK(exs_setsockopt(ends[1], SOL_SOCKET, SO_ASYNC_RECV_TIMEOUT, &time, sizeof time) == 0);
    time.tv_usec = 0;
    CHECK(exs_getsockopt(ends[1], SOL_SOCKET, SO_ASYNC_RECV_TIMEOUT, &time, &len) == 0 && time.tv_usec == 30000);
    len = sizeof linger, linger.l_linger = 0;
    CHECK(exs_getsockopt(ends[1], SOL_SOCKET, SO_LINGER, &linger, &len) == 0 && linger.l_linger == 7);
    CHECK(exs_recv(ends[1], to, 10, 0, q, 5, EXS_MHANDLE_UNREGISTERED) == 0);
    CHECK(take(q, EXS_EVT_RECV, 5).error == ETIMEDOUT);
    time.tv_usec = 0;
    CHECK(exs_setsockopt(ends[1], SOL_SOCKET, SO_ASYNC_RECV_TIMEOUT, &time, sizeof time) == 0);
}

static void on_alarm(int number) { (void)number; }

/* A signal ends a wait. What has come before is not lost. */
static void signals(const int ends[2]) {
    struct sigaction action;
    exs_event_t events[2];
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    alarm(1);
    FAILS(exs_qdequeue(q, events, -1, NULL), EINTR);
    CHECK(exs_recv(ends[1], to, 10, 0, q, 6, EXS_MHANDLE_UNREGISTERED) == 0);
    CHECK(is_readable(exs_qfd(q)) == 0);
    CHECK(exs_cancel(ends[1], 6, EXS_CAF_AHANDLE | EXS_CAF_FILDES) == 1);
    CHECK(is_readable(exs_qfd(q)) == 1 && exs_qcount(q) == 1);
    alarm(1);
    CHECK(exs_qdequeue(q, events, -2, NULL) == 1 && events[0].error == ECANCELED);
    CHECK(is_readable(exs_qfd(q)) == 0);
}

/* A child has nothing of its parent's. */
static void forks(const int ends[2]) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        FAILS(exs_send(ends[0], from, 1, 0, q, 1, EXS_MHANDLE_UNREGISTERED), EBADF);
        FAILS(exs_qcount(q), EINVAL);
        CHECK(exs_qcreate(5) != EXS_QHANDLE_INVALID);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    int ends[2];
    q = exs_qcreate(16);
    for (size_t i = 0; i < sizeof from; i++) from[i] = (char)(i * 13 + i / 256);
    exs_mhandle_t m = exs_mregister(to, sizeof to, 0);
    make_pair(SOCK_SEQPACKET, q, ends, small);
    options(ends);
    in_place(ends, m);
    in_place(ends, EXS_MHANDLE_UNREGISTERED);
    signals(ends);
    forks(ends);
    in_place(ends, m);

    /* A close gives back what the program has not. */
    CHECK(exs_recv(ends[1], to, sizeof to, EXS_MSG_INPLACE, q, 1, m) == 0);
    CHECK(exs_send(ends[0], from, 10, 0, q, 2, EXS_MHANDLE_UNREGISTERED) == 0);
    CHECK(take(q, EXS_EVT_RECV, 1).flags == EXS_MSG_INPLACE);
    CHECK(exs_close(ends[1], q, 3) == 0 && exs_close(ends[0], q, 3) == 0);
    exs_event_t events[3];
    CHECK(exs_qdequeue(q, events, -3, NULL) == 3);
    for (int i = 0; i < 3; i++) CHECK(events[i].error == 0);
    CHECK(exs_mderegister(m) == 0 && exs_qdelete(q) == 0);
    puts("ok");
    return 0;
}
