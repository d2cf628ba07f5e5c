// Asks TCP_INFO of both ends of a connection while octets go to and fro.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// The first octets of the kernel's structure, which headers of the C library may not have.
struct info {
    uint8_t state, others[7];
    uint32_t words[24];
    uint64_t pacing_rate, max_pacing_rate, acked, received;
    uint32_t segments[6];
    uint64_t delivery_rate, busy, limited[2];
    uint32_t delivered[2];
    uint64_t sent, resent;
};

static int a, b;

static void check(int is_right, const char *what) {
    if (is_right) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    _exit(1);
}

static struct info ask(int descriptor) {
    struct info info = {0};
    socklen_t len = sizeof info;
    check(!getsockopt(descriptor, IPPROTO_TCP, 11, &info, &len) && len == sizeof info, "TCP_INFO");
    return info;
}

// Waits until the kernel's acknowledgements are there, and says what both ends have counted.
static void tell(const char *step, uint64_t from_a, uint64_t from_b) {
    for (;;) {
        struct info of_a = ask(a), of_b = ask(b);
        if (of_a.acked < from_a + 1 || of_b.acked < from_b || of_a.received < from_b || of_b.received < from_a) {
            usleep(1000);
            continue;
        }
        check(of_a.sent >= from_a && of_b.sent >= from_b, "octets that were sent");
        printf("%s: %ld %ld, %ld %ld\n", step, of_a.acked - 1, of_a.received, of_b.acked, of_b.received);
        return;
    }
}

int main(void) {
    alarm(50);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    check(!bind(listener, (void *)&name, len) && !listen(listener, 1), "listen");
    check(!getsockname(listener, (void *)&name, &len), "getsockname");
    a = socket(AF_INET, SOCK_STREAM, 0);
    check(!connect(a, (void *)&name, len) && (b = accept(listener, NULL, NULL)) > 0, "connect");
    char octets[1000] = "";
    for (int turn = 0; turn < 400; turn++) {
        check(write(a, octets, 3) == 3 && read(b, octets, 3) == 3, "there");
        check(write(b, octets, 2) == 2 && read(a, octets, 2) == 2, "back");
        if (turn % 20 == 19) usleep(500);
    }
    tell("all was read", 1200, 800);
    check(write(a, octets, 1000) == 1000 && read(b, octets, 300) == 300, "unread octets");
    tell("some wait", 2200, 800);
    // The kernel cuts the structure anywhere.
    socklen_t cuts[] = {0, 1, 119, 120, 121, 122, 127, 128, 130, 136, 199, 200, 201, 208};
    for (int at = 0; at < sizeof cuts / sizeof *cuts; at++) {
        unsigned char cut[300];
        memset(cut, 0xaa, sizeof cut);
        len = cuts[at];
        int result = getsockopt(a, IPPROTO_TCP, 11, cut, &len);
        printf("%d: %d %d, %02x%02x %02x%02x %d\n", cuts[at], result, len, cut[120], cut[121], cut[128], cut[129],
               cut[200] == 0xaa);
    }
    len = sizeof octets;
    check(!syscall(SYS_getsockopt, b, IPPROTO_TCP, 11, octets, &len), "by number");
    printf("by number: %ld\n", (long)((struct info *)octets)->received);
    printf("%d ", getsockopt(a, IPPROTO_TCP, 11, NULL, &len));
    printf("%s ", strerrorname_np(errno));
    printf("%d ", getsockopt(a, IPPROTO_TCP, 11, octets, NULL));
    printf("%s\n", strerrorname_np(errno));
    // What waits in a ring goes by TCP now. It counts once.
    int on = 1;
    check(!setsockopt(b, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on), "setsockopt");
    tell("back", 2200, 800);
    check(write(a, octets, 10) == 10 && recv(b, octets, 710, MSG_WAITALL) == 710, "the rest");
    tell("the rest", 2210, 800);
    return 0;
}
