/* Sockets over queue pairs between two threads: octets, waits, ends, mappings, and refusals. */
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/wait.h>

#include <rdma/rsocket.h>

#include "common.h"

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int listener(uint16_t *port)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    must(fd >= 0 && rbind(fd, (void *)&address, len) == 0 && rlisten(fd, 4) == 0);
    must(rgetsockname(fd, (void *)&address, &len) == 0 && len == sizeof address);
    *port = address.sin_port;
    must(*port != 0);
    return fd;
}

struct sockets {
    int listener, client, server;
};

static void *connect_to(void *argument)
{
    struct sockaddr_in address = loopback(*(uint16_t *)argument);
    int fd = rsocket(AF_INET, SOCK_STREAM, IPPROTO_TCP), mappings = 2;
    must(fd >= 0 && rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, &mappings, sizeof mappings) == 0);
    must(rconnect(fd, (void *)&address, sizeof address) == 0);
    return (void *)(intptr_t)fd;
}

static struct sockets connected(void)
{
    struct sockets ends;
    uint16_t port;
    pthread_t thread;
    void *client;
    ends.listener = listener(&port);
    int mappings = 2;
    must(rsetsockopt(ends.listener, SOL_RDMA, RDMA_IOMAPSIZE, &mappings, sizeof mappings) == 0);
    must(pthread_create(&thread, NULL, connect_to, &port) == 0);
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    ends.server = raccept(ends.listener, (void *)&peer, &len);
    must(ends.server >= 0 && peer.sin_family == AF_INET && len == sizeof peer);
    must(pthread_join(thread, &client) == 0);
    ends.client = (int)(intptr_t)client;
    struct sockaddr_in own;
    must(rgetsockname(ends.client, (void *)&own, &len) == 0 && own.sin_port == peer.sin_port);
    return ends;
}

static void end(struct sockets *ends)
{
    must(rclose(ends->client) == 0 && rclose(ends->server) == 0 && rclose(ends->listener) == 0);
    minus_with(EBADF, rclose(ends->client));
}

enum { TOTAL = 3000000 };

static uint8_t pattern(size_t index) { return (uint8_t)(index * 31 + (index >> 8)); }

static void *send_all(void *argument)
{
    int fd = *(int *)argument;
    uint8_t *octets = malloc(TOTAL);
    for (size_t index = 0; index < TOTAL; index++)
        octets[index] = pattern(index);
    size_t size = 1;
    for (size_t sent = 0; sent < TOTAL; size = size * 3 % 200003 + 1) {
        size_t want = size < TOTAL - sent ? size : TOTAL - sent;
        struct iovec parts[] = {{octets + sent, want / 3}, {NULL, 0}, {octets + sent + want / 3, want - want / 3}};
        must(rwritev(fd, parts, 3) == (ssize_t)want);
        sent += want;
    }
    free(octets);
    return NULL;
}

static void *receive_all(void *argument)
{
    int fd = *(int *)argument;
    static __thread uint8_t buffer[150000];
    size_t size = 1;
    for (size_t got = 0; got < TOTAL; size = size * 5 % 140009 + 1) {
        struct iovec parts[] = {{buffer, size / 2}, {buffer + size / 2, size - size / 2}};
        ssize_t count = rreadv(fd, parts, 2);
        must(count > 0 && (size_t)count <= size);
        for (ssize_t index = 0; index < count; index++)
            must(buffer[index] == pattern(got + (size_t)index));
        got += (size_t)count;
    }
    return NULL;
}

/* Messages have parts, and no control data. */
static void messages(void)
{
    struct sockets ends = connected();
    char sent[] = "in parts", got[sizeof sent] = "", control[64];
    struct iovec out[] = {{sent, 3}, {sent + 3, sizeof sent - 3}}, in = {got, sizeof got};
    struct msghdr message = {.msg_iov = out, .msg_iovlen = 2, .msg_control = control};
    struct msghdr arrived = {.msg_iov = &in, .msg_iovlen = 1, .msg_control = control, .msg_flags = MSG_TRUNC};
    must(rsendmsg(ends.client, &message, 0) == sizeof sent);
    must(rrecvmsg(ends.server, &arrived, MSG_WAITALL) == sizeof sent && strcmp(got, sent) == 0 && arrived.msg_flags == 0);
    message.msg_controllen = arrived.msg_controllen = sizeof control;
    minus_with(EOPNOTSUPP, rsendmsg(ends.client, &message, 0));
    minus_with(EOPNOTSUPP, rrecvmsg(ends.server, &arrived, 0));
    end(&ends);
}

/* Sends in both directions at a time, with two threads for each end. */
static void stream(void)
{
    struct sockets ends = connected();
    pthread_t threads[4];
    must(pthread_create(&threads[0], NULL, send_all, &ends.client) == 0);
    must(pthread_create(&threads[1], NULL, receive_all, &ends.client) == 0);
    must(pthread_create(&threads[2], NULL, send_all, &ends.server) == 0);
    must(pthread_create(&threads[3], NULL, receive_all, &ends.server) == 0);
    for (int index = 0; index < 4; index++)
        must(pthread_join(threads[index], NULL) == 0);
    end(&ends);
}

static void waiting(void)
{
    struct sockets ends = connected();
    char text[16];
    int pipes[2];
    must(pipe(pipes) == 0);
    minus_with(EAGAIN, rrecv(ends.client, text, sizeof text, MSG_DONTWAIT));
    must(rfcntl(ends.client, F_SETFL, O_NONBLOCK) == 0 && rfcntl(ends.client, F_GETFL) == O_NONBLOCK);
    minus_with(EAGAIN, rrecv(ends.client, text, sizeof text, 0));

    struct pollfd fds[] = {{ends.client, POLLIN, 0}, {pipes[0], POLLIN, 0}, {-1, POLLIN, 0}, {ends.listener, POLLIN, 0}};
    must(rpoll(fds, 4, 0) == 0 && rpoll(fds, 4, 20) == 0);
    must(write(pipes[1], "x", 1) == 1);
    must(rpoll(fds, 4, -1) == 1 && fds[0].revents == 0 && fds[1].revents == POLLIN && fds[3].revents == 0);
    must(rsend(ends.server, "hello", 5, 0) == 5);
    fds[1].fd = -1;
    must(rpoll(fds, 4, -1) == 1 && fds[0].revents == POLLIN && fds[1].revents == 0);
    fds[0].events = POLLIN | POLLOUT;
    must(rpoll(fds, 1, -1) == 1 && fds[0].revents == (POLLIN | POLLOUT));
    must(rrecv(ends.client, text, 3, MSG_PEEK) == 3 && memcmp(text, "hel", 3) == 0);
    must(rrecv(ends.client, text, sizeof text, 0) == 5 && memcmp(text, "hello", 5) == 0);

    must(rfcntl(ends.client, F_SETFL, 0) == 0);
    must(rsend(ends.server, "abc", 3, 0) == 3 && rsend(ends.server, "def", 3, 0) == 3);
    must(rrecv(ends.client, text, 6, MSG_WAITALL) == 6 && memcmp(text, "abcdef", 6) == 0);

    fd_set readable, writable;
    FD_ZERO(&readable);
    FD_ZERO(&writable);
    FD_SET(ends.client, &readable);
    FD_SET(pipes[0], &readable);
    FD_SET(ends.client, &writable);
    must(rselect(FD_SETSIZE, &readable, &writable, NULL, NULL) == 2);
    must(!FD_ISSET(ends.client, &readable) && FD_ISSET(pipes[0], &readable) && FD_ISSET(ends.client, &writable));
    struct timeval moment = {0, 1000};
    FD_ZERO(&readable);
    FD_SET(ends.client, &readable);
    must(rselect(ends.client + 1, &readable, NULL, NULL, &moment) == 0 && !FD_ISSET(ends.client, &readable));

    /* Octets that are not read fill the buffers, and can be read later. */
    must(rfcntl(ends.client, F_SETFL, O_NONBLOCK) == 0);
    static char block[10000];
    size_t sent = 0, got = 0;
    ssize_t count;
    while ((count = rsend(ends.client, block, sizeof block, 0)) > 0)
        sent += (size_t)count;
    must(count == -1 && errno == EAGAIN && sent > sizeof block);
    while (got < sent) {
        must((count = rrecv(ends.server, block, sizeof block, 0)) > 0);
        got += (size_t)count;
    }
    must(got == sent);
    fds[0].events = POLLOUT;
    must(rpoll(fds, 1, -1) == 1 && fds[0].revents == POLLOUT);
    close(pipes[0]);
    close(pipes[1]);
    end(&ends);
}

/* Connects without waiting. */
static void in_progress(void)
{
    uint16_t port;
    int ready, error, server, listening = listener(&port), client = rsocket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof error;
    struct sockaddr_in address = loopback(port);
    must(rfcntl(listening, F_SETFL, O_NONBLOCK) == 0 && rfcntl(client, F_SETFL, O_NONBLOCK) == 0);
    minus_with(EAGAIN, raccept(listening, NULL, NULL));
    minus_with(EINPROGRESS, rconnect(client, (void *)&address, sizeof address));
    struct pollfd fds[] = {{listening, POLLIN, 0}, {client, POLLOUT, 0}};
    must(rpoll(fds, 1, -1) == 1 && fds[0].revents == POLLIN);
    must((server = raccept(listening, NULL, NULL)) >= 0);
    while ((ready = rpoll(fds + 1, 1, -1)) == 0) {
    }
    must(ready == 1 && fds[1].revents == POLLOUT);
    must(rgetsockopt(client, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
    minus_with(EISCONN, rconnect(client, (void *)&address, sizeof address));
    must(rfcntl(client, F_SETFL, 0) == 0);
    char octet;
    must(rwrite(client, "1", 1) == 1 && rread(server, &octet, 1) == 1 && octet == '1');
    must(rclose(listening) == 0 && rclose(client) == 0 && rclose(server) == 0);

    client = rsocket(AF_INET, SOCK_STREAM, 0);
    minus_with(ECONNREFUSED, rconnect(client, (void *)&address, sizeof address));
    must(rclose(client) == 0);
}

static void ends_of_streams(void)
{
    struct sockets ends = connected();
    char text[8];
    must(rsend(ends.client, "last", 4, 0) == 4 && rshutdown(ends.client, SHUT_WR) == 0);
    minus_with(EPIPE, rsend(ends.client, "x", 1, 0));
    must(rrecv(ends.server, text, 4, MSG_WAITALL) == 4 && memcmp(text, "last", 4) == 0);
    must(rrecv(ends.server, text, 4, 0) == 0);
    must(rsend(ends.server, "back", 4, 0) == 4);
    must(rrecv(ends.client, text, 4, MSG_WAITALL) == 4 && memcmp(text, "back", 4) == 0);
    must(rsend(ends.server, "end", 3, 0) == 3 && rclose(ends.server) == 0);
    struct pollfd fds = {ends.client, POLLIN, 0};
    must(rpoll(&fds, 1, -1) == 1 && fds.revents == POLLIN);
    must(rrecv(ends.client, text, 8, MSG_WAITALL) == 3 && memcmp(text, "end", 3) == 0);
    must(rrecv(ends.client, text, 8, 0) == 0);
    must(rpoll(&fds, 1, -1) == 1 && fds.revents == (POLLIN | POLLHUP));
    must(rclose(ends.client) == 0 && rclose(ends.listener) == 0);

    ends = connected();
    must(rclose(ends.client) == 0);
    must(rrecv(ends.server, text, 8, 0) == 0);
    minus_with(ECONNRESET, rsend(ends.server, "x", 1, 0));
    must(rclose(ends.server) == 0 && rclose(ends.listener) == 0);
}

/* The peer's process is killed during a stream. */
static void death(void)
{
    uint16_t port;
    int pipes[2], listening = listener(&port);
    must(pipe(pipes) == 0);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        int fd = (int)(intptr_t)connect_to(&port);
        must(rsend(fd, "alive", 5, 0) == 5);
        must(write(pipes[1], "x", 1) == 1);
        for (;;)
            pause();
    }
    int server = raccept(listening, NULL, NULL);
    char text[8];
    must(server >= 0 && rrecv(server, text, 5, MSG_WAITALL) == 5 && read(pipes[0], text, 1) == 1);
    must(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    minus_with(ECONNRESET, rrecv(server, text, 8, 0));
    must(rrecv(server, text, 8, 0) == 0);
    minus_with(ECONNRESET, rsend(server, "x", 1, 0));
    must(rclose(server) == 0 && rclose(listening) == 0);
    close(pipes[0]);
    close(pipes[1]);
}

static void mappings(void)
{
    struct sockets ends = connected();
    static char area[5000], other[100], text[8];
    must(riomap(ends.server, area, sizeof area, PROT_WRITE, 0, 1000) == 1000);
    must(riomap(ends.server, other, sizeof other, PROT_WRITE, 0, -1) == (off_t)(intptr_t)other);
    minus_with(ENOMEM, riomap(ends.server, text, sizeof text, PROT_WRITE, 0, 0));
    must(riomap(ends.server, text, sizeof text, PROT_NONE, 0, 0) == 0);
    minus_with(EINVAL, riomap(ends.server, text, sizeof text, PROT_EXEC, 0, 0));
    /* The client learns of the mappings with the next octets. */
    must(rsend(ends.server, "go", 2, 0) == 2 && rrecv(ends.client, text, 2, MSG_WAITALL) == 2);
    static char filled[4000];
    memset(filled, 7, sizeof filled);
    must(riowrite(ends.client, filled, sizeof filled, 1500, 0) == sizeof filled);
    must(riowrite(ends.client, "tail", 4, 5998, 0) == 2);
    must(riowrite(ends.client, "other", 5, (off_t)(intptr_t)other, 0) == 5);
    must(riowrite(ends.client, "x", 1, 999, 0) == 0);
    must(rsend(ends.client, "ok", 2, 0) == 2 && rrecv(ends.server, text, 2, MSG_WAITALL) == 2);
    must(area[499] == 0 && area[500] == 7 && area[4499] == 7 && area[4500] == 0);
    must(area[4998] == 't' && area[4999] == 'a' && memcmp(other, "other", 6) == 0);
    minus_with(EINVAL, riounmap(ends.server, area, 10));
    must(riounmap(ends.server, area, sizeof area) == 0);
    minus_with(EINVAL, riounmap(ends.server, area, sizeof area));
    must(riomap(ends.server, area, 10, PROT_WRITE, 0, 0) == 0);
    end(&ends);
}

/* Sets options, and asks for them. */
static void options(void)
{
    static const struct {
        int level, name, set, got;
    } rows[] = {
        {SOL_SOCKET, SO_REUSEADDR, 7, 1},      {SOL_SOCKET, SO_KEEPALIVE, 1, 1},   {SOL_SOCKET, SO_OOBINLINE, 1, 1},
        {SOL_SOCKET, SO_SNDBUF, 32000, 64000}, {SOL_SOCKET, SO_RCVBUF, 8000, 16000}, {IPPROTO_TCP, TCP_NODELAY, 0, 0},
        {IPPROTO_TCP, TCP_KEEPIDLE, 9, 9},     {IPPROTO_TCP, TCP_KEEPCNT, 9, 1},   {IPPROTO_TCP, TCP_KEEPINTVL, 9, 1},
    };
    int value, fd = rsocket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof value;
    for (size_t index = 0; index < sizeof rows / sizeof *rows; index++) {
        must(rsetsockopt(fd, rows[index].level, rows[index].name, &rows[index].set, sizeof(int)) == 0);
        must(rgetsockopt(fd, rows[index].level, rows[index].name, &value, &len) == 0 && value == rows[index].got);
    }
    must(rgetsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len) == 0 && value == SOCK_STREAM);
    must(rclose(fd) == 0);
}

static void refusals(void)
{
    struct sockaddr_in address = loopback(htons(1));
    socklen_t len = sizeof(int);
    int value = 5, fd = rsocket(AF_INET, SOCK_STREAM, 0);
    char octet;
    minus_with(EOPNOTSUPP, rsocket(AF_INET, SOCK_DGRAM, 0));
    minus_with(EOPNOTSUPP, rsocket(AF_UNIX, SOCK_STREAM, 0));
    minus_with(EOPNOTSUPP, rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
    int bad[] = {-1, 0, 100000};
    for (int index = 0; index < 3; index++) {
        minus_with(EBADF, rbind(bad[index], (void *)&address, sizeof address));
        minus_with(EBADF, rrecv(bad[index], &octet, 1, 0));
        minus_with(EBADF, rsend(bad[index], &octet, 1, 0));
        minus_with(EBADF, rshutdown(bad[index], SHUT_WR));
        minus_with(EBADF, rfcntl(bad[index], F_GETFL));
        minus_with(EBADF, rgetsockopt(bad[index], SOL_SOCKET, SO_ERROR, &value, &len));
        minus_with(EBADF, raccept(bad[index], NULL, NULL));
        minus_with(EBADF, riounmap(bad[index], &octet, 1));
    }
    minus_with(ENOTCONN, rrecv(fd, &octet, 1, 0));
    minus_with(ENOTCONN, rsend(fd, &octet, 1, 0));
    minus_with(ENOTCONN, rshutdown(fd, SHUT_RDWR));
    minus_with(EINVAL, rshutdown(fd, 9));
    minus_with(EFAULT, rsend(fd, NULL, 1, 0));
    minus_with(EFAULT, rrecv(fd, NULL, 1, 0));
    minus_with(EINVAL, raccept(fd, NULL, NULL));
    minus_with(EINVAL, rconnect(fd, NULL, 0));
    minus_with(EINVAL, rwritev(fd, NULL, -1));
    minus_with(EISCONN, rsendto(fd, &octet, 1, 0, (void *)&address, sizeof address));
    minus_with(EINVAL, riomap(fd, &octet, 1, PROT_WRITE, 0, 0));
    minus_with(EOPNOTSUPP, rfcntl(fd, F_DUPFD, 0));
    minus_with(EOPNOTSUPP, rsetsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, &value, sizeof value));
    minus_with(EINVAL, rsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, 1));
    minus_with(EINVAL, rsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, NULL, sizeof value));
    must(rsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value) == 0);
    must(rgetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value == 1 && len == sizeof value);
    minus_with(EFAULT, rpoll(NULL, 1, 0));
    must(rclose(fd) == 0);
    minus_with(EBADF, rclose(fd));

    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    len = sizeof v6;
    fd = rsocket(AF_INET6, SOCK_STREAM, 0);
    must(rgetsockname(fd, (void *)&v6, &len) == 0 && v6.sin6_family == AF_INET6 && len == sizeof v6);
    must(rclose(fd) == 0);
}

int main(void)
{
    refusals();
    options();
    in_progress();
    waiting();
    ends_of_streams();
    mappings();
    stream();
    messages();
    death();
    puts("ok");
    return 0;
}
