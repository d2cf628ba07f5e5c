/*
 * A program of the ES-API, in the shape of benchmarks' clients: it keeps operations under way on a stream out of a
 * ring of buffers, takes the events when half of them have ended, and shuts down. A second process takes the octets.
 *
 *   client OCTETS
 */
#include "common.h"
#include <sys/wait.h>

enum { PENDING = 16, QUEUE = 12, EVENTS = 128, WIDTH = 20, SIZE = 50000 };

/* Takes all octets until the end by the functions of POSIX, and compares them with what was sent. */
static void sink(int control) {
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    unsigned char octets[9000];
    long long all = 0;
    ssize_t here;
    int listener = exs_sync_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(exs_sync_bind(listener, (struct sockaddr *)&address, len) == 0 && exs_sync_listen(listener, 1) == 0);
    CHECK(exs_sync_getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    CHECK(write(control, &address, sizeof address) == sizeof address);
    int fd = exs_sync_accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    while ((here = exs_sync_recv(fd, octets, sizeof octets, 0)) > 0) {
        for (ssize_t i = 0; i < here; i++, all++) {
            CHECK(octets[i] == (unsigned char)(all % SIZE % 251 + all / SIZE % WIDTH));
        }
    }
    CHECK(here == 0);
    CHECK(exs_sync_shutdown(fd, SHUT_WR) == 0);
    CHECK(exs_sync_close(fd) == 0 && exs_sync_close(listener) == 0);
    CHECK(write(control, &all, sizeof all) == sizeof all);
}

int main(int argc, char **argv) {
    long long left = argc > 1 ? atoll(argv[1]) : 20000000, sent = 0, theirs;
    int control[2], status, again = 0, pending = 0, next = 0;
    CHECK(pipe(control) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        sink(control[1]);
        return 0;
    }
    struct sockaddr_in address;
    CHECK(read(control[0], &address, sizeof address) == sizeof address);

    if (exs_init(EXS_VERSION) == -1) perror("exs_init"), exit(1);
    exs_qhandle_t queue = exs_qcreate(QUEUE);
    CHECK(queue != EXS_QHANDLE_INVALID);
    unsigned char *ring = malloc((size_t)WIDTH * SIZE);
    for (int i = 0; i < WIDTH * SIZE; i++) ring[i] = (unsigned char)(i % SIZE % 251 + i / SIZE);
    exs_mhandle_t memory = exs_mregister((void *)ring, (size_t)WIDTH * SIZE, 0);
    CHECK(memory != EXS_MHANDLE_INVALID);
    int fd = exs_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    exs_event_t events[EVENTS];
    CHECK(exs_connect(fd, (struct sockaddr *)&address, sizeof address, queue, (exs_ahandle_t)-1) == 0);
    CHECK(exs_qdequeue(queue, events, -1, NULL) == 1 && events[0].error == 0);

    while (left > 0) {
        while (left > 0 && pending < PENDING &&
               exs_send(fd, ring + next * SIZE, SIZE, 0, queue, (exs_ahandle_t)-1, memory) == 0) {
            pending++;
            sent += SIZE;
            left -= SIZE;
            next = (next + 1) % WIDTH;
        }
        if (left > 0 && pending < PENDING) {
            CHECK(errno == EAGAIN);
            again++;
        }
        int ended = exs_qdequeue(queue, events, -(pending >> 1), NULL);
        CHECK(ended == pending >> 1);
        for (int i = 0; i < ended; i++) {
            CHECK(events[i].type == EXS_EVT_SEND && events[i].error == 0 && events[i].u.xfer.len == SIZE);
            CHECK(events[i].ahandle == (exs_ahandle_t)-1);
        }
        pending -= ended;
        /* Half of one is none: it has to be waited for whole. */
        if (pending == 1) {
            CHECK(exs_qdequeue(queue, events, -1, NULL) == 1);
            pending = 0;
        }
    }
    CHECK(exs_qdequeue(queue, events, -pending, NULL) == pending);
    /* The queue has room for fewer than the program would keep under way. */
    CHECK(again > 0 && exs_qcount(queue) == 0);

    CHECK(exs_shutdown(fd, SHUT_WR, queue, 1) == 0);
    CHECK(exs_recv(fd, ring, SIZE, 0, queue, 2, memory) == 0);
    CHECK(exs_qdequeue(queue, events, -2, NULL) == 2);
    exs_event_t *end = events[0].type == EXS_EVT_RECV ? &events[0] : &events[1];
    CHECK(end->error == 0 && end->u.xfer.len == 0 && end->u.xfer.is_end == 1);
    CHECK(exs_close(fd, queue, 3) == 0);
    CHECK(exs_qdequeue(queue, events, 1, NULL) == 1 && events[0].type == EXS_EVT_CLOSE && events[0].error == 0);
    CHECK(read(control[0], &theirs, sizeof theirs) == sizeof theirs && theirs == sent);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(exs_mderegister(memory) == 0 && exs_qdelete(queue) == 0);
    free(ring);
    puts("ok");
    return 0;
}
