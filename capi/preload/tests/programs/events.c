/* Channels, their descriptors, and acknowledgements. */
#include "common.h"

#include <fcntl.h>
#include <poll.h>

static int is_readable(int fd, int timeout)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    return poll(&wait, 1, timeout) == 1;
}

static void never_wait(int fd)
{
    must(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}

static int is_destroyed;

static void *destroy_cq(void *cq)
{
    must(ibv_destroy_cq(cq) == 0);
    __atomic_store_n(&is_destroyed, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* A completion event: one for each arming. The queue cannot be destroyed before it is acknowledged. */
static void completions(struct ibv_context *context)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, &is_destroyed, channel, 0), *told;
    struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
    void *cq_context;
    struct ibv_qp *qp = ibv_create_qp(pd, &attr);
    must(qp);
    never_wait(channel->fd);
    minus_with(EAGAIN, ibv_get_cq_event(channel, &told, &cq_context));
    must(ibv_req_notify_cq(cq, 0) == 0);
    must(!is_readable(channel->fd, 0));
    struct ibv_recv_wr recv = {.num_sge = 0}, *bad;
    struct ibv_qp_attr change = {.qp_state = IBV_QPS_ERR};
    must(ibv_post_recv(qp, &recv, &bad) == 0);
    must(ibv_modify_qp(qp, &change, IBV_QP_STATE) == 0);
    must(is_readable(channel->fd, 10000));
    must(ibv_get_cq_event(channel, &told, &cq_context) == 0 && told == cq && cq_context == &is_destroyed);
    must(!is_readable(channel->fd, 0));
    /* Destroying a queue drops events that were not taken. */
    must(ibv_req_notify_cq(cq, 0) == 0);
    must(ibv_post_recv(qp, &recv, &bad) == 0);
    must(is_readable(channel->fd, 10000));
    must(ibv_destroy_qp(qp) == 0);
    pthread_t thread;
    must(pthread_create(&thread, NULL, destroy_cq, cq) == 0);
    while (is_readable(channel->fd, 0))
        ;
    must(!__atomic_load_n(&is_destroyed, __ATOMIC_SEQ_CST));
    ibv_ack_cq_events(cq, 1);
    must(pthread_join(thread, NULL) == 0 && is_destroyed);
    minus_with(EAGAIN, ibv_get_cq_event(channel, &told, &cq_context));
    must(ibv_destroy_comp_channel(channel) == 0 && ibv_dealloc_pd(pd) == 0);
}

/* An event of a queue goes to the context of the queue, even if another context asks first. */
static void asynchronous(struct ibv_context *context)
{
    struct ibv_context *other = open_weft();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &attr);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr qp_attr = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC,
                                       .cap = {.max_send_wr = 2, .max_send_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(pd, &qp_attr);
    struct ibv_async_event event;
    must(srq && cq && qp);
    never_wait(other->async_fd);
    never_wait(context->async_fd);
    minus_with(EAGAIN, ibv_get_async_event(context, &event));
    /* A queue pair in error takes no more receives of its shared queue, and an event reports that. */
    struct ibv_qp_attr change = {.qp_state = IBV_QPS_ERR};
    must(ibv_modify_qp(qp, &change, IBV_QP_STATE) == 0);
    must(is_readable(context->async_fd, 10000));
    minus_with(EAGAIN, ibv_get_async_event(other, &event));
    must(ibv_get_async_event(context, &event) == 0);
    must(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == qp);
    must(strlen(ibv_event_type_str(event.event_type)) > 0);
    ibv_ack_async_event(&event);
    must(!is_readable(context->async_fd, 0));
    must(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_destroy_srq(srq) == 0 && ibv_dealloc_pd(pd) == 0);
    must(ibv_close_device(other) == 0);
}

/* Resolves with an id that has a channel and with one without. Moves an id between channels. */
static void connections(void)
{
    struct rdma_event_channel *first = rdma_create_event_channel(), *second = rdma_create_event_channel();
    struct rdma_cm_id *id;
    struct rdma_cm_event *event;
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(first && second && rdma_create_id(first, &id, NULL, RDMA_PS_TCP) == 0 && id->channel == first);
    never_wait(first->fd);
    minus_with(EAGAIN, rdma_get_cm_event(first, &event));
    must(rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, 1000) == 0);
    must(is_readable(first->fd, 10000));
    must(rdma_migrate_id(id, second) == 0 && id->channel == second);
    minus_with(EAGAIN, rdma_get_cm_event(first, &event));
    must(rdma_get_cm_event(second, &event) == 0 && event->id == id);
    must(event->event == RDMA_CM_EVENT_ADDR_RESOLVED && event->status == 0);
    must(id->verbs && id->port_num == 1 && rdma_get_dst_port(id) == htons(9));
    must(strcmp(rdma_event_str(event->event), "RDMA_CM_EVENT_ADDR_RESOLVED") == 0);
    must(rdma_ack_cm_event(event) == 0);
    minus_with(EINVAL, rdma_ack_cm_event(event));
    must(rdma_destroy_id(id) == 0);
    rdma_destroy_event_channel(first);
    rdma_destroy_event_channel(second);
}

int main(void)
{
    struct ibv_context *context = open_weft();
    completions(context);
    asynchronous(context);
    connections();
    must(ibv_close_device(context) == 0);
    puts("ok");
    return 0;
}
