/* Cancels a thread in each of the calls that may block. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static int listener, a, b, cleaned;
static char octets[1 << 16];

static void clean(void *unused) {
    (void)unused;
    cleaned++;
}

static void *block(void *call) {
    struct iovec piece = {octets, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    pthread_cleanup_push(clean, NULL);
    switch ((long)call) {
    case 0: read(b, octets, 1); break;
    case 1: recv(b, octets, 1, 0); break;
    case 2: recvmsg(b, &message, 0); break;
    case 3: readv(b, &piece, 1); break;
    case 4: accept(listener, NULL, NULL); break;
    case 5: for (;;) write(a, octets, sizeof octets);
    case 6: for (;;) send(a, octets, sizeof octets, 0);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void) {
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t len = sizeof name;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (void *)&name, sizeof name);
    listen(listener, 5);
    getsockname(listener, (void *)&name, &len);
    a = socket(AF_INET, SOCK_STREAM, 0);
    connect(a, (void *)&name, sizeof name);
    b = accept(listener, NULL, NULL);
    for (long call = 0; call < 7; call++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, block, (void *)call);
        if (call % 2)
            usleep(20000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        printf("%ld: cancelled %d, cleaned %d\n", call, result == PTHREAD_CANCELED, cleaned);
    }
    return 0;
}
