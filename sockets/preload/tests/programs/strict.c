// Gives bad addresses to calls on a connection, and looks for octets that got lost by that.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOW(call) do { errno = 0; long result = (long)(call); printf("%s: %ld %s\n", #call, result, \
    errno ? strerrorname_np(errno) : ""); } while (0)

static int a, b;

static void check(int is_right, const char *what) {
    if (is_right) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(1);
}

// Nothing was sent, or taken, by what went wrong.
static void still(const char *step) {
    char octets[100] = "";
    long got = recv(b, octets, sizeof octets, MSG_DONTWAIT);
    printf("%s: %ld %.20s\n", step, got, octets);
    check(write(a, "0123456789", 10) == 10, "write");
    struct pollfd item = {b, POLLIN};
    check(poll(&item, 1, -1) == 1, "poll");
}

// What a library beside the C library calls.
static long setup_rings(void) {
#ifdef __x86_64__
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_io_uring_setup), "D"(0), "S"(0) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(SYS_io_uring_setup, 0, NULL) ? -errno : 0;
#endif
}

int main(int count, char **arguments) {
    alarm(50);
    if (count > 1 && !strcmp(arguments[1], "rings")) {
        errno = 0;
        long result = syscall(SYS_io_uring_setup, 0, NULL);
        printf("%ld %s %ld\n", result, strerrorname_np(errno), setup_rings());
        fflush(stdout);
        if (count > 2) return execl(arguments[0], arguments[0], "rings", (char *)0);
        return 0;
    }
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create1(0), file = open("/proc/self/exe", O_RDONLY);
    check(!bind(listener, (void *)&name, len) && !listen(listener, 1), "listen");
    check(!getsockname(listener, (void *)&name, &len), "getsockname");
    a = socket(AF_INET, SOCK_STREAM, 0);
    check(!connect(a, (void *)&name, len) && (b = accept(listener, NULL, NULL)) > 0, "connect");
    int on = 1;
    check(!setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "setsockopt");
    char octets[100] = "";
    for (int turn = 0; turn < 400; turn++) {
        check(write(a, octets, 3) == 3 && read(b, octets, 3) == 3, "there");
        check(write(b, octets, 2) == 2 && read(a, octets, 2) == 2, "back");
        if (turn % 20 == 19) usleep(500);
    }
    // The second page cannot be used, and the third one only be read.
    char *page = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *bad = page + 4096, *edge = bad - 4, *fixed = bad + 4096;
    check(!mprotect(bad, 4096, PROT_NONE) && !mprotect(fixed, 4096, PROT_READ), "mprotect");
    struct iovec second[2] = {{octets, 4}, {bad, 4}}, both[2] = {{octets, 4}, {octets + 4, 4}};
    struct iovec *torn = (struct iovec *)(bad - sizeof *torn);
    *torn = both[0];
    struct msghdr good = {.msg_iov = both, .msg_iovlen = 2}, worse = {.msg_iov = second, .msg_iovlen = 2};
    struct msghdr lost = {.msg_iov = torn, .msg_iovlen = 2};
    struct mmsghdr many[2] = {{good}, {worse}};
    still("nothing yet");
    SHOW(write(a, bad, 4));
    SHOW(write(a, edge, 8));
    SHOW(write(a, NULL, 1));
    SHOW(write(a, bad, 0));
    still("write");
    SHOW(send(a, bad, 100, 0));
    SHOW(sendto(a, edge, 5, MSG_DONTWAIT, NULL, 0));
    SHOW(writev(a, second, 2));
    SHOW(writev(a, torn, 2));
    SHOW(writev(a, (struct iovec *)bad, 1));
    still("writev");
    SHOW(sendmsg(a, &worse, 0));
    SHOW(sendmsg(a, &lost, 0));
    SHOW(sendmsg(a, (struct msghdr *)bad, 0));
    SHOW(sendmmsg(a, many, 2, 0));
    still("sendmsg");
    SHOW(sendfile(a, file, (off_t *)bad, 10));
    still("sendfile");
    SHOW(read(b, bad, 4));
    SHOW(read(b, fixed, 4));
    SHOW(read(b, edge, 8));
    SHOW(recv(b, bad, 4, MSG_PEEK));
    SHOW(recv(b, bad, 0, 0));
    still("read");
    SHOW(readv(b, second, 2));
    SHOW(readv(b, torn, 2));
    still("readv");
    SHOW(recvmsg(b, &worse, 0));
    SHOW(recvmsg(b, &lost, 0));
    SHOW(recvmsg(b, (struct msghdr *)bad, 0));
    still("recvmsg");
    // It is bad only behind what is there.
    SHOW(read(b, bad - 10, 100));
    SHOW(poll((struct pollfd *)bad, 1, 0));
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, b, (struct epoll_event *)bad));
    struct epoll_event event = {EPOLLIN};
    SHOW(epoll_ctl(set, EPOLL_CTL_ADD, b, &event));
    SHOW(write(a, "x", 1));
    SHOW(epoll_wait(set, (struct epoll_event *)bad, 1, 1000));
    SHOW(epoll_wait(set, &event, 1, 1000));
    still("the end");
    return 0;
}
