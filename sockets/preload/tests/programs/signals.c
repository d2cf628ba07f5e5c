/* A signal handler sends on the socket that its thread is sending on, and now and then jumps out. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 100, SHORT = 7, WINDOW = 16384 };
static int a, b;
static atomic_long written, taken, wrong, refused;
static volatile sig_atomic_t signals, may_jump;
static sigjmp_buf back;

static void handle(int signal) {
    char octets[SHORT];
    int error = errno;
    (void)signal;
    memset(octets, 'b', sizeof octets);
    ssize_t result = write(a, octets, sizeof octets);
    if (result == SHORT)
        written += SHORT;
    else
        refused++;
    errno = error;
    if (++signals % 16 == 0 && may_jump)
        siglongjmp(back, 1);
}

static void *read_all(void *unused) {
    char octets[4096], last = 0;
    long run = 0;
    ssize_t len;
    (void)unused;
    while ((len = read(b, octets, sizeof octets)) > 0) {
        for (ssize_t at = 0; at < len; at++) {
            if (octets[at] != last) {
                wrong += run % (last == 'a' ? LONG : SHORT) != 0;
                last = octets[at];
                run = 0;
            }
            run++;
        }
        taken += len;
    }
    return NULL;
}

int main(void) {
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t len = sizeof name;
    int jumps = getenv("JUMPS") != NULL;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (void *)&name, sizeof name);
    listen(listener, 5);
    getsockname(listener, (void *)&name, &len);
    a = socket(AF_INET, SOCK_STREAM, 0);
    connect(a, (void *)&name, sizeof name);
    b = accept(listener, NULL, NULL);
    char octets[LONG];
    memset(octets, 'a', sizeof octets);
    pthread_t reader;
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    pthread_create(&reader, NULL, read_all, NULL);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 50}, {0, 50}};
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec++;
    sigsetjmp(back, 1);
    setitimer(ITIMER_REAL, &timer, NULL);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
        /* A jump leaves it open whether a call has sent its octets: so only the socket knows how many are on their way.
           Without room a call sends a part of its octets, and waits in the middle of the message. */
        int unread = 0;
        ioctl(b, FIONREAD, &unread);
        if (unread > WINDOW)
            continue;
        /* A thread that is jumped out of a call of the kernel's keeps the connection on TCP. */
        may_jump = jumps && written > 1000000;
        if (write(a, octets, sizeof octets) == LONG)
            written += LONG;
        may_jump = 0;
    } while (signals <= 100 || now.tv_sec < end.tv_sec || now.tv_nsec < end.tv_nsec);
    timer = (struct itimerval){0};
    setitimer(ITIMER_REAL, &timer, NULL);
    shutdown(a, SHUT_WR);
    pthread_join(reader, NULL);
    printf("signals %d, wrong %ld, refused %ld, lost %d\n", signals > 100, wrong, refused, taken < written);
    return 0;
}
