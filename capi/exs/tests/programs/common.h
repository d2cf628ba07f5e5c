/* What the programs of these tests share. A check that fails says where, and ends the process. */
#include <arpa/inet.h>
#include <errno.h>
#include <exs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s (errno %d: %s)\n", __FILE__, __LINE__, #condition, errno, strerror(errno));    \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

/* The call fails with this number. */
#define FAILS(call, number)                                                                                           \
    do {                                                                                                              \
        errno = 0;                                                                                                    \
        CHECK((call) == -1);                                                                                          \
        CHECK(errno == (number));                                                                                     \
    } while (0)

__attribute__((unused)) static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* Takes one event, which is of this type and has this number of the program's. */
__attribute__((unused)) static exs_event_t take(exs_qhandle_t q, int type, exs_ahandle_t a) {
    exs_event_t event;
    CHECK(exs_qdequeue(q, &event, 1, NULL) == 1);
    if (event.type != type || event.ahandle != a) {
        const char *wanted = exs_strevent(type), *got = exs_strevent(event.type);
        fprintf(stderr, "%s %ld instead of %s %ld\n", got, (long)event.ahandle, wanted, (long)a);
        exit(1);
    }
    return event;
}

/* Makes two connected sockets of this type, with this queue; `prepare` sets options of both ends, if it is not NULL. */
__attribute__((unused)) static void make_pair(int type, exs_qhandle_t q, int ends[2], void (*prepare)(int fd)) {
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int listener = exs_socket(AF_INET, type, 0);
    CHECK(listener >= 0);
    if (prepare != NULL) prepare(listener);
    CHECK(exs_bind(listener, (struct sockaddr *)&address, len) == 0);
    CHECK(exs_listen(listener, 8) == 0);
    CHECK(exs_getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    CHECK(len == sizeof address && address.sin_port != 0);
    CHECK(exs_accept(listener, NULL, 1, q, 1001) == 0);
    ends[0] = exs_socket(AF_INET, type, 0);
    CHECK(ends[0] >= 0);
    if (prepare != NULL) prepare(ends[0]);
    CHECK(exs_connect(ends[0], (struct sockaddr *)&address, len, q, 1002) == 0);
    exs_event_t events[2];
    CHECK(exs_qdequeue(q, events, -2, NULL) == 2);
    for (int i = 0; i < 2; i++) {
        CHECK(events[i].error == 0);
        if (events[i].type == EXS_EVT_ACCEPT) {
            CHECK(events[i].ahandle == 1001 && events[i].fd == listener);
            ends[1] = events[i].u.accept.fd;
        } else {
            CHECK(events[i].type == EXS_EVT_CONNECT && events[i].ahandle == 1002 && events[i].fd == ends[0]);
        }
    }
    CHECK(exs_close(listener, EXS_QHANDLE_INVALID, 0) == 0);
}
