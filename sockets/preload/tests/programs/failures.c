/* Prints the results of calls with wrong arguments. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOW(call) do { errno = 0; long result = (long)(call); printf("%s: %ld %s\n", #call, result, \
    errno ? strerrorname_np(errno) : ""); } while (0)

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    char octets[16] = "";
    struct iovec pieces[2] = {{octets, 4}, {octets, 4}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t len = sizeof name;
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(bind(listener, (void *)&name, sizeof name));
    SHOW(getsockname(listener, (void *)&name, &len));
    SHOW(accept(listener, NULL, NULL));
    SHOW(listen(listener, 5));
    SHOW(accept4(listener, NULL, NULL, 0x77));
    SHOW(fcntl(listener, F_SETFL, O_NONBLOCK));
    SHOW(accept(listener, NULL, NULL));
    int a = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    SHOW(read(a, octets, 16));
    SHOW(write(listener, octets, 0));
    SHOW(connect(a, (void *)&name, 3));
    SHOW(connect(a, (void *)&name, sizeof name));
    while (connect(a, (void *)&name, sizeof name) != 0)
        ;
    SHOW(connect(a, (void *)&name, sizeof name));
    int b = accept(listener, NULL, NULL);
    SHOW(b);
    SHOW(recv(a, octets, 16, 0));
    SHOW(recv(b, octets, 16, MSG_DONTWAIT));
    SHOW(read(b, NULL, 0));
    SHOW(recvmsg(b, &message, MSG_DONTWAIT));
    SHOW(writev(a, pieces, 2));
    SHOW(writev(a, pieces, -1));
    SHOW(readv(b, NULL, 1));
    SHOW(preadv2(b, pieces, 2, -1, 0));
    SHOW(preadv2(b, pieces, 2, 0, 0));
    SHOW(pread(b, octets, 1, 0));
    SHOW(write(a, (void *)8, 16));
    SHOW(sendfile(a, b, NULL, 10));
    SHOW(splice(b, NULL, a, NULL, 10, 0));
    SHOW(ioctl(b, FIONBIO, &on));
    SHOW(read(b, octets, 1));
    SHOW(ioctl(b, FIONREAD, &on));
    SHOW(fcntl(b, F_SETOWN, -getpgrp()));
    SHOW(fcntl(b, F_GETOWN) == -getpgrp());
    SHOW(shutdown(a, SHUT_WR));
    SHOW(send(a, octets, 1, MSG_NOSIGNAL));
    SHOW(read(b, octets, 1));
    SHOW(close(b));
    SHOW(close(b));
    SHOW(read(b, octets, 1));
    SHOW(read(-1, octets, 1));
    SHOW(read(1 << 30, octets, 1));
    SHOW(dup2(a, a));
    SHOW(dup2(99, 99));
    SHOW(dup2(a, -1));
    SHOW(dup3(a, a, 0));
    SHOW(dup(99));
    SHOW(socket(AF_INET, 77, 0));
    SHOW(socketpair(AF_INET, SOCK_STREAM, 0, pieces[0].iov_base));
    SHOW(open("/nonexistent", O_RDONLY));
    SHOW(open("/tmp", O_TMPFILE | O_RDWR, 0600) > 0);
    SHOW(syscall(SYS_read, -1, octets, 1));
    SHOW(syscall(SYS_getppid) == getppid());
    SHOW(syscall(9999));
    SHOW(eventfd(0, 0x7777));
    SHOW(close_range(5, 3, 0));
    SHOW(close_range(3, ~0U, 0));
    SHOW(read(a, octets, 1));
    return 0;
}
