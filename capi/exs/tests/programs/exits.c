/* Programs that end without having closed their sockets: the peer gets all octets, or sees that some are missing. */
#include "common.h"
#include <sys/wait.h>

enum { LONG = 10000000, SHORT = 1000 };

static char octets[LONG];

/* Connects to the port, sends, and ends. */
static int child(int port, int plain, size_t len) {
    struct sockaddr_in address = loopback(ntohs((uint16_t)port));
    int fd = exs_sync_socket(AF_INET, SOCK_STREAM, 0);
    if (plain) CHECK(exs_sync_fcntl(fd, EXS_F_SET(EXS_PLAIN), EXS_PLAIN_ALWAYS) == 0);
    CHECK(exs_sync_connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(exs_sync_send(fd, octets, len, 0) == (ssize_t)len);
    /* The end of the program is the end of the socket. */
    return 0;
}

/* Starts this program again, as a child without anything of Weft. */
static pid_t start(char *self, int port, int plain, size_t len) {
    char words[3][16];
    snprintf(words[0], sizeof words[0], "%d", port);
    snprintf(words[1], sizeof words[1], "%d", plain);
    snprintf(words[2], sizeof words[2], "%zu", len);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execl(self, self, words[0], words[1], words[2], (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void ends_well(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A peer of EXS gets all, and then the end. */
static void over_rdma(char *self, size_t len) {
    struct sockaddr_in address = loopback(0);
    socklen_t room = sizeof address;
    int listener = exs_sync_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(exs_sync_bind(listener, (struct sockaddr *)&address, room) == 0 && exs_sync_listen(listener, 1) == 0);
    CHECK(exs_sync_getsockname(listener, (struct sockaddr *)&address, &room) == 0);
    pid_t pid = start(self, address.sin_port, 0, len);
    int fd = exs_sync_accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    size_t came = 0;
    ssize_t here;
    while ((here = exs_sync_recv(fd, octets, 100000, 0)) > 0) came += (size_t)here;
    CHECK(here == 0 && came == len);
    CHECK(exs_sync_close(fd) == 0 && exs_sync_close(listener) == 0);
    ends_well(pid);
}

/* A program of the system gets all, and then the end. If it is slow, it may get less, and then a reset. */
static void over_plain_tcp(char *self, size_t len, int is_late) {
    struct sockaddr_in address = loopback(0);
    socklen_t room = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), small = 4096;
    CHECK(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    CHECK(bind(listener, (struct sockaddr *)&address, room) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &room) == 0);
    pid_t pid = start(self, address.sin_port, 1, len);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    if (is_late) ends_well(pid);
    size_t came = 0;
    ssize_t here;
    while ((here = recv(fd, octets, 100000, 0)) > 0) came += (size_t)here;
    CHECK(came == len ? here == 0 : here == -1 && errno == ECONNRESET && is_late);
    CHECK(close(fd) == 0 && close(listener) == 0);
    if (!is_late) ends_well(pid);
}

int main(int count, char **words) {
    if (count == 4) return child(atoi(words[1]), atoi(words[2]), (size_t)atol(words[3]));
    over_rdma(words[0], LONG);
    over_rdma(words[0], SHORT);
    over_plain_tcp(words[0], LONG, 0);
    /* The buffers of TCP take that, and the peer does not read it before the program has ended. */
    over_plain_tcp(words[0], 60000, 1);
    puts("ok");
    return 0;
}
