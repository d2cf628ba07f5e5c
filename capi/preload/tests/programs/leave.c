/* All ways to end a process during a transfer, with threads that wait for events. Each ends with its own status. */
#include "common.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { STATUS = 7, PATIENCE_S = 60, ROUNDS = 5 };

static struct ends ends;
static struct ibv_mr *mr;
static char buffer[1 << 16];

static void *wait_for_completion_event(void *is_waiting)
{
    struct ibv_cq *cq;
    void *context;
    must(ibv_req_notify_cq(ends.client->recv_cq, 0) == 0 && write(*(int *)is_waiting, "!", 1) == 1);
    ibv_get_cq_event(ends.client->recv_cq_channel, &cq, &context);
    return NULL;
}

static void *wait_for_cm_event(void *is_waiting)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_event *event;
    must(channel && write(*(int *)is_waiting, "!", 1) == 1);
    rdma_get_cm_event(channel, &event);
    return NULL;
}

static void *wait_for_asynchronous_event(void *is_waiting)
{
    struct ibv_async_event event;
    must(write(*(int *)is_waiting, "!", 1) == 1);
    ibv_get_async_event(ends.client->verbs, &event);
    return NULL;
}

/* Sends as much as there is room for, and takes completions. */
static void transfer(void)
{
    struct ibv_wc wc[4];
    while (rdma_post_recv(ends.server, NULL, buffer, sizeof buffer, mr) == 0)
        ;
    rdma_post_write(ends.client, NULL, buffer, sizeof buffer, mr, IBV_SEND_SIGNALED, (uintptr_t)buffer, mr->rkey);
    must(ibv_poll_cq(ends.client->send_cq, 4, wc) >= 0);
}

static void end_in_handler(int signal)
{
    (void)signal;
    exit(STATUS);
}

static void *end_in_thread(void *unused)
{
    (void)unused;
    exit(STATUS);
}

static void by_exit(void)
{
    transfer();
    exit(STATUS);
}

static void by_underscore_exit(void)
{
    transfer();
    _exit(STATUS);
}

static void by_thread(void)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, end_in_thread, NULL) == 0);
    for (;;)
        transfer();
}

static void by_handler(void)
{
    must(signal(SIGALRM, end_in_handler) != SIG_ERR);
    struct itimerval soon = {.it_value = {.tv_usec = 2000 + getpid() % 1000}};
    must(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    for (;;)
        transfer();
}

static void by_abort(void)
{
    struct rlimit none = {0};
    must(setrlimit(RLIMIT_CORE, &none) == 0);
    transfer();
    abort();
}

static void begin_and_end(void (*end)(void))
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
    int waiting[2];
    pthread_t thread;
    char words[3];
    /* A process that hangs is killed, which the parent counts as a failure. */
    alarm(PATIENCE_S);
    ends = connect_ends(NULL, attr);
    mr = ibv_reg_mr(ends.client->pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    must(mr && pipe(waiting) == 0);
    must(pthread_create(&thread, NULL, wait_for_completion_event, &waiting[1]) == 0);
    must(pthread_create(&thread, NULL, wait_for_cm_event, &waiting[1]) == 0);
    must(pthread_create(&thread, NULL, wait_for_asynchronous_event, &waiting[1]) == 0);
    for (int got = 0; got < 3;)
        got += read(waiting[0], words, sizeof words);
    end();
}

int main(void)
{
    static const struct {
        void (*end)(void);
        int signal;
    } WAYS[] = {{by_exit, 0}, {by_underscore_exit, 0}, {by_thread, 0}, {by_handler, 0}, {by_abort, SIGABRT}};
    for (unsigned way = 0; way < sizeof WAYS / sizeof *WAYS; way++) {
        for (int round = 0; round < ROUNDS; round++) {
            pid_t child = fork();
            must(child >= 0);
            if (child == 0)
                begin_and_end(WAYS[way].end);
            int status;
            must(waitpid(child, &status, 0) == child);
            if (WAYS[way].signal)
                must(WIFSIGNALED(status) && WTERMSIG(status) == WAYS[way].signal);
            else
                must(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
        }
    }
    puts("ok");
    return 0;
}
