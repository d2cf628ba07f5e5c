/* Prints what the two ends of a connection hear when one of them is closed in different ways. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static int listener, a, b;
static struct sockaddr_in name = {.sin_family = AF_INET};

static volatile sig_atomic_t pipes;

static void count(int signal) {
    (void)signal;
    pipes++;
}

static void show(const char *what, long result) {
    printf(" %s %ld%s%s;", what, result, result < 0 ? " " : "", result < 0 ? strerrorname_np(errno) : "");
}

/* A connection over which both ends have talked so many times. */
static void join(int turns) {
    char octets[8];
    a = socket(AF_INET, SOCK_STREAM, 0);
    connect(a, (void *)&name, sizeof name);
    b = accept(listener, NULL, NULL);
    for (int turn = 0; turn < turns; turn++) {
        write(a, octets, sizeof octets);
        recv(b, octets, sizeof octets, MSG_WAITALL);
        write(b, octets, sizeof octets);
        recv(a, octets, sizeof octets, MSG_WAITALL);
        if (turn % 10 == 0)
            usleep(5000);
    }
}

/* Waits until the end of the other side has come. */
static void settle(int descriptor) {
    struct pollfd item = {descriptor, POLLRDHUP, 0};
    poll(&item, 1, 10000);
    usleep(20000);
}

/* One end only sends, so that the other direction stays on TCP. That one ends while what is sent is not read yet. */
static void end_below_a_full_ring(void) {
    static char octets[1 << 16];
    struct timeval soon = {0, 50000};
    long sent = 0, taken = 0, len;
    a = socket(AF_INET, SOCK_STREAM, 0);
    connect(a, (void *)&name, sizeof name);
    b = accept(listener, NULL, NULL);
    for (int turn = 0; turn < 100; turn++) {
        write(a, octets, 8);
        recv(b, octets, 8, MSG_WAITALL);
        if (turn % 10 == 0)
            usleep(5000);
    }
    setsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    while ((len = send(a, octets, sizeof octets, 0)) > 0)
        sent += len;
    shutdown(b, SHUT_WR);
    settle(a);
    show("full", send(a, octets, sizeof octets, 0));
    show("end", recv(a, octets, sizeof octets, 0));
    while (taken < sent && (len = recv(b, octets, sizeof octets, 0)) > 0)
        taken += len;
    show("lost", sent - taken);
    puts("");
    close(a);
    close(b);
}

/* An option wants b back on TCP behind the end of a stream that is not read: the kernel would take nothing of the rest. */
static void go_back_behind_the_end(void) {
    char octets[64] = "";
    int on = 1;
    join(100);
    write(a, octets, 30);
    shutdown(a, SHUT_WR);
    setsockopt(b, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on);
    show("behind the end", recv(b, octets, sizeof octets, 0));
    puts("");
    close(a);
    close(b);
}

/* As above, below a full ring whose rest the kernel cannot take. Then b ends what it sends past the library. */
static void end_behind_the_way_back(void) {
    static char octets[1 << 16];
    struct timeval soon = {0, 50000};
    int on = 1, little = 4096;
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    join(100);
    setsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    setsockopt(a, SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
    while (send(a, octets, sizeof octets, 0) > 0)
        ;
    setsockopt(b, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on);
    syscall(SYS_shutdown, b, SHUT_WR);
    settle(a);
    show("behind the way back", send(a, octets, sizeof octets, 0));
    puts("");
    close(a);
    close(b);
}

/* The other end is killed below a full ring, and only room is waited for. */
static void die_below_a_full_ring(void) {
    static char octets[1 << 16];
    struct timeval soon = {0, 50000};
    pid_t child = fork();
    if (!child) {
        b = accept(listener, NULL, NULL);
        for (int turn = 0; turn < 100; turn++) {
            recv(b, octets, 8, MSG_WAITALL);
            write(b, octets, 8);
        }
        pause();
    }
    a = socket(AF_INET, SOCK_STREAM, 0);
    connect(a, (void *)&name, sizeof name);
    setsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    for (int turn = 0; turn < 100; turn++) {
        write(a, octets, 8);
        recv(a, octets, 8, MSG_WAITALL);
        if (turn % 10 == 0)
            usleep(5000);
    }
    while (send(a, octets, sizeof octets, 0) > 0)
        ;
    kill(child, SIGKILL);
    struct pollfd item = {a, POLLOUT, 0};
    show("poll", poll(&item, 1, 10000));
    show("room", item.revents & POLLOUT);
    show("send", send(a, octets, sizeof octets, MSG_DONTWAIT));
    puts("");
    close(a);
}

int main(void) {
    char octets[64] = "";
    struct linger linger, none = {1, 0}, some = {1, 5};
    socklen_t len = sizeof name, linger_len = sizeof linger;
    int file = memfd_create("endings", 0);
    write(file, octets, sizeof octets);
    signal(SIGPIPE, count);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (void *)&name, sizeof name);
    listen(listener, 5);
    getsockname(listener, (void *)&name, &len);
    /* From the ninth on the ends have not talked yet: the library asks for an upgrade while they are closed. */
    for (int number = 0; number < 16; number++) {
        int way = number % 8;
        join(number < 8 ? 100 : 0);
        printf("%d:", number);
        if (way == 1 || way == 2)
            write(a, octets, 30);
        if (way == 3)
            write(b, octets, 30);
        if (way == 4)
            setsockopt(b, SOL_SOCKET, SO_LINGER, &none, sizeof none);
        if (way == 5)
            setsockopt(b, SOL_SOCKET, SO_LINGER, &some, sizeof some);
        if (way == 2) {
            dup2(listener, b);
            getsockopt(b, SOL_SOCKET, SO_LINGER, &linger, &linger_len);
            show("linger of the next", linger.l_onoff);
        } else if (way == 6) {
            shutdown(b, SHUT_WR);
        } else if (way == 7) {
            shutdown(b, SHUT_RDWR);
        } else {
            close(b);
        }
        settle(a);
        show("recv", recv(a, octets, sizeof octets, 0));
        show("again", recv(a, octets, sizeof octets, 0));
        show("send", send(a, octets, 1, 0));
        usleep(20000);
        show("again", send(a, octets, 1, 0));
        off_t start = 0;
        show("file", sendfile(a, file, &start, 10));
        show("no octets of a file", sendfile(a, file, &start, 0));
        if (way == 6) {
            show("other's recv", recv(b, octets, 1, MSG_DONTWAIT));
            show("other's send", send(b, octets, 1, 0));
        }
        if (way == 7) {
            show("other's file", sendfile(b, file, &start, 10));
            show("other's send", send(b, octets, 1, 0));
            show("other's recv", recv(b, octets, 1, MSG_PEEK));
        }
        show("signals", pipes);
        close(a);
        close(b);
        puts("");
    }
    end_below_a_full_ring();
    go_back_behind_the_end();
    end_behind_the_way_back();
    die_below_a_full_ring();
    return 0;
}
