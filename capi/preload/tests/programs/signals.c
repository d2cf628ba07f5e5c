/* Signals of the program reach its own threads only, and end its waits as they end read(2). */
#include "common.h"

#include <signal.h>
#include <sys/time.h>

enum { PERIOD_US = 5000, ROUNDS = 20 };

static volatile sig_atomic_t handled;
static pthread_t handler_thread;

static void handle(int signal)
{
    (void)signal;
    handler_thread = pthread_self();
    handled++;
}

static void install(int signal, int flags)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
    must(sigaction(signal, &action, NULL) == 0);
}

static void alarms_every(long microseconds)
{
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    must(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

/* A signal that all threads of the program block stays pending. */
static void only_threads_of_the_program_handle(void)
{
    sigset_t set;
    must(sigemptyset(&set) == 0 && sigaddset(&set, SIGUSR1) == 0);
    must(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    install(SIGUSR1, SA_RESTART);
    must(kill(getpid(), SIGUSR1) == 0);
    struct timespec patience = {.tv_sec = 5};
    must(sigtimedwait(&set, NULL, &patience) == SIGUSR1 && handled == 0);
    must(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
}

static void waits_end(struct ibv_context *context, struct ibv_comp_channel *channel)
{
    struct rdma_event_channel *cm_channel = rdma_create_event_channel();
    struct rdma_cm_event *cm_event;
    struct ibv_async_event event;
    struct ibv_cq *cq;
    void *cq_context;
    must(cm_channel);
    install(SIGALRM, 0);
    alarms_every(PERIOD_US);
    for (int round = 0; round < ROUNDS; round++) {
        minus_with(EINTR, ibv_get_cq_event(channel, &cq, &cq_context));
        minus_with(EINTR, rdma_get_cm_event(cm_channel, &cm_event));
        minus_with(EINTR, ibv_get_async_event(context, &event));
        must(handled >= 3 * (round + 1) && pthread_equal(handler_thread, pthread_self()));
    }
    alarms_every(0);
    rdma_destroy_event_channel(cm_channel);
}

/* The client sends as soon as the server's wait has seen some signals. */
static void *send_later(void *argument)
{
    struct ends *ends = argument;
    int before = handled;
    while (handled < before + 3)
        usleep(PERIOD_US);
    must(rdma_post_sendv(ends->client, NULL, NULL, 0, IBV_SEND_SIGNALED) == 0);
    return NULL;
}

static void waits_go_on_by_wish(struct ends *ends, struct ibv_cq *wanted)
{
    struct ibv_cq *cq;
    void *cq_context;
    pthread_t thread;
    sigset_t set;
    struct ibv_wc wc;
    must(rdma_post_recvv(ends->server, NULL, NULL, 0) == 0 && ibv_req_notify_cq(wanted, 0) == 0);
    /* The other thread blocks the signals, so that this one gets them. */
    must(sigemptyset(&set) == 0 && sigaddset(&set, SIGALRM) == 0);
    must(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    must(pthread_create(&thread, NULL, send_later, ends) == 0);
    must(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    install(SIGALRM, SA_RESTART);
    alarms_every(PERIOD_US);
    must(ibv_get_cq_event(wanted->channel, &cq, &cq_context) == 0 && cq == wanted);
    alarms_every(0);
    must(pthread_join(thread, NULL) == 0);
    ibv_ack_cq_events(cq, 1);
    must(rdma_get_recv_comp(ends->server, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
}

int main(void)
{
    struct ibv_context *context = open_weft();
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    must(channel);
    only_threads_of_the_program_handle();
    waits_end(context, channel);
    must(ibv_destroy_comp_channel(channel) == 0);
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ends ends = connect_ends(NULL, attr);
    waits_go_on_by_wish(&ends, ends.server->recv_cq);
    disconnect_ends(&ends);
    must(ibv_close_device(context) == 0);
    puts("ok");
    return 0;
}
