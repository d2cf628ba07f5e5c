/* All wrong arguments, except for wrong addresses of memory. */
#include <dlfcn.h>
#include <stdbool.h>

#include "common.h"

/* Libraries for other devices read behind the struct of a device to recognize their own, if they are installed. */
static void devices_of_others(struct ibv_context *context)
{
    static const char *const names[][2] = {{"libmlx5.so.1", "mlx5dv_is_supported"}, {"libefa.so.1", "efadv_query_device"}};
    void *library = dlopen(names[0][0], RTLD_NOW);
    if (library) {
        bool (*is_mlx5)(struct ibv_device *) = dlsym(library, names[0][1]);
        must(is_mlx5 && !is_mlx5(context->device));
        must(dlclose(library) == 0);
    }
    library = dlopen(names[1][0], RTLD_NOW);
    if (library) {
        char attr[256] = {0};
        int (*query)(struct ibv_context *, void *, uint32_t) = dlsym(library, names[1][1]);
        must(query && query(context, attr, sizeof attr) == EOPNOTSUPP);
        must(dlclose(library) == 0);
    }
}

static void devices(struct ibv_context *context)
{
    struct ibv_device_attr attr;
    struct ibv_port_attr port;
    union ibv_gid gid;
    uint16_t pkey;
    struct ibv_gid_entry entry;
    null_with(ENODEV, ibv_open_device(NULL));
    null_with(ENODEV, ibv_open_device((struct ibv_device *)context));
    must(ibv_get_device_name(NULL) == NULL);
    ibv_free_device_list(NULL);
    must(ibv_query_device(NULL, &attr) == EINVAL);
    must(ibv_query_device(context, NULL) == EINVAL);
    must(ibv_query_port(context, 2, &port) == EINVAL);
    minus_with(EINVAL, ibv_query_gid(context, 1, 1, &gid));
    minus_with(EINVAL, ibv_query_gid(context, 1, -1, &gid));
    minus_with(EINVAL, ibv_query_pkey(context, 1, 1, &pkey));
    must(ibv_query_gid_ex(context, 1, 7, &entry, 0) == ENODATA);
    must(ibv_query_gid_ex(context, 1, 0, &entry, 1) == EINVAL);
    must(ibv_query_gid_ex(context, 1, 0, &entry, 0) == 0 && entry.port_num == 1);
    null_with(EINVAL, ibv_alloc_pd((struct ibv_context *)&attr));
    null_with(EOPNOTSUPP, ibv_create_ah(NULL, NULL));
    must(strcmp(ibv_wc_status_str(-1), ibv_wc_status_str(1000)) == 0);
}

static void memory(struct ibv_context *context)
{
    static char buffer[4096];
    struct ibv_pd *pd = ibv_alloc_pd(context);
    must(pd);
    null_with(EINVAL, ibv_reg_mr(NULL, buffer, 1, 0));
    null_with(EINVAL, ibv_reg_mr((struct ibv_pd *)context, buffer, 1, 0));
    null_with(EINVAL, ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_REMOTE_WRITE));
    null_with(EOPNOTSUPP, ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_ON_DEMAND));
    null_with(EFAULT, ibv_reg_mr(pd, (void *)0x1000, 4096, IBV_ACCESS_LOCAL_WRITE));
    null_with(EINVAL, ibv_reg_mr(pd, buffer, SIZE_MAX, 0));
    volatile unsigned int flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof buffer, flags);
    must(mr && mr->addr == buffer && mr->length == sizeof buffer && mr->lkey == mr->rkey && mr->pd == pd);
    must(ibv_dealloc_pd(pd) == EBUSY);
    must(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0) == -1 && errno == EINVAL);
    static char other[4096];
    must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, 100, 0) == 0);
    must(mr->addr == other && mr->length == 100);
    must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)0x1000, 100, 0) == -1 && errno == EFAULT);
    must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ) == 0);
    must(ibv_dereg_mr(mr) == 0);
    must(ibv_dereg_mr(mr) == EINVAL);
    must(ibv_dereg_mr(NULL) == EINVAL);
    must(ibv_dealloc_pd(pd) == 0);
    must(ibv_dealloc_pd(pd) == EINVAL);
}

static void queues(struct ibv_context *context)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    must(pd && channel && channel->fd >= 0);
    null_with(EINVAL, ibv_create_cq(context, 0, NULL, NULL, 0));
    null_with(EINVAL, ibv_create_cq(context, -1, NULL, NULL, 0));
    null_with(EINVAL, ibv_create_cq(context, 10, NULL, NULL, 1000));
    null_with(EINVAL, ibv_create_cq(context, 10, NULL, (struct ibv_comp_channel *)pd, 0));
    struct ibv_cq *cq = ibv_create_cq(context, 10, pd, channel, 0);
    must(cq && cq->cqe >= 10 && cq->cq_context == pd && cq->channel == channel);
    must(ibv_destroy_comp_channel(channel) == EBUSY);
    struct ibv_wc wc;
    must(ibv_poll_cq(cq, 1, &wc) == 0);
    minus_with(EINVAL, ibv_poll_cq(cq, 1, NULL));
    minus_with(EINVAL, ibv_poll_cq(cq, -1, &wc));
    must(ibv_resize_cq(cq, 0) == EINVAL);
    must(ibv_resize_cq(cq, 100) == 0 && cq->cqe >= 100);
    struct ibv_cq_init_attr_ex strange = {.cqe = 4, .comp_mask = 1u << 31};
    null_with(EOPNOTSUPP, ibv_create_cq_ex(context, &strange));

    struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
                                    .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
    null_with(EOPNOTSUPP, ibv_create_qp(pd, &attr));
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_sge = 1000;
    null_with(EINVAL, ibv_create_qp(pd, &attr));
    attr.cap.max_send_sge = 1;
    attr.send_cq = NULL;
    null_with(EINVAL, ibv_create_qp(pd, &attr));
    null_with(EINVAL, ibv_create_qp(pd, NULL));
    attr.send_cq = cq;
    struct ibv_qp *qp = ibv_create_qp(pd, &attr);
    must(qp && attr.cap.max_send_wr >= 2 && qp->state == IBV_QPS_RESET);
    must(ibv_destroy_cq(cq) == EBUSY);
    must(ibv_dealloc_pd(pd) == EBUSY);

    struct ibv_qp_attr change = {.qp_state = IBV_QPS_RTR};
    must(ibv_modify_qp(qp, &change, IBV_QP_STATE) == EINVAL);
    must(ibv_modify_qp(qp, &change, 1 << 30) == EINVAL);
    change.qp_state = IBV_QPS_RESET;
    must(ibv_modify_qp(qp, &change, IBV_QP_STATE) == 0);
    must(ibv_modify_qp(qp, NULL, IBV_QP_STATE) == EINVAL);
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .num_sge = 0}, *bad_send = NULL;
    must(ibv_post_send(qp, &send, &bad_send) != 0 && bad_send == &send);
    send.opcode = 77;
    must(ibv_post_send(qp, &send, &bad_send) == EINVAL);
    struct ibv_recv_wr recv = {.num_sge = -1}, *bad_recv = NULL;
    must(ibv_post_recv(qp, &recv, &bad_recv) == EINVAL && bad_recv == &recv);
    recv.num_sge = 1;
    must(ibv_post_recv(qp, &recv, &bad_recv) == EINVAL);
    recv.num_sge = 0;
    change.qp_state = IBV_QPS_ERR;
    must(ibv_post_recv(qp, &recv, &bad_recv) == 0);
    must(ibv_modify_qp(qp, &change, IBV_QP_STATE) == 0 && qp->state == IBV_QPS_ERR);
    must(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR && wc.qp_num == qp->qp_num);
    must(ibv_destroy_qp(qp) == 0);
    must(ibv_destroy_qp(qp) == EINVAL);
    must(ibv_destroy_cq(cq) == 0);
    must(ibv_destroy_cq(cq) == EINVAL);
    ibv_ack_cq_events(cq, 5);
    must(ibv_destroy_comp_channel(channel) == 0);
    must(ibv_destroy_comp_channel(channel) == EINVAL);
    must(ibv_dealloc_pd(pd) == 0);
}

static void shared_queues(struct ibv_context *context)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 8, .max_sge = 1000}};
    null_with(EINVAL, ibv_create_srq(pd, &attr));
    null_with(EINVAL, ibv_create_srq(pd, NULL));
    attr.attr.max_sge = 2;
    struct ibv_srq *srq = ibv_create_srq(pd, &attr);
    must(srq && attr.attr.max_wr >= 8);
    must(ibv_modify_srq(srq, &attr.attr, 64) == EINVAL);
    attr.attr.srq_limit = 3;
    must(ibv_modify_srq(srq, &attr.attr, IBV_SRQ_LIMIT) == 0);
    attr.attr.srq_limit = 0;
    must(ibv_query_srq(srq, &attr.attr) == 0 && attr.attr.srq_limit == 3);
    must(ibv_query_srq(srq, NULL) == EINVAL);
    struct ibv_recv_wr recv = {.num_sge = 0}, *bad = NULL;
    must(ibv_post_srq_recv(srq, &recv, &bad) == 0);
    must(ibv_destroy_srq(srq) == 0);
    must(ibv_destroy_srq(srq) == EINVAL);
    must(ibv_dealloc_pd(pd) == 0);
}

static void ids(void)
{
    struct rdma_cm_id *id = NULL;
    struct rdma_cm_event *event;
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct sockaddr_in strange = {.sin_family = AF_UNIX};
    struct rdma_event_channel *channel = rdma_create_event_channel();
    must(channel && channel->fd >= 0);
    minus_with(EOPNOTSUPP, rdma_create_id(channel, &id, NULL, RDMA_PS_UDP));
    minus_with(EINVAL, rdma_create_id((struct rdma_event_channel *)&id, &id, NULL, RDMA_PS_TCP));
    minus_with(EINVAL, rdma_create_id(channel, NULL, NULL, RDMA_PS_TCP));
    must(rdma_create_id(channel, &id, &address, RDMA_PS_TCP) == 0 && id->context == &address && !id->verbs);
    minus_with(EINVAL, rdma_bind_addr(id, NULL));
    minus_with(EAFNOSUPPORT, rdma_bind_addr(id, (struct sockaddr *)&strange));
    minus_with(EINVAL, rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 100));
    minus_with(EINVAL, rdma_connect(id, NULL));
    minus_with(EINVAL, rdma_accept(id, NULL));
    minus_with(EINVAL, rdma_disconnect(id));
    minus_with(EINVAL, rdma_get_request(id, &id));
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};
    minus_with(EINVAL, rdma_create_qp(id, NULL, &attr));
    rdma_destroy_qp(id);
    minus_with(EOPNOTSUPP, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &attr, 1));
    must(rdma_bind_addr(id, (struct sockaddr *)&address) == 0 && rdma_get_src_port(id) != 0);
    minus_with(EINVAL, rdma_ack_cm_event((struct rdma_cm_event *)id));
    minus_with(EINVAL, rdma_get_cm_event(NULL, &event));
    must(rdma_destroy_id(id) == 0);
    minus_with(EINVAL, rdma_destroy_id(id));
    minus_with(EINVAL, rdma_destroy_id(NULL));
    rdma_destroy_event_channel(channel);
    rdma_destroy_event_channel(channel);
    struct rdma_addrinfo *info = NULL;
    minus_with(EINVAL, rdma_getaddrinfo(NULL, NULL, NULL, &info));
    struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST};
    must(rdma_getaddrinfo("no.such.name.", NULL, &hints, &info) != 0 && !info);
    rdma_freeaddrinfo(NULL);
    rdma_destroy_ep(NULL);
}

int main(void)
{
    struct ibv_context *context = open_weft();
    devices(context);
    devices_of_others(context);
    memory(context);
    queues(context);
    shared_queues(context);
    ids();
    must(ibv_close_device(context) == 0);
    must(ibv_close_device(context) == EINVAL);
    puts("ok");
    return 0;
}
