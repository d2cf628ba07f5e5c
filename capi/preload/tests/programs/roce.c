/* The second personality: queue pairs that find each other by GID and number, without rdma_cm. */
#include "common.h"

#include <arpa/inet.h>

enum { SIZE = 4096, DEPTH = 16 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static unsigned char memory[2 * SIZE] __attribute__((aligned(64)));
static union ibv_gid own_gid;

static struct ibv_qp *make_qp(struct ibv_srq *srq)
{
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC,
                                    .cap = {DEPTH, DEPTH, 1, 1, 64}};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    must(qp && qp->state == IBV_QPS_RESET && qp->qp_num > 0xFFFF && qp->qp_num < 1 << 24);
    return qp;
}

static int to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 0xF};
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static const int RTR_MASK = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

static struct ibv_qp_attr rtr_attr(uint32_t number)
{
    return (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = number,
                                .max_dest_rd_atomic = 4, .min_rnr_timer = 12,
                                .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = own_gid, .hop_limit = 1}}};
}

static int to_rtr(struct ibv_qp *qp, uint32_t number)
{
    struct ibv_qp_attr attr = rtr_attr(number);
    return ibv_modify_qp(qp, &attr, RTR_MASK);
}

static int to_rts(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 1, .rnr_retry = 7, .max_rd_atomic = 4};
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                        IBV_QP_MAX_QP_RD_ATOMIC);
}

static int to(struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    must(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == qp->state);
    return attr.qp_state;
}

static int post(struct ibv_qp *qp, uint64_t id, enum ibv_wr_opcode opcode)
{
    struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = htonl(77)}, *bad;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)memory + SIZE;
        wr.wr.atomic.rkey = mr->rkey;
        wr.wr.atomic.compare_add = 5;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)memory + SIZE;
        wr.wr.rdma.rkey = mr->rkey;
    }
    return ibv_post_send(qp, &wr, &bad);
}

static void post_recv(struct ibv_qp *qp, uint64_t id)
{
    struct ibv_sge sge = {(uintptr_t)memory + SIZE, SIZE, mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    must(ibv_post_recv(qp, &wr, &bad) == 0);
}

static struct ibv_wc next(void)
{
    struct ibv_wc wc;
    int count;
    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0)
        ;
    must(count == 1);
    return wc;
}

/* Takes two completions with these ids, in any order. */
static void both_good(uint64_t first, struct ibv_qp *of_first, uint64_t second, struct ibv_qp *of_second)
{
    for (int i = 0, seen = 0; i < 2; i++) {
        struct ibv_wc wc = next();
        int is_first = wc.wr_id == first && !(seen & 1);
        must(wc.status == IBV_WC_SUCCESS && (is_first || wc.wr_id == second));
        must(wc.qp_num == (is_first ? of_first : of_second)->qp_num);
        seen |= is_first ? 1 : 2;
    }
}

static void look(void)
{
    struct ibv_port_attr port;
    struct ibv_gid_entry entry, table[8];
    uint16_t pkey;
    must(context->device->node_type == IBV_NODE_CA && context->device->transport_type == IBV_TRANSPORT_IB);
    must(ibv_query_port(context, 1, &port) == 0 && port.link_layer == IBV_LINK_LAYER_ETHERNET);
    must(port.lid == 0 && port.state == IBV_PORT_ACTIVE && port.gid_tbl_len >= 1 && port.pkey_tbl_len == 1);
    must(ibv_query_pkey(context, 1, 0, &pkey) == 0 && pkey == 0xFFFF);
    must(ibv_query_gid_table(context, table, 8, 0) == (port.gid_tbl_len < 8 ? port.gid_tbl_len : 8));
    int is_local = 0;
    for (int i = 0; i < port.gid_tbl_len; i++) {
        static const unsigned char LOCAL[16] = {[10] = 0xFF, 0xFF, 127, 0, 0, 1};
        union ibv_gid gid;
        must(ibv_query_gid_ex(context, 1, i, &entry, 0) == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2);
        must(ibv_query_gid(context, 1, i, &gid) == 0 && memcmp(&gid, &entry.gid, sizeof gid) == 0);
        must(i >= 8 || memcmp(&table[i], &entry, sizeof entry) == 0);
        if (memcmp(&gid, LOCAL, sizeof gid) == 0)
            is_local = 1;
    }
    must(is_local && ibv_query_gid_ex(context, 1, port.gid_tbl_len, &entry, 0) == ENODATA);
    must(ibv_query_gid(context, 1, 0, &own_gid) == 0);
}

static void refuse_nonsense(void)
{
    struct ibv_qp *qp = make_qp(NULL);
    must(to_rtr(qp, qp->qp_num) == EINVAL && to_rts(qp) == EINVAL && state_of(qp) == IBV_QPS_RESET);
    must(post(qp, 1, IBV_WR_SEND) == EINVAL);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 2};
    must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT) == EINVAL);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .pkey_index = 1};
    must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX) == EINVAL);
    must(to_init(qp) == 0 && to_init(qp) == 0 && state_of(qp) == IBV_QPS_INIT);
    must(to_rts(qp) == EINVAL && post(qp, 1, IBV_WR_SEND) == EINVAL);

    must(to_rtr(qp, 0) == EINVAL && to_rtr(qp, 1) == EINVAL && to_rtr(qp, 1 << 24) == EINVAL && to_rtr(qp, ~0U) == EINVAL);
    attr = rtr_attr(qp->qp_num);
    must(ibv_modify_qp(qp, &attr, RTR_MASK & ~IBV_QP_AV) == EINVAL && ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
    must(ibv_modify_qp(qp, &attr, RTR_MASK & ~IBV_QP_DEST_QPN) == EINVAL);
    attr.ah_attr.is_global = 0;
    must(ibv_modify_qp(qp, &attr, RTR_MASK) == EINVAL);
    attr = rtr_attr(qp->qp_num);
    attr.ah_attr.grh.sgid_index = 255;
    must(ibv_modify_qp(qp, &attr, RTR_MASK) == EINVAL);
    attr = rtr_attr(qp->qp_num);
    attr.path_mtu = 9;
    must(ibv_modify_qp(qp, &attr, RTR_MASK) == EINVAL);
    const char *nobody[] = {"::", "ff02::1", "fe80::1", "::ffff:224.0.0.1", "::ffff:0.0.0.0"};
    for (int i = 0; i < 5; i++) {
        attr = rtr_attr(qp->qp_num);
        must(inet_pton(AF_INET6, nobody[i], &attr.ah_attr.grh.dgid) == 1);
        must(ibv_modify_qp(qp, &attr, RTR_MASK) == EINVAL);
    }
    must(state_of(qp) == IBV_QPS_INIT && to(qp, IBV_QPS_SQD) == EINVAL && ibv_destroy_qp(qp) == 0);
    must(to_init(qp) == EINVAL);
}

/* Runs all operations between two queue pairs as soon as both are ready. */
static void exchange(struct ibv_qp *a, struct ibv_qp *b)
{
    uint64_t value = 100;
    memset(memory, 9, sizeof value);
    /* The octets of a Write are placed when it completes. */
    must(post(a, 1, IBV_WR_RDMA_WRITE) == 0 && next().wr_id == 1 && memory[SIZE] == 9);
    memcpy(memory + SIZE, &value, sizeof value);
    must(post(b, 2, IBV_WR_ATOMIC_FETCH_AND_ADD) == 0);
    struct ibv_wc wc = next();
    must(wc.wr_id == 2 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_FETCH_ADD && wc.qp_num == b->qp_num);
    must(memcmp(memory, &value, 8) == 0);
    must(post(b, 3, IBV_WR_RDMA_READ) == 0 && next().wr_id == 3);
    value = 105;
    must(memcmp(memory, &value, 8) == 0);
    /* A Send waits for its receive. */
    must(post(a, 4, IBV_WR_SEND) == 0 && next().wr_id == 4);
    post_recv(b, 5);
    wc = next();
    must(wc.wr_id == 5 && wc.status == IBV_WC_SUCCESS && wc.byte_len == 8 && wc.qp_num == b->qp_num);
    post_recv(a, 6);
    must(post(b, 7, IBV_WR_RDMA_WRITE_WITH_IMM) == 0);
    both_good(6, a, 7, b);
    must(post(a, 8, IBV_WR_SEND_WITH_IMM) == EOPNOTSUPP);
}

/* One side is ready long before the other, as caller and as called. Its early requests wait. */
static void meet_in_either_order(void)
{
    for (int order = 0; order < 2; order++) {
        struct ibv_qp *qps[2] = {make_qp(NULL), make_qp(NULL)}, *early = qps[order], *late = qps[1 - order];
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        must(to_init(early) == 0 && to_rtr(early, late->qp_num) == 0 && state_of(early) == IBV_QPS_RTR);
        must(to_rtr(early, late->qp_num) == EINVAL && post(early, 1, IBV_WR_SEND) == EINVAL);
        must(to_rts(early) == 0 && to_rts(early) == 0 && state_of(early) == IBV_QPS_RTS);
        must(ibv_query_qp(early, &attr, 0, &init) == 0 && attr.dest_qp_num == late->qp_num && attr.path_mtu == IBV_MTU_1024);
        must(memcmp(&attr.ah_attr.grh.dgid, &own_gid, sizeof own_gid) == 0 && attr.retry_cnt == 1);
        must(post(early, 10, IBV_WR_SEND) == 0);
        must(to_init(late) == 0);
        post_recv(late, 11);
        must(to_rtr(late, early->qp_num) == 0);
        both_good(10, early, 11, late);
        must(to_rts(late) == 0);
        exchange(early, late);
        exchange(late, early);
        must(ibv_destroy_qp(early) == 0 && ibv_destroy_qp(late) == 0);
    }
}

/* A number is free again when its queue pair is gone, and rests for a while. */
static void take_numbers(void)
{
    struct ibv_qp *kept = make_qp(NULL);
    uint32_t last = 0;
    for (int index = 0; index < 600; index++) {
        struct ibv_qp *qp = make_qp(NULL);
        must(qp->qp_num >> 8 == kept->qp_num >> 8 && qp->qp_num != kept->qp_num && qp->qp_num != last);
        last = qp->qp_num;
        must(ibv_destroy_qp(qp) == 0);
    }
    must(ibv_destroy_qp(kept) == 0);
}

static void meet_oneself(void)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    must(srq);
    for (int shared = 0; shared < 2; shared++) {
        struct ibv_qp *qp = make_qp(shared ? srq : NULL);
        must(to_init(qp) == 0);
        if (shared) {
            struct ibv_sge sge = {(uintptr_t)memory + SIZE, SIZE, mr->lkey};
            struct ibv_recv_wr wr = {.wr_id = 21, .sg_list = &sge, .num_sge = 1}, *bad;
            must(ibv_post_srq_recv(srq, &wr, &bad) == 0);
        } else {
            post_recv(qp, 21);
        }
        must(to_rtr(qp, qp->qp_num) == 0 && to_rts(qp) == 0 && post(qp, 20, IBV_WR_SEND) == 0);
        both_good(20, qp, 21, qp);
        if (!shared)
            exchange(qp, qp);
        must(ibv_destroy_qp(qp) == 0);
    }
    must(ibv_destroy_srq(srq) == 0);
}

/* The peer is absent, or names another one, or has gone. The first request fails in time, and the rest is flushed. */
static void meet_nobody(void)
{
    struct ibv_qp *gone = make_qp(NULL), *other = make_qp(NULL), *third = make_qp(NULL), *qp = make_qp(NULL);
    uint32_t numbers[] = {gone->qp_num, other->qp_num, 1 << 8};
    must(ibv_destroy_qp(gone) == 0 && to_init(other) == 0 && to_rtr(other, third->qp_num) == 0);
    for (int i = 0; i < 3; i++) {
        must(to_init(qp) == 0 && to_rtr(qp, numbers[i]) == 0 && to_rts(qp) == 0);
        must(post(qp, 30, IBV_WR_SEND) == 0 && post(qp, 31, IBV_WR_SEND) == 0);
        post_recv(qp, 32);
        struct ibv_wc wc = next();
        must(wc.wr_id == 30 && wc.status == IBV_WC_RETRY_EXC_ERR && wc.qp_num == qp->qp_num);
        for (uint64_t seen = 0; seen < 2; seen++) {
            wc = next();
            must((wc.wr_id == 31 || wc.wr_id == 32) && wc.status == IBV_WC_WR_FLUSH_ERR);
        }
        must(state_of(qp) == IBV_QPS_ERR && to_rts(qp) == EINVAL);
        must(post(qp, 33, IBV_WR_SEND) == 0 && next().status == IBV_WC_WR_FLUSH_ERR);
        must(to(qp, IBV_QPS_RESET) == 0 && state_of(qp) == IBV_QPS_RESET);
    }
    must(ibv_destroy_qp(qp) == 0 && ibv_destroy_qp(other) == 0 && ibv_destroy_qp(third) == 0);
}

/* RESET resets all attributes, and the queue pair meets another one. */
static void begin_anew(void)
{
    struct ibv_qp *a = make_qp(NULL), *b = make_qp(NULL);
    uint32_t number = a->qp_num;
    for (int round = 0; round < 3; round++) {
        must(to_init(a) == 0 && to_init(b) == 0 && to_rtr(a, b->qp_num) == 0 && to_rtr(b, a->qp_num) == 0);
        must(to_rts(a) == 0 && to_rts(b) == 0);
        exchange(a, b);
        post_recv(a, 40);
        if (round == 1) {
            must(to(a, IBV_QPS_ERR) == 0 && state_of(a) == IBV_QPS_ERR);
            struct ibv_wc wc = next();
            must(wc.wr_id == 40 && wc.status == IBV_WC_WR_FLUSH_ERR && wc.qp_num == number);
        }
        must(to(a, IBV_QPS_RESET) == 0 && to(b, IBV_QPS_RESET) == 0 && a->qp_num == number);
    }
    must(ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0);
}

/* Sends arrive although their sender destroys its queue pair. A peer without requests does not notice that. A peer
 * with a request gets an error in bounded time. */
static void leave_early(void)
{
    struct ibv_qp *a = make_qp(NULL), *b = make_qp(NULL);
    must(to_init(a) == 0 && to_init(b) == 0 && to_rtr(a, b->qp_num) == 0 && to_rtr(b, a->qp_num) == 0);
    must(to_rts(a) == 0 && to_rts(b) == 0);
    for (uint64_t id = 50; id < 58; id++)
        must(post(a, id, IBV_WR_SEND) == 0 && next().wr_id == id);
    post_recv(a, 58);
    must(ibv_destroy_qp(a) == 0);
    for (uint64_t id = 60; id < 68; id++) {
        post_recv(b, id);
        struct ibv_wc wc = next();
        must(wc.wr_id == id && wc.status == IBV_WC_SUCCESS && wc.qp_num == b->qp_num);
    }
    post_recv(b, 68);
    must(post(b, 69, IBV_WR_SEND) == 0);
    struct ibv_wc wc = next();
    /* A Send may go out before the peer's end is noticed. */
    if (wc.wr_id == 69 && wc.status == IBV_WC_SUCCESS) {
        must(post(b, 69, IBV_WR_RDMA_READ) == 0);
        wc = next();
    }
    must(wc.wr_id == 69 && wc.status == IBV_WC_RETRY_EXC_ERR);
    wc = next();
    must(wc.wr_id == 68 && wc.status == IBV_WC_WR_FLUSH_ERR && state_of(b) == IBV_QPS_ERR);
    must(ibv_destroy_qp(b) == 0);
}

/* The end during a meeting: of the caller, of the called, and while a call waits. */
static void destroy_while_meeting(void)
{
    for (int round = 0; round < 8; round++) {
        struct ibv_qp *a = make_qp(NULL), *b = make_qp(NULL);
        must(to_init(a) == 0 && to_init(b) == 0);
        must(to_rtr(round & 1 ? a : b, (round & 1 ? b : a)->qp_num) == 0);
        if (round & 2)
            must(to_rtr(round & 1 ? b : a, (round & 1 ? a : b)->qp_num) == 0);
        must(ibv_destroy_qp(round & 4 ? a : b) == 0 && ibv_destroy_qp(round & 4 ? b : a) == 0);
    }
}

int main(void)
{
    must(setenv("WEFT_PERSONALITY", "roce", 1) == 0);
    context = open_weft();
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 256, NULL, NULL, 0);
    must(pd && cq);
    mr = ibv_reg_mr(pd, memory, sizeof memory, 0xF);
    must(mr);
    look();
    refuse_nonsense();
    take_numbers();
    meet_in_either_order();
    meet_oneself();
    meet_nobody();
    begin_anew();
    leave_early();
    destroy_while_meeting();
    struct ibv_wc wc;
    must(ibv_poll_cq(cq, 1, &wc) == 0);
    must(ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
    puts("ok");
    return 0;
}
