/* Memory that is unmapped before it is deregistered: its queue pair ends with an error, and nothing else happens.
   Faults of the program's own have the same effect as without the library. */
#define _GNU_SOURCE
#include "common.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { SIZE = 1 << 20, PAGE = 4096, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC };
enum way { UNMAP, PROTECT, TRUNCATE, RELEASE, HOLE, WAYS };
enum role { SEND_SOURCE, WRITE_SOURCE, SEND_SINK, WRITE_TARGET, READ_SOURCE, READ_SINK, ATOMIC_TARGET, ATOMIC_SINK, ROLES };

static unsigned char kept[SIZE] __attribute__((aligned(PAGE)));
static unsigned char small[PAGE];

struct memory {
    void *start, *allocated;
    int file;
};

static struct memory obtain(enum way way)
{
    struct memory memory = {.file = -1};
    int shared = way == TRUNCATE;
    if (way == RELEASE) {
        memory.allocated = malloc(64 << 20);
        must(memory.allocated);
        memory.start = (char *)memory.allocated + 64 - (uintptr_t)memory.allocated % 64;
    } else {
        if (shared) {
            memory.file = memfd_create("gone", 0);
            must(memory.file >= 0 && ftruncate(memory.file, SIZE) == 0);
        }
        memory.start = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, memory.file, 0);
    }
    must(memory.start != MAP_FAILED);
    return memory;
}

static void take_away(struct memory *memory, enum way way)
{
    switch (way) {
    case UNMAP: must(munmap(memory->start, SIZE) == 0); break;
    case PROTECT: must(mprotect(memory->start, SIZE, PROT_NONE) == 0); break;
    case TRUNCATE: must(ftruncate(memory->file, 0) == 0); break;
    case RELEASE: free(memory->allocated); break;
    default: must(mprotect((char *)memory->start + SIZE / 2, PAGE, PROT_NONE) == 0);
    }
}

static void clear_up(struct memory *memory, enum way way)
{
    if (way == TRUNCATE)
        must(close(memory->file) == 0);
    if (way != RELEASE && way != UNMAP)
        must(munmap(memory->start, SIZE) == 0);
}

static enum ibv_wc_status sent(struct rdma_cm_id *id)
{
    struct ibv_wc wc;
    must(rdma_get_send_comp(id, &wc) == 1);
    return wc.status;
}

static enum ibv_wc_status received(struct rdma_cm_id *id)
{
    struct ibv_wc wc;
    must(rdma_get_recv_comp(id, &wc) == 1);
    return wc.status;
}

/* Waits until its connection has ended, which follows the completions. */
static void await_error(struct rdma_cm_id *id)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    do {
        must(sched_yield() == 0 && ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init) == 0);
        must(attr.qp_state == IBV_QPS_SQD || attr.qp_state == IBV_QPS_ERR);
    } while (attr.qp_state != IBV_QPS_ERR);
}

static struct ends connected(void)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2}};
    return connect_ends(NULL, attr);
}

static void exchange(struct ends *ends)
{
    struct ibv_mr *from = ibv_reg_mr(ends->client->pd, small, 64, ALL), *to = ibv_reg_mr(ends->server->pd, small + 64, 64, ALL);
    must(from && to && rdma_post_recv(ends->server, NULL, small + 64, 64, to) == 0);
    must(rdma_post_send(ends->client, NULL, small, 64, from, IBV_SEND_SIGNALED) == 0);
    must(sent(ends->client) == IBV_WC_SUCCESS && received(ends->server) == IBV_WC_SUCCESS);
    must(ibv_dereg_mr(from) == 0 && ibv_dereg_mr(to) == 0);
}

/* The outcome of a role: how its request ends at the client, and how the first receive of the server ends. */
static void play(struct ends *ends, enum role role, struct memory *memory, enum way way, uint32_t length)
{
    int is_clients = role == SEND_SOURCE || role == WRITE_SOURCE || role == READ_SINK || role == ATOMIC_SINK;
    struct rdma_cm_id *client = ends->client, *server = ends->server;
    struct ibv_mr *gone = ibv_reg_mr(is_clients ? client->pd : server->pd, memory->start, SIZE, ALL);
    struct ibv_mr *near = ibv_reg_mr(client->pd, kept, SIZE, ALL), *far = ibv_reg_mr(server->pd, kept, SIZE, ALL);
    must(gone && near && far);
    must(rdma_post_recv(client, NULL, kept, SIZE, near) == 0);
    struct ibv_mr *sink = role == SEND_SINK ? gone : far;
    must(rdma_post_recv(server, NULL, sink->addr, SIZE, sink) == 0);
    take_away(memory, way);
    struct ibv_mr *local = is_clients ? gone : near, *remote = is_clients ? far : gone;
    struct ibv_sge sge = {(uintptr_t)local->addr, role >= ATOMIC_TARGET ? 8 : length, local->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
    switch (role) {
    case SEND_SOURCE: case SEND_SINK: wr.opcode = IBV_WR_SEND; break;
    case WRITE_SOURCE: case WRITE_TARGET: wr.opcode = IBV_WR_RDMA_WRITE; break;
    case READ_SOURCE: case READ_SINK: wr.opcode = IBV_WR_RDMA_READ; break;
    default: wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    }
    if (role >= ATOMIC_TARGET) {
        wr.wr.atomic.remote_addr = (uintptr_t)remote->addr;
        wr.wr.atomic.rkey = remote->rkey;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)remote->addr;
        wr.wr.rdma.rkey = remote->rkey;
    }
    must(ibv_post_send(client->qp, &wr, &bad) == 0);
    enum ibv_wc_status end = sent(client), first = received(server);
    int is_placed = role == SEND_SINK || role == WRITE_TARGET;
    if (is_clients)
        must(end == IBV_WC_LOC_PROT_ERR);
    else if (is_placed)
        /* Octets in TCP are done, and octets that TCP did not take are flushed. */
        must(end == IBV_WC_SUCCESS || end == IBV_WC_WR_FLUSH_ERR || end == IBV_WC_REM_ACCESS_ERR);
    else
        must(end == IBV_WC_REM_ACCESS_ERR || (way == HOLE && end == IBV_WC_WR_FLUSH_ERR));
    must(first == (role == SEND_SINK ? IBV_WC_LOC_PROT_ERR : IBV_WC_WR_FLUSH_ERR));
    must(received(client) == IBV_WC_WR_FLUSH_ERR);
    await_error(client);
    await_error(server);
    if (role == WRITE_TARGET || role == ATOMIC_TARGET) {
        struct ibv_async_event event;
        do {
            must(ibv_get_async_event(server->verbs, &event) == 0);
            ibv_ack_async_event(&event);
        } while (event.event_type != IBV_EVENT_QP_ACCESS_ERR || event.element.qp != server->qp);
    }
    must(ibv_dereg_mr(gone) == 0 && ibv_dereg_mr(near) == 0 && ibv_dereg_mr(far) == 0);
}

static void every_role(void)
{
    struct ends other = connected();
    for (enum way way = 0; way < WAYS; way++)
        for (enum role role = 0; role < (way == HOLE ? ATOMIC_TARGET : ROLES); role++)
            for (uint32_t length = way == HOLE ? SIZE : 100; length <= SIZE; length *= SIZE / 100) {
                struct ends ends = connected();
                struct memory memory = obtain(way);
                play(&ends, role, &memory, way, length);
                clear_up(&memory, way);
                disconnect_ends(&ends);
                exchange(&other);
                if (way == HOLE)
                    break;
            }
    disconnect_ends(&other);
}

static sigjmp_buf back;
static volatile sig_atomic_t calls;
static char stack[1 << 16];

static void caught(int signal, siginfo_t *info, void *context)
{
    sigset_t mask;
    char here;
    must(signal == SIGSEGV && context && info->si_addr == (void *)8);
    must(&here >= stack && &here < stack + sizeof stack);
    must(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0);
    must(sigismember(&mask, SIGSEGV) == 1 && sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGUSR2) == 0);
    calls++;
    siglongjmp(back, 1);
}

static void counted(int signal)
{
    must(signal == SIGSEGV || signal == SIGBUS);
    calls++;
}

static void touch_nothing(void)
{
    *(volatile int *)8 = 1;
}

static void on(int signal, void *handler, int flags)
{
    struct sigaction action = {.sa_flags = flags};
    action.sa_handler = handler;
    sigaddset(&action.sa_mask, SIGUSR1);
    must(sigaction(signal, &action, NULL) == 0);
}

static void with_own_handler(void)
{
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    must(sigaltstack(&alternate, NULL) == 0);
    on(SIGSEGV, caught, SA_SIGINFO | SA_ONSTACK);
    on(SIGBUS, caught, SA_SIGINFO | SA_ONSTACK);
    every_role();
    must(calls == 0);
    for (int round = 1; round <= 2; round++)
        if (sigsetjmp(back, 1) == 0)
            touch_nothing();
        else
            must(calls == round);
}

static void with_plain_handler(void)
{
    on(SIGSEGV, counted, SA_RESETHAND);
    on(SIGBUS, counted, 0);
    struct ends ends = connected();
    exchange(&ends);
    raise(SIGBUS);
    raise(SIGBUS);
    raise(SIGSEGV);
    must(calls == 3);
    raise(SIGSEGV);
}

static void without_handler(void)
{
    every_role();
    touch_nothing();
}

static void killed_by_another(void)
{
    every_role();
    kill(getpid(), SIGBUS);
    pause();
}

static void ignoring(void)
{
    on(SIGSEGV, SIG_IGN, 0);
    struct ends ends = connected();
    exchange(&ends);
    must(kill(getpid(), SIGSEGV) == 0 && raise(SIGSEGV) == 0);
    puts("goes on");
    touch_nothing();
}

static void unguarded(void)
{
    must(setenv("WEFT_GUARD", "0", 1) == 0);
    every_role();
}

/* Each case begins in a process that has not used the library yet. */
static void expect(void (*act)(void), int signal)
{
    int status;
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        alarm(120);
        act();
        exit(0);
    }
    must(waitpid(child, &status, 0) == child);
    if (signal ? !WIFSIGNALED(status) || WTERMSIG(status) != signal : status != 0) {
        fprintf(stderr, "status %x instead of signal %d\n", status, signal);
        exit(1);
    }
}

int main(void)
{
    expect(with_own_handler, 0);
    expect(with_plain_handler, SIGSEGV);
    expect(without_handler, SIGSEGV);
    expect(killed_by_another, SIGBUS);
    expect(ignoring, SIGSEGV);
    expect(unguarded, SIGSEGV);
    puts("ok");
    return 0;
}
