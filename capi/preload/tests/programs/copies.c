/* Copies of structs as handles: inline functions of the headers pass them to the functions behind their pointers.
   Also invalid sequences of building calls. */
#include "common.h"

static char buffer[256];
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq_ex *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static struct ibv_qp_ex *qp;

static void make_all(void)
{
    struct ibv_cq_init_attr_ex cq_attr = {.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS & ~(IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL)};
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    context = open_weft();
    pd = ibv_alloc_pd(context);
    mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    cq = ibv_create_cq_ex(context, &cq_attr);
    srq = ibv_create_srq(pd, &srq_attr);
    must(pd && mr && cq && srq);
    struct ibv_qp_init_attr_ex attr = {.send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = IBV_QPT_RC,
                                       .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 16},
                                       .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                       .pd = pd, .send_ops_flags = IBV_QP_EX_WITH_SEND};
    /* Unknown masks and flags, one by one. */
    for (unsigned bit = 3; bit < 32; bit++) {
        struct ibv_qp_init_attr_ex strange = attr;
        strange.comp_mask |= 1u << bit;
        if (1u << bit != IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
            null_with(EOPNOTSUPP, ibv_create_qp_ex(context, &strange));
    }
    struct ibv_qp_init_attr_ex strange = attr;
    strange.send_ops_flags = 1ull << 40;
    null_with(EOPNOTSUPP, ibv_create_qp_ex(context, &strange));
    strange = attr;
    strange.pd = (struct ibv_pd *)context;
    null_with(EINVAL, ibv_create_qp_ex(context, &strange));
    strange = attr;
    strange.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    strange.create_flags = 1;
    null_with(EOPNOTSUPP, ibv_create_qp_ex(context, &strange));
    /* Flags without their bit in the mask are ignored. */
    attr.create_flags = 1;
    struct ibv_qp *made = ibv_create_qp_ex(context, &attr);
    must(made && (qp = ibv_qp_to_qp_ex(made)));
    null_with(EINVAL, ibv_qp_to_qp_ex((struct ibv_qp *)pd));
    null_with(EINVAL, ibv_qp_to_qp_ex(NULL));
}

static void copies_of_queues(void)
{
    struct ibv_wc wc;
    struct ibv_cq_ex cq_copy = *cq;
    struct ibv_cq *plain = ibv_cq_ex_to_cq(&cq_copy);
    struct ibv_poll_cq_attr poll_attr = {.comp_mask = 1};
    struct ibv_modify_cq_attr change = {.attr_mask = 1u << 31};
    minus_with(EINVAL, ibv_poll_cq(plain, 1, &wc));
    must(ibv_req_notify_cq(plain, 0) == EINVAL);
    must(ibv_resize_cq(plain, 4) == EINVAL);
    must(ibv_modify_cq(plain, &change) == EINVAL);
    must(ibv_modify_cq(ibv_cq_ex_to_cq(cq), &change) == EOPNOTSUPP);
    must(ibv_modify_cq(ibv_cq_ex_to_cq(cq), NULL) == EINVAL);
    ibv_ack_cq_events(plain, 1);
    must(ibv_start_poll(cq, &poll_attr) == EINVAL);
    poll_attr.comp_mask = 0;
    must(ibv_start_poll(cq, &poll_attr) == ENOENT);
    must(ibv_start_poll(&cq_copy, &poll_attr) == EINVAL && ibv_next_poll(&cq_copy) == EINVAL);
    must(ibv_wc_read_opcode(&cq_copy) == 0 && ibv_wc_read_byte_len(&cq_copy) == 0 && ibv_wc_read_vendor_err(&cq_copy) == 0);
    must(ibv_wc_read_qp_num(&cq_copy) == 0 && ibv_wc_read_wc_flags(&cq_copy) == 0 && ibv_wc_read_imm_data(&cq_copy) == 0);
    must(ibv_wc_read_completion_ts(&cq_copy) == 0);
    ibv_end_poll(&cq_copy);
    must(ibv_destroy_cq(plain) == EINVAL && ibv_destroy_cq(NULL) == EINVAL);

    struct ibv_srq srq_copy = *srq;
    struct ibv_recv_wr recv = {.num_sge = 0}, *bad = NULL;
    struct ibv_srq_attr srq_attr;
    must(ibv_post_srq_recv(&srq_copy, &recv, &bad) == EINVAL && bad == &recv);
    must(ibv_query_srq(&srq_copy, &srq_attr) == EINVAL && ibv_modify_srq(&srq_copy, &srq_attr, IBV_SRQ_LIMIT) == EINVAL);
    must(ibv_destroy_srq(&srq_copy) == EINVAL && ibv_destroy_srq(NULL) == EINVAL);
    /* Lengths off by one, in both directions. */
    struct ibv_sge sges[2] = {{(uintptr_t)buffer, sizeof buffer, mr->lkey}, {(uintptr_t)buffer, sizeof buffer, mr->lkey}};
    recv = (struct ibv_recv_wr){.num_sge = 2, .sg_list = sges};
    must(ibv_post_srq_recv(srq, &recv, &bad) == EINVAL);
    recv.num_sge = INT32_MAX;
    must(ibv_post_srq_recv(srq, &recv, &bad) == EINVAL);
    recv.num_sge = 1;
    for (int index = 0; index < 4; index++)
        must(ibv_post_srq_recv(srq, &recv, &bad) == 0);
    must(ibv_query_srq(srq, &srq_attr) == 0);
    for (unsigned index = 4; index < srq_attr.max_wr; index++)
        must(ibv_post_srq_recv(srq, &recv, &bad) == 0);
    must(ibv_post_srq_recv(srq, &recv, &bad) == ENOMEM && bad == &recv);
}

static void copies_of_the_queue_pair(void)
{
    struct ibv_qp_ex copy = *qp;
    struct ibv_qp *plain = &copy.qp_base;
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;
    struct ibv_recv_wr recv = {.num_sge = 0}, *bad_recv = NULL;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_qp_init_attr init;
    must(ibv_post_send(plain, &send, &bad_send) == EINVAL && bad_send == &send);
    must(ibv_post_recv(plain, &recv, &bad_recv) == EINVAL && bad_recv == &recv);
    must(ibv_modify_qp(plain, &attr, IBV_QP_STATE) == EINVAL && ibv_query_qp(plain, &attr, 0, &init) == EINVAL);
    must(ibv_query_qp(&qp->qp_base, NULL, 0, &init) == EINVAL && ibv_query_qp(&qp->qp_base, &attr, 0, NULL) == EINVAL);
    ibv_wr_start(&copy);
    ibv_wr_send(&copy);
    ibv_wr_rdma_read(&copy, 1, 2);
    ibv_wr_atomic_fetch_add(&copy, 1, 2, 3);
    ibv_wr_set_sge(&copy, mr->lkey, (uintptr_t)buffer, 1);
    ibv_wr_set_sge_list(&copy, 1, NULL);
    ibv_wr_set_inline_data(&copy, NULL, 5);
    ibv_wr_set_inline_data_list(&copy, 3, NULL);
    must(ibv_wr_complete(&copy) == EINVAL);
    ibv_wr_abort(&copy);
    must(ibv_destroy_qp(plain) == EINVAL && ibv_destroy_qp(NULL) == EINVAL);
}

static void requests_that_make_no_sense(void)
{
    struct ibv_sge sges[3] = {{(uintptr_t)buffer, 1, mr->lkey}, {(uintptr_t)buffer, 1, mr->lkey}, {(uintptr_t)buffer, 1, mr->lkey}};
    struct ibv_data_buf data = {.addr = NULL, .length = 1};
    struct {
        size_t sges, octets;
        void *list;
    } wrong[] = {{3, 0, sges}, {SIZE_MAX, 0, sges}, {1, 0, NULL}, {0, SIZE_MAX, buffer}, {0, 1, NULL}, {0, 1 << 20, buffer}};
    for (unsigned index = 0; index < sizeof wrong / sizeof *wrong; index++) {
        ibv_wr_start(qp);
        ibv_wr_send(qp);
        if (wrong[index].sges)
            ibv_wr_set_sge_list(qp, wrong[index].sges, wrong[index].list);
        else
            ibv_wr_set_inline_data(qp, wrong[index].list, wrong[index].octets);
        must(ibv_wr_complete(qp) != 0);
    }
    /* Data before a request; no data; no request; an end without a beginning; an operation that iWARP lacks. */
    ibv_wr_start(qp);
    ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)buffer, 1);
    must(ibv_wr_complete(qp) == EINVAL);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data_list(qp, 1, &data);
    must(ibv_wr_complete(qp) == EINVAL);
    ibv_wr_start(qp);
    must(ibv_wr_complete(qp) == 0);
    must(ibv_wr_complete(qp) == 0);
    ibv_wr_start(qp);
    ibv_wr_send_imm(qp, 7);
    ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)buffer, 1);
    must(ibv_wr_complete(qp) == EOPNOTSUPP);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_abort(qp);
    must(ibv_wr_complete(qp) == 0);
}

static void contexts_and_memory(void)
{
    struct verbs_context *whole = verbs_get_ctx(context);
    struct verbs_context copy = *whole;
    struct ibv_context *fake = &copy.context;
    struct ibv_device_attr_ex device;
    struct ibv_port_attr port;
    struct ibv_gid_entry entries[2];
    struct ibv_mr mr_copy = *mr;
    must(ibv_query_device_ex(fake, NULL, &device) == EINVAL && ibv_query_device_ex(context, NULL, NULL) == EINVAL);
    must(___ibv_query_port(fake, 1, &port) == EINVAL);
    must(ibv_query_gid_table(fake, entries, 2, 0) == -EINVAL);
    must(ibv_query_gid_table(context, entries, 0, 0) == -EINVAL && ibv_query_gid_table(context, entries, 2, 0) == 1);
    must(ibv_query_gid_table(context, NULL, 2, 0) == -EINVAL && ibv_query_gid_table(context, entries, 2, 5) == -EINVAL);
    null_with(EINVAL, ibv_create_comp_channel(fake));
    null_with(EINVAL, ibv_create_cq_ex(fake, &(struct ibv_cq_init_attr_ex){.cqe = 1}));
    must(ibv_dereg_mr(&mr_copy) == EINVAL && ibv_close_device(fake) == EINVAL);
    must(ibv_rereg_mr(&mr_copy, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == -1 && errno == EINVAL);
    must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, (struct ibv_pd *)context, NULL, 0, 0) == -1 && errno == EINVAL);
    must(ibv_rereg_mr(mr, 1 << 20, NULL, NULL, 0, 0) == -1 && errno == EINVAL);
    struct ibv_async_event event = {.element.qp = (struct ibv_qp *)&mr_copy, .event_type = IBV_EVENT_QP_FATAL};
    ibv_ack_async_event(&event);
    event.event_type = 1000;
    ibv_ack_async_event(&event);
    must(ibv_get_async_event(fake, &event) == -1 && errno == EINVAL);
    must(ibv_get_async_event(context, NULL) == -1 && errno == EINVAL);
}

static void ids(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};
    must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    struct rdma_cm_id copy = *id, *fakes[] = {NULL, &copy, (struct rdma_cm_id *)channel};
    struct ibv_qp_attr qp_attr = {.qp_state = IBV_QPS_INIT};
    int mask;
    for (int index = 0; index < 3; index++) {
        struct rdma_cm_id *fake = fakes[index], *got;
        minus_with(EINVAL, rdma_bind_addr(fake, (struct sockaddr *)&any));
        minus_with(EINVAL, rdma_resolve_addr(fake, NULL, (struct sockaddr *)&any, 1));
        minus_with(EINVAL, rdma_resolve_route(fake, 1));
        minus_with(EINVAL, rdma_listen(fake, 1));
        minus_with(EINVAL, rdma_connect(fake, NULL));
        minus_with(EINVAL, rdma_accept(fake, NULL));
        minus_with(EINVAL, rdma_reject(fake, NULL, 0));
        minus_with(EINVAL, rdma_establish(fake));
        minus_with(EINVAL, rdma_disconnect(fake));
        minus_with(EINVAL, rdma_notify(fake, IBV_EVENT_COMM_EST));
        minus_with(EINVAL, rdma_migrate_id(fake, channel));
        minus_with(EINVAL, rdma_get_request(fake, &got));
        minus_with(EINVAL, rdma_create_qp(fake, NULL, &attr));
        minus_with(EINVAL, rdma_init_qp_attr(fake, &qp_attr, &mask));
        minus_with(EINVAL, rdma_set_option(fake, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &mask, sizeof mask));
        minus_with(EINVAL, rdma_destroy_id(fake));
        must(rdma_get_src_port(fake) == 0 && rdma_get_dst_port(fake) == 0);
        rdma_destroy_qp(fake);
        rdma_destroy_ep(fake);
    }
    minus_with(EINVAL, rdma_migrate_id(id, (struct rdma_event_channel *)&copy));
    minus_with(EINVAL, rdma_reject(id, NULL, 5));
    minus_with(EINVAL, rdma_init_qp_attr(id, NULL, &mask));
    minus_with(EINVAL, rdma_init_qp_attr(id, &qp_attr, NULL));
    minus_with(EINVAL, rdma_create_qp(id, NULL, NULL));
    struct rdma_conn_param param = {.private_data = NULL, .private_data_len = 4};
    minus_with(EINVAL, rdma_connect(id, &param));
    minus_with(EINVAL, rdma_ack_cm_event(NULL));
    minus_with(EINVAL, rdma_create_ep(NULL, NULL, NULL, NULL));
    minus_with(EINVAL, rdma_create_ep(&id, NULL, NULL, NULL));
    must(rdma_destroy_id(id) == 0);
    rdma_free_devices(NULL);
    rdma_free_devices((struct ibv_context **)&copy);
    rdma_destroy_event_channel(NULL);
    rdma_destroy_event_channel((struct rdma_event_channel *)&copy);
    rdma_freeaddrinfo((struct rdma_addrinfo *)&copy);
    rdma_destroy_event_channel(channel);
}

int main(void)
{
    make_all();
    copies_of_queues();
    copies_of_the_queue_pair();
    requests_that_make_no_sense();
    contexts_and_memory();
    ids();
    must(ibv_destroy_qp(&qp->qp_base) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0 && ibv_destroy_srq(srq) == 0);
    must(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
    puts("ok");
    return 0;
}
