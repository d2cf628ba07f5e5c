/* The program closes the library's descriptors, one by one and all at once. Calls fail or connections end. */
#include "common.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/time.h>

static struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                       .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
static char buffer[4096];

/* Closes the descriptors of channels, before a wait and before the channel is destroyed. */
static void one_by_one(void)
{
    struct ibv_context *context = open_weft();
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, channel, 0);
    must(cq && ibv_req_notify_cq(cq, 0) == 0 && close(channel->fd) == 0);
    void *cq_context;
    minus_with(EBADF, ibv_get_cq_event(channel, &cq, &cq_context));
    /* Another file has the number now, and stays open. */
    int other = open("/dev/null", O_RDONLY);
    must(other == channel->fd);
    must(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
    must(fcntl(other, F_GETFD) >= 0 && close(other) == 0);

    struct ibv_async_event event;
    must(close(context->async_fd) == 0);
    minus_with(EBADF, ibv_get_async_event(context, &event));
    must(ibv_close_device(context) == 0);

    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_event *cm_event;
    struct rdma_cm_id *id;
    must(events && rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0 && close(events->fd) == 0);
    minus_with(EBADF, rdma_get_cm_event(events, &cm_event));
    must(rdma_destroy_id(id) == 0);
    rdma_destroy_event_channel(events);
}

static double processor_time(void)
{
    struct rusage usage;
    must(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Closes all descriptors, as daemons do, during a connection whose queue pairs have receives. */
static void all_at_once(void)
{
    struct ends ends = connect_ends(NULL, attr);
    struct ibv_mr *mr = rdma_reg_msgs(ends.server, buffer, sizeof buffer);
    must(mr);
    must(rdma_post_recv(ends.server, NULL, buffer, sizeof buffer, mr) == 0);
    must(rdma_post_recv(ends.client, NULL, buffer, sizeof buffer, mr) == 0);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    /* Each receive is flushed, and so are later requests. */
    struct ibv_wc wc;
    struct rdma_cm_id *ids[] = {ends.server, ends.client};
    for (int side = 0; side < 2; side++) {
        while (ibv_poll_cq(ids[side]->recv_cq, 1, &wc) == 0)
            ;
        must(wc.status == IBV_WC_WR_FLUSH_ERR && ids[side]->qp->qp_num == wc.qp_num);
        if (rdma_post_send(ids[side], NULL, buffer, 8, mr, IBV_SEND_SIGNALED) == 0) {
            while (ibv_poll_cq(ids[side]->send_cq, 1, &wc) == 0)
                ;
            must(wc.status != IBV_WC_SUCCESS);
        }
        struct ibv_cq *cq;
        void *context;
        minus_with(EBADF, ibv_get_cq_event(ids[side]->recv_cq_channel, &cq, &context));
    }
    struct rdma_cm_id *id;
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *info;
    must(rdma_getaddrinfo("127.0.0.1", "0", &hints, &info) == 0);
    if (rdma_create_ep(&id, info, NULL, &attr) == 0 && rdma_listen(id, 1) == 0)
        must(!"nothing can listen without descriptors of the device");
    rdma_freeaddrinfo(info);
    /* The thread that drives the device does not spin. */
    double before = processor_time();
    struct timeval second = {.tv_sec = 1};
    must(select(0, NULL, NULL, NULL, &second) == 0);
    double used = processor_time() - before;
    must(used < 0.5);
    /* Files that are opened now get the old numbers, and the library leaves them alone. */
    int files[64];
    for (int index = 0; index < 64; index++)
        must((files[index] = open("/dev/null", O_RDONLY)) >= 0);
    must(rdma_dereg_mr(mr) == 0);
    rdma_destroy_ep(ends.client);
    rdma_destroy_ep(ends.server);
    rdma_destroy_ep(ends.listener);
    rdma_freeaddrinfo(ends.client_info);
    for (int index = 0; index < 64; index++)
        must(close(files[index]) == 0);
}

int main(void)
{
    one_by_one();
    all_at_once();
    puts("ok");
    return 0;
}
