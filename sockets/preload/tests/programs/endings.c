/* Prints what the two ends of a connection hear when one of them is closed in different ways. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listener, a, b;
static struct sockaddr_in name = {.sin_family = AF_INET};

static void show(const char *what, long result) {
    printf(" %s %ld%s%s;", what, result, result < 0 ? " " : "", result < 0 ? strerrorname_np(errno) : "");
}

/* A connection over which both ends have talked for a while. */
static void join(void) {
    char octets[8];
    a = socket(AF_INET, SOCK_STREAM, 0);
    connect(a, (void *)&name, sizeof name);
    b = accept(listener, NULL, NULL);
    for (int turn = 0; turn < 100; turn++) {
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

int main(void) {
    char octets[64] = "";
    struct linger linger, none = {1, 0}, some = {1, 5};
    socklen_t len = sizeof name, linger_len = sizeof linger;
    signal(SIGPIPE, SIG_IGN);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (void *)&name, sizeof name);
    listen(listener, 5);
    getsockname(listener, (void *)&name, &len);
    for (int way = 0; way < 8; way++) {
        join();
        printf("%d:", way);
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
        if (way == 6) {
            show("other's recv", recv(b, octets, 1, MSG_DONTWAIT));
            show("other's send", send(b, octets, 1, 0));
        }
        close(a);
        close(b);
        puts("");
    }
    return 0;
}
