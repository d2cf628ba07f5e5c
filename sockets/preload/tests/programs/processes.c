// Two processes talk over TCP. One of them does what the first argument names in the middle of the conversation.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *self;
static char *name;

static void check(int is_right, const char *what) {
    if (is_right) return;
    fprintf(stderr, "%s: %s: %s\n", name, what, strerror(errno));
    _exit(1);
}

static void wait_for(pid_t child) {
    int status = -1;
    check(waitpid(child, &status, 0) == child && status == 0, "the child failed");
}

static int waits;
static __thread int set = -1;

// Waits until the descriptor is ready, in the way that the environment names.
static void wait_until(int descriptor, int events) {
    if (waits == 1) {
        struct pollfd item = {descriptor, events};
        check(poll(&item, 1, -1) == 1, "poll");
    } else if (waits >= 2) {
        struct epoll_event event = {events | (waits == 3 ? EPOLLET : 0)};
        if (set < 0) {
            set = epoll_create1(EPOLL_CLOEXEC);
            check(!epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event), "epoll_ctl");
        } else {
            check(!epoll_ctl(set, EPOLL_CTL_MOD, descriptor, &event), "epoll_ctl");
        }
        check(epoll_wait(set, &event, 1, -1) == 1, "epoll_wait");
    }
}

static ssize_t take(int descriptor, void *octets, size_t len) {
    ssize_t got;
    while ((got = read(descriptor, octets, len)) < 0 && errno == EAGAIN) wait_until(descriptor, POLLIN);
    return got;
}

static ssize_t give(int descriptor, const void *octets, size_t len) {
    ssize_t given;
    while ((given = write(descriptor, octets, len)) < 0 && errno == EAGAIN) wait_until(descriptor, POLLOUT);
    return given;
}

// Sends each octet and has it back, so often that the connection is worth an upgrade.
static void warm_up(int descriptor) {
    for (int turn = 0; turn < 400; turn++) {
        unsigned char octet = turn, back = ~octet;
        check(give(descriptor, &octet, 1) == 1 && take(descriptor, &back, 1) == 1 && back == octet, "warm up");
        if (turn % 20 == 19) usleep(500);
    }
}

// Talks to an echo: both directions at once, so many octets ahead. Then ends its direction and waits for the other's end.
static void talk(int descriptor, size_t len, size_t ahead) {
    static __thread unsigned char pattern[1 << 20], octets[1 << 16];
    for (size_t at = 0; at < sizeof pattern; at++) pattern[at] = at * 2654435761u >> 13;
    size_t sent = 0, received = 0;
    while (received < len) {
        while (sent < len && sent - received < ahead) {
            size_t piece = len - sent < 5000 ? len - sent : 5000;
            ssize_t wrote = give(descriptor, pattern + sent, piece);
            check(wrote > 0, "write");
            sent += wrote;
        }
        ssize_t got = take(descriptor, octets, sizeof octets);
        check(got > 0, "read");
        check(!memcmp(octets, pattern + received, got), "other octets came back");
        received += got;
    }
    check(!shutdown(descriptor, SHUT_WR), "shutdown");
    check(take(descriptor, octets, 1) == 0, "no end came back");
    close(descriptor);
}

// Sends back what comes, until the end.
static void echo(int in, int out) {
    static __thread unsigned char octets[1 << 16];
    for (ssize_t got; (got = read(in, octets, sizeof octets)) != 0;) {
        check(got > 0, "read of the echo");
        for (ssize_t done = 0, wrote; done < got; done += wrote) {
            wrote = write(out, octets + done, got - done);
            check(wrote > 0, "write of the echo");
        }
    }
}

static void echo_octets(int descriptor, int count) {
    for (char octet; count > 0; count--) {
        check(read(descriptor, &octet, 1) == 1 && write(descriptor, &octet, 1) == 1, "echo of an octet");
    }
}

static int listener(struct sockaddr_in *address) {
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    check(!bind(descriptor, (void *)address, len) && !listen(descriptor, 16), "listen");
    check(!getsockname(descriptor, (void *)address, &len), "getsockname");
    return descriptor;
}

// A process that makes so many connections, one after the other, and talks over each.
static pid_t client(int listener, struct sockaddr_in address, int connections, size_t ahead) {
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child) return child;
    close(listener);
    for (; connections; connections--) {
        int descriptor = socket(AF_INET, SOCK_STREAM, 0);
        check(!connect(descriptor, (void *)&address, sizeof address), "connect");
        if (waits) check(!fcntl(descriptor, F_SETFL, O_NONBLOCK), "fcntl");
        warm_up(descriptor);
        talk(descriptor, 600000, ahead);
        if (set >= 0) close(set);
        set = -1;
    }
    _exit(0);
}

static pid_t by_bare_call(void) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

static int run_echo(void *descriptor) {
    echo(*(int *)descriptor, *(int *)descriptor);
    return 0;
}

// Has a child by this function take each of three connections, before or after it has been worth an upgrade.
static void fork_each(pid_t (*make)(void), int is_warm) {
    struct sockaddr_in address;
    int door = listener(&address);
    pid_t other = client(door, address, 3, 100000);
    for (int turn = 0; turn < 3; turn++) {
        int descriptor = accept(door, NULL, NULL);
        if (is_warm) echo_octets(descriptor, 400);
        pid_t child = make();
        check(child >= 0, "a child");
        if (!child) {
            close(door);
            echo(descriptor, descriptor);
            _exit(0);
        }
        close(descriptor);
        wait_for(child);
    }
    wait_for(other);
}

static void prefork(void) {
    struct sockaddr_in address;
    int door = listener(&address);
    pid_t workers[3], other[2];
    for (int worker = 0; worker < 3; worker++) {
        if ((workers[worker] = fork())) continue;
        for (;;) {
            int descriptor = accept(door, NULL, NULL);
            char first;
            check(read(descriptor, &first, 1) == 1 && write(descriptor, &first, 1) == 1, "first");
            echo(descriptor, descriptor);
            close(descriptor);
        }
    }
    for (int at = 0; at < 2; at++) other[at] = client(door, address, 4, 50000);
    for (int at = 0; at < 2; at++) wait_for(other[at]);
    for (int worker = 0; worker < 3; worker++) {
        kill(workers[worker], SIGKILL);
        waitpid(workers[worker], NULL, 0);
    }
}

// Parent and child take turns on one connection.
static void keep(void) {
    struct sockaddr_in address;
    int door = listener(&address), turns[2][2];
    check(!pipe(turns[0]) && !pipe(turns[1]), "pipe");
    pid_t other = client(door, address, 1, 1);
    int descriptor = accept(door, NULL, NULL);
    echo_octets(descriptor, 400);
    pid_t child = fork();
    static char octets[5000];
    char turn = 0;
    if (child) check(write(turns[0][1], &turn, 1) == 1, "the first turn");
    // The client sends 120 pieces of 5000 octets and waits for each.
    for (int at = 0; at < 60; at++) {
        check(read(turns[!child][0], &turn, 1) == 1, "my turn");
        check(recv(descriptor, octets, sizeof octets, MSG_WAITALL) == sizeof octets, "a piece");
        check(write(descriptor, octets, sizeof octets) == sizeof octets, "its echo");
        check(write(turns[!!child][1], &turn, 1) == 1, "the other's turn");
    }
    if (!child) _exit(0);
    wait_for(child);
    close(descriptor);
    wait_for(other);
}

// A program that knows nothing of the connection's past goes on with it.
static void other_program(pid_t (*start)(int descriptor)) {
    struct sockaddr_in address;
    int door = listener(&address);
    fcntl(door, F_SETFD, FD_CLOEXEC);
    for (int is_warm = 0; is_warm < 2; is_warm++) {
        pid_t other = client(door, address, 1, 100000);
        int descriptor = accept(door, NULL, NULL);
        if (is_warm) echo_octets(descriptor, 400);
        pid_t child = start(descriptor);
        check(child > 0, "a program");
        close(descriptor);
        wait_for(child);
        wait_for(other);
    }
}

static pid_t by_vfork(int descriptor) {
    pid_t child = vfork();
    if (!child) {
        dup2(descriptor, 0);
        dup2(descriptor, 1);
        close(descriptor);
        execl("/bin/cat", "cat", (char *)0);
        _exit(9);
    }
    return child;
}

static pid_t by_spawn(int descriptor) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, descriptor, 0);
    posix_spawn_file_actions_adddup2(&actions, descriptor, 1);
    posix_spawn_file_actions_addclose(&actions, descriptor);
    pid_t child = -1;
    char *arguments[] = {"cat", NULL};
    errno = posix_spawnp(&child, "cat", &actions, NULL, arguments, environ);
    return child;
}

// The program keeps the descriptor's number.
static pid_t by_exec(int descriptor) {
    pid_t child = fork();
    if (!child) {
        char number[12];
        sprintf(number, "%d", descriptor);
        fcntl(descriptor, F_SETFD, 0);
        execl(self, self, "echo", number, (char *)0);
        _exit(9);
    }
    return child;
}

static char *static_program;

static pid_t by_static(int descriptor) {
    pid_t child = fork();
    if (!child) {
        dup2(descriptor, 0);
        dup2(descriptor, 1);
        execl(static_program, static_program, "echo", "0", (char *)0);
        _exit(9);
    }
    return child;
}

// Hands the descriptor to a child that came before it.
static pid_t by_message(int descriptor) {
    int pair[2];
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
    union {
        char octets[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control = {0};
    char octet = 0;
    struct iovec piece = {&octet, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    pid_t child = fork();
    if (!child) {
        close(descriptor);
        check(recvmsg(pair[1], &message, 0) == 1, "recvmsg");
        int got = *(int *)CMSG_DATA(&control.header);
        echo(got, got);
        _exit(0);
    }
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    *(int *)CMSG_DATA(&control.header) = descriptor;
    check(sendmsg(pair[0], &message, 0) == 1, "sendmsg");
    close(pair[0]);
    close(pair[1]);
    return child;
}

static pid_t by_clone(int descriptor) {
    static char stack[1 << 18];
    return clone(run_echo, stack + sizeof stack, SIGCHLD, &descriptor);
}

static pid_t by_daemon(int descriptor) {
    pid_t child = fork();
    if (!child) {
        check(!daemon(1, 1), "daemon");
        echo(descriptor, descriptor);
        _exit(0);
    }
    return child;
}

// Other programs run meanwhile; the connection goes on here.
static void commands(void) {
    struct sockaddr_in address;
    int door = listener(&address);
    pid_t other = client(door, address, 1, 100000);
    int descriptor = accept(door, NULL, NULL);
    echo_octets(descriptor, 400);
    check(system("exit 3") >> 8 == 3, "system");
    FILE *command = popen("echo said", "r");
    char said[10] = "";
    check(fgets(said, sizeof said, command) && !strcmp(said, "said\n") && pclose(command) == 0, "popen");
    echo(descriptor, descriptor);
    close(descriptor);
    wait_for(other);
}

// Installs a filter that kills at all calls but these, or at these alone.
static void install(const int *calls, int count, int are_allowed, int by_number) {
    struct sock_filter rules[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int len = 1;
    for (int at = 0; at < count; at++) {
        rules[len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[at], 0, 1);
        rules[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, are_allowed ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS);
    }
    rules[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, are_allowed ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW);
    struct sock_fprog program = {len, rules};
    check(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl");
    if (by_number) check(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp");
    else check(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "prctl");
}

// Echoes what comes to a set's only member, until so many octets came or the end did. Says whether the end did.
static int echo_by_set(int descriptor, size_t count) {
    char octets[1000];
    while (count) {
        struct epoll_event event = {0};
        check(epoll_wait(set, &event, 1, -1) == 1 && event.data.u64 == 77, "epoll_wait");
        ssize_t got = read(descriptor, octets, count < sizeof octets ? count : sizeof octets);
        if (got < 0 && errno == EAGAIN) continue;
        if (got <= 0) return 1;
        check(write(descriptor, octets, got) == got, "echo");
        count -= got;
    }
    return 0;
}

// A child inherits a set. It uses it in turns with its parent, then instead of it; then both wait for the other end's death.
static void inherited_sets(int is_left) {
    struct sockaddr_in address;
    int door = listener(&address), pair[2];
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
    char turn = 0;
    pid_t other = fork();
    if (!other) {
        int descriptor = socket(AF_INET, SOCK_STREAM, 0);
        check(!connect(descriptor, (void *)&address, sizeof address), "connect");
        warm_up(descriptor);
        // Each piece is for another process.
        for (int piece = 0; piece < 20; piece++) {
            char sent[500], back[500];
            memset(sent, piece, sizeof sent);
            check(write(descriptor, sent, sizeof sent) == sizeof sent, "a piece");
            check(recv(descriptor, back, sizeof back, MSG_WAITALL) == sizeof back && !memcmp(sent, back, sizeof back), "echo");
        }
        for (;;) pause();
    }
    int descriptor = accept(door, NULL, NULL);
    check(!fcntl(descriptor, F_SETFL, O_NONBLOCK), "fcntl");
    set = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.u64 = 77}};
    check(!epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event), "epoll_ctl");
    echo_by_set(descriptor, 400);
    pid_t child = fork();
    int mine = pair[!child];
    if (child && is_left) close(set), close(descriptor);
    if (child) check(write(mine, &turn, 1) == 1, "the first turn");
    for (int at = 0; at < 10; at++) {
        check(read(mine, &turn, 1) == 1, "my turn");
        if (!child && is_left) echo_by_set(descriptor, 1000);
        if (!is_left) echo_by_set(descriptor, 500);
        check(write(mine, &turn, 1) == 1, "the other's turn");
    }
    if (!child) check(read(mine, &turn, 1) == 1, "the last turn");
    if (child) kill(other, SIGKILL), waitpid(other, NULL, 0);
    if (!child || !is_left) check(echo_by_set(descriptor, 1), "no end");
    if (!child) _exit(0);
    wait_for(child);
}

static int by_number;

// A child that allows itself nothing but to echo.
static pid_t by_sandbox(int descriptor) {
    pid_t child = fork();
    if (!child) {
        const int calls[] = {SYS_read, SYS_write, SYS_exit_group};
        install(calls, 3, 1, by_number);
        echo(descriptor, descriptor);
        syscall(SYS_exit_group, 0);
    }
    return child;
}

static int forbidden[16], forbidden_count;

// A child that forbids itself calls in the middle of the conversation.
static pid_t by_own_filter(int descriptor) {
    pid_t child = fork();
    if (!child) {
        install(forbidden, forbidden_count, 0, 0);
        echo(descriptor, descriptor);
        _exit(0);
    }
    return child;
}

// Talks to itself: one thread has both ends.
static void alone(void) {
    struct sockaddr_in address;
    int door = listener(&address), one = socket(AF_INET, SOCK_STREAM, 0);
    check(!connect(one, (void *)&address, sizeof address), "connect");
    int other = accept(door, NULL, NULL);
    char octets[1000];
    for (int turn = 0; turn < 500; turn++) {
        memset(octets, turn, sizeof octets);
        check(give(one, octets, sizeof octets) == sizeof octets, "write");
        check(recv(other, octets, sizeof octets, MSG_WAITALL) == sizeof octets && octets[999] == (char)turn, "read");
        check(give(other, octets, 1) == 1 && take(one, octets, 1) == 1, "back");
        if (turn % 20 == 19) usleep(500);
    }
}

// A program that gets a filter from the one that started it, or from the parent of that one.
static void inherit(const char *way, int is_forked) {
    install(forbidden, forbidden_count, 0, 0);
    pid_t child = is_forked ? fork() : 0;
    if (child) return wait_for(child);
    execl(self, self, way, (char *)0);
    check(0, "exec");
}

// An option that only the kernel's stream can have.
static pid_t by_option(int descriptor) {
    pid_t child = fork();
    if (!child) {
        int on = 1;
        check(!setsockopt(descriptor, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on), "setsockopt");
        echo(descriptor, descriptor);
        _exit(0);
    }
    return child;
}

// The C library reads and writes by itself.
static pid_t by_stdio(int descriptor) {
    pid_t child = fork();
    if (!child) {
        FILE *in = fdopen(descriptor, "r"), *out = fdopen(dup(descriptor), "w");
        int count = 0;
        for (int octet; (octet = getc(in)) != EOF;) {
            check(putc(octet, out) == octet, "putc");
            if (++count <= 400 || count % 200 == 0) fflush(out);
        }
        _exit(0);
    }
    return child;
}

// A server that gives up the rights of root behind the fork.
static pid_t as_nobody(void) {
    pid_t child = fork();
    if (!child && geteuid() == 0) check(!setuid(65534), "setuid");
    return child;
}

static void *run_client(void *address) {
    for (int turn = 0; turn < 3; turn++) {
        int descriptor = socket(AF_INET, SOCK_STREAM, 0);
        check(!connect(descriptor, address, sizeof(struct sockaddr_in)), "connect");
        warm_up(descriptor);
        talk(descriptor, 600000, 50000);
    }
    return NULL;
}

static void *run_server(void *door) {
    for (int turn = 0; turn < 3; turn++) {
        int descriptor = accept(*(int *)door, NULL, NULL);
        echo(descriptor, descriptor);
        close(descriptor);
    }
    return NULL;
}

// Threads talk to each other while another one forks children, which use the connections' descriptors, too.
static void threads(void) {
    struct sockaddr_in address[2];
    int door[2];
    pthread_t thread[4];
    for (int at = 0; at < 2; at++) {
        door[at] = listener(&address[at]);
        pthread_create(&thread[2 * at], NULL, run_server, &door[at]);
        pthread_create(&thread[2 * at + 1], NULL, run_client, &address[at]);
    }
    for (int turn = 0; turn < 100; turn++) {
        pid_t child = fork();
        if (!child) {
            char octet;
            for (int descriptor = 3; descriptor < 20; descriptor++) {
                struct pollfd item = {descriptor, POLLIN | POLLOUT};
                poll(&item, 1, 0);
                recv(descriptor, &octet, 1, MSG_PEEK | MSG_DONTWAIT);
                close(descriptor);
            }
            _exit(0);
        }
        wait_for(child);
        usleep(1000);
    }
    for (int at = 0; at < 4; at++) pthread_join(thread[at], NULL);
}

int main(int count, char **arguments) {
    self = arguments[0];
    name = arguments[1];
    alarm(50);
    waits = getenv("WAITS") ? atoi(getenv("WAITS")) : 0;
    if (!strcmp(name, "echo")) echo(atoi(arguments[2]), atoi(arguments[2]) ? atoi(arguments[2]) : 1);
    if (!strcmp(name, "fork")) fork_each(fork, 0), fork_each(fork, 1);
    if (!strcmp(name, "_Fork")) fork_each(_Fork, 0), fork_each(_Fork, 1);
    if (!strcmp(name, "bare")) fork_each(by_bare_call, 0), fork_each(by_bare_call, 1);
    if (!strcmp(name, "nobody")) fork_each(as_nobody, 0), fork_each(as_nobody, 1);
    if (!strcmp(name, "threads")) threads();
    if (!strcmp(name, "prefork")) prefork();
    if (!strcmp(name, "keep")) keep();
    if (!strcmp(name, "vfork")) other_program(by_vfork);
    if (!strcmp(name, "spawn")) other_program(by_spawn);
    if (!strcmp(name, "exec")) other_program(by_exec);
    if (!strcmp(name, "static")) static_program = arguments[2], other_program(by_static);
    if (!strcmp(name, "message")) other_program(by_message);
    if (!strcmp(name, "option")) other_program(by_option);
    if (!strcmp(name, "stdio")) other_program(by_stdio);
    if (!strcmp(name, "clone")) other_program(by_clone);
    if (!strcmp(name, "daemon")) other_program(by_daemon);
    if (!strcmp(name, "commands")) commands();
    if (!strcmp(name, "sandbox")) other_program(by_sandbox), by_number = 1, other_program(by_sandbox);
    if (!strcmp(name, "alone")) alone();
    if (!strcmp(name, "sets")) inherited_sets(0), inherited_sets(1);
    if (!strcmp(name, "own") || !strcmp(name, "inherit")) {
        for (char *call = strtok(arguments[2], ","); call; call = strtok(NULL, ",")) forbidden[forbidden_count++] = atoi(call);
    }
    if (!strcmp(name, "own")) other_program(by_own_filter);
    if (!strcmp(name, "inherit")) inherit(arguments[3], !strcmp(arguments[4], "forked"));
    return 0;
}
