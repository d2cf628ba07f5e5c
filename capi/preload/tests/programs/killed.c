/* A process is killed during a transfer. A child of it, made before, lives on. The requests of its peer are flushed,
   and the peer learns of the end, at once. */
#include "common.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

enum { PATIENCE_MS = 30000, SIZE = 1 << 20, DEPTH = 8 };

static struct rdma_event_channel *channel;
static char buffer[SIZE];

static struct rdma_cm_event *expect(enum rdma_cm_event_type wanted)
{
    return next_event(channel, wanted, PATIENCE_MS);
}

static struct ibv_mr *prepare(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1}};
    must(rdma_create_qp(id, NULL, &attr) == 0);
    struct ibv_mr *mr = rdma_reg_msgs(id, buffer, SIZE);
    must(mr);
    for (int index = 0; index < DEPTH; index++)
        must(rdma_post_recv(id, NULL, buffer, SIZE, mr) == 0);
    return mr;
}

/* Connects, makes a child, and is killed during its Sends. */
static void be_killed(uint16_t port, int outlived_by)
{
    struct rdma_cm_id *id;
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rdma_conn_param param = {0};
    channel = rdma_create_event_channel();
    must(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    must(rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, 1000) == 0);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_ADDR_RESOLVED));
    must(rdma_resolve_route(id, 1000) == 0);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_ROUTE_RESOLVED));
    struct ibv_mr *mr = prepare(id);
    must(rdma_connect(id, &param) == 0);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_ESTABLISHED));
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        /* The child lives until its grandparent ends it, and touches nothing. */
        char word;
        _exit(read(outlived_by, &word, 1) != 0);
    }
    struct ibv_wc wc;
    for (int index = 0; index < DEPTH; index++)
        must(rdma_post_send(id, NULL, buffer, SIZE, mr, IBV_SEND_SIGNALED) == 0);
    must(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
    kill(getpid(), SIGKILL);
}

int main(void)
{
    int outlives[2], address[2];
    must(pipe(outlives) == 0 && pipe(address) == 0);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        uint16_t port;
        close(outlives[1]);
        must(read(address[0], &port, sizeof port) == sizeof port);
        be_killed(port, outlives[0]);
    }
    struct rdma_cm_id *listener;
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    channel = rdma_create_event_channel();
    must(channel && rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
    must(rdma_bind_addr(listener, (struct sockaddr *)&own) == 0 && rdma_listen(listener, 1) == 0);
    uint16_t port = rdma_get_src_port(listener);
    must(write(address[1], &port, sizeof port) == sizeof port);
    struct rdma_cm_event *event = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *id = event->id;
    struct ibv_mr *mr = prepare(id);
    must(rdma_accept(id, NULL) == 0);
    rdma_ack_cm_event(event);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_ESTABLISHED));
    /* All receives complete; those that have data come first. */
    struct ibv_wc wc;
    int flushed = 0;
    for (int index = 0; index < DEPTH; index++) {
        must(rdma_get_recv_comp(id, &wc) == 1);
        must(wc.status == IBV_WC_WR_FLUSH_ERR || (wc.status == IBV_WC_SUCCESS && flushed == 0));
        flushed += wc.status == IBV_WC_WR_FLUSH_ERR;
    }
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_DISCONNECTED));
    must(id->qp->state == IBV_QPS_ERR);
    /* A later request is flushed as well. */
    must(rdma_post_send(id, NULL, buffer, 1, mr, IBV_SEND_SIGNALED) == 0);
    must(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR);
    must(rdma_dereg_mr(mr) == 0);
    rdma_destroy_qp(id);
    must(rdma_destroy_id(id) == 0 && rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(channel);
    int status;
    must(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(outlives[1]);
    puts("ok");
    return 0;
}
