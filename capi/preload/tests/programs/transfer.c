/* Every operation, between two ids of one process. */
#include "common.h"

enum { SIZE = 1 << 20 };

static unsigned char source[SIZE], sink[SIZE];

static void fill(unsigned seed)
{
    for (int i = 0; i < SIZE; i++)
        source[i] = (unsigned char)(i * 31 + (i >> 8) + seed);
    memset(sink, 0, SIZE);
}

static struct ibv_wc send_done(struct rdma_cm_id *id)
{
    struct ibv_wc wc;
    must(rdma_get_send_comp(id, &wc) == 1);
    must(wc.status == IBV_WC_SUCCESS);
    return wc;
}

static struct ibv_wc recv_done(struct rdma_cm_id *id)
{
    struct ibv_wc wc;
    must(rdma_get_recv_comp(id, &wc) == 1);
    must(wc.status == IBV_WC_SUCCESS);
    return wc;
}

static void sends(struct ends *ends, struct ibv_mr *from, struct ibv_mr *to)
{
    for (int length = 0; length <= SIZE; length = length ? length * 32 : 1) {
        fill(length);
        must(rdma_post_recv(ends->server, &sink, sink, SIZE, to) == 0);
        must(rdma_post_send(ends->client, &source, source, length, from, IBV_SEND_SIGNALED) == 0);
        struct ibv_wc wc = recv_done(ends->server);
        must(wc.wr_id == (uintptr_t)&sink && wc.opcode == IBV_WC_RECV && wc.byte_len == (uint32_t)length);
        must(wc.qp_num == ends->server->qp->qp_num);
        must(memcmp(source, sink, length) == 0 && (length == SIZE || sink[length] == 0));
        wc = send_done(ends->client);
        must(wc.wr_id == (uintptr_t)&source && wc.opcode == IBV_WC_SEND);
    }
    /* Inline data may be reused at once, and needs no memory region. */
    char word[] = "inline";
    must(rdma_post_recv(ends->server, NULL, sink, SIZE, to) == 0);
    must(rdma_post_send(ends->client, NULL, word, sizeof word, NULL, IBV_SEND_SIGNALED | IBV_SEND_INLINE) == 0);
    memset(word, 'x', sizeof word);
    must(recv_done(ends->server).byte_len == sizeof word && strcmp((char *)sink, "inline") == 0);
    send_done(ends->client);
}

static void memory_operations(struct ends *ends, struct ibv_mr *from, struct ibv_mr *to)
{
    fill(1);
    must(rdma_post_write(ends->client, NULL, source, SIZE, from, IBV_SEND_SIGNALED, (uintptr_t)sink, to->rkey) == 0);
    must(send_done(ends->client).opcode == IBV_WC_RDMA_WRITE);
    /* A Read behind the Write shows that all of it is placed. */
    must(rdma_post_read(ends->client, NULL, source, 8, from, IBV_SEND_SIGNALED, (uintptr_t)sink, to->rkey) == 0);
    must(send_done(ends->client).opcode == IBV_WC_RDMA_READ);
    must(memcmp(source, sink, SIZE) == 0);

    fill(2);
    must(rdma_post_read(ends->server, NULL, sink, SIZE, to, IBV_SEND_SIGNALED, (uintptr_t)source, from->rkey) == 0);
    struct ibv_wc wc = send_done(ends->server);
    must(wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == SIZE && memcmp(source, sink, SIZE) == 0);

    struct ibv_sge sge = {(uintptr_t)source, 64, from->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(0xABCD1234),
                             .wr.rdma = {(uintptr_t)sink, to->rkey}}, *bad;
    must(rdma_post_recv(ends->server, NULL, sink, SIZE, to) == 0);
    must(ibv_post_send(ends->client->qp, &wr, &bad) == 0);
    wc = recv_done(ends->server);
    must(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wc_flags == IBV_WC_WITH_IMM);
    must(ntohl(wc.imm_data) == 0xABCD1234 && wc.byte_len == 64);
    must(send_done(ends->client).opcode == IBV_WC_RDMA_WRITE);
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    must(ibv_post_send(ends->client->qp, &wr, &bad) == EOPNOTSUPP && bad == &wr);
}

static void atomics(struct ends *ends, struct ibv_mr *from, struct ibv_mr *to)
{
    uint64_t *remote = (uint64_t *)sink, *before = (uint64_t *)source;
    *remote = 40;
    struct ibv_sge sge = {(uintptr_t)before, 8, from->lkey};
    struct ibv_send_wr swap = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
                               .send_flags = IBV_SEND_SIGNALED}, add = swap, *bad;
    add.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    add.wr.atomic.remote_addr = swap.wr.atomic.remote_addr = (uintptr_t)remote;
    add.wr.atomic.rkey = swap.wr.atomic.rkey = to->rkey;
    add.wr.atomic.compare_add = 2;
    swap.wr.atomic.compare_add = 42;
    swap.wr.atomic.swap = 7;
    must(ibv_post_send(ends->client->qp, &add, &bad) == 0);
    must(send_done(ends->client).opcode == IBV_WC_FETCH_ADD && *before == 40 && *remote == 42);
    must(ibv_post_send(ends->client->qp, &swap, &bad) == 0);
    must(send_done(ends->client).opcode == IBV_WC_COMP_SWAP && *before == 42 && *remote == 7);
}

/* Requests that are built call by call, and several with one doorbell. */
static void built(struct ends *ends, struct ibv_mr *from, struct ibv_mr *to)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(ends->client->qp);
    must(qp);
    fill(3);
    must(rdma_post_recv(ends->server, NULL, sink + 8192, 16, to) == 0);
    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = 0;
    ibv_wr_rdma_write(qp, to->rkey, (uintptr_t)sink);
    struct ibv_sge list[2] = {{(uintptr_t)source, 4000, from->lkey}, {(uintptr_t)source + 4000, 96, from->lkey}};
    ibv_wr_set_sge_list(qp, 2, list);
    qp->wr_id = 2;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    struct ibv_data_buf parts[2] = {{source, 5}, {source + 5, 11}};
    ibv_wr_set_inline_data_list(qp, 2, parts);
    must(ibv_wr_complete(qp) == 0);
    must(send_done(ends->client).wr_id == 2);
    must(recv_done(ends->server).byte_len == 16);
    must(memcmp(source, sink, 4096) == 0 && memcmp(source, sink + 8192, 16) == 0);
    /* A wrong request, one without data, and an aborted one: no request is posted. */
    ibv_wr_start(qp);
    ibv_wr_send_imm(qp, 1);
    must(ibv_wr_complete(qp) == EOPNOTSUPP);
    ibv_wr_start(qp);
    ibv_wr_set_sge(qp, 1, 2, 3);
    must(ibv_wr_complete(qp) == EINVAL);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_abort(qp);
    must(ibv_wr_complete(qp) == 0);
    struct ibv_wc wc;
    must(ibv_poll_cq(ends->client->send_cq, 1, &wc) == 0);
}

/* A completion queue that is read by functions, and a shared receive queue. */
static void extended(void)
{
    struct ibv_context *context = open_weft();
    (void)context;
    int count;
    struct ibv_context **list = rdma_get_devices(&count);
    must(list && count == 1);
    struct ibv_pd *pd = ibv_alloc_pd(list[0]);
    struct ibv_cq_init_attr_ex cq_attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(list[0], &cq_attr);
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
    must(pd && cq && srq);
    struct ibv_mr *from = ibv_reg_mr(pd, source, SIZE, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr *to = ibv_reg_mr(pd, sink, SIZE, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp_init_attr attr = {.send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .srq = srq,
                                    .cap = {.max_send_wr = 4, .max_send_sge = 1}, .sq_sig_all = 1};
    struct ends ends = connect_ends(pd, attr);
    struct ibv_sge sge = {(uintptr_t)sink, SIZE, to->lkey};
    struct ibv_recv_wr recv = {.wr_id = 77, .sg_list = &sge, .num_sge = 1}, *bad;
    must(ibv_post_srq_recv(srq, &recv, &bad) == 0);
    must(ibv_post_recv(ends.server->qp, &recv, &bad) == EINVAL);
    must(ibv_destroy_srq(srq) == EBUSY);
    fill(4);
    must(rdma_post_send(ends.client, NULL, source, 1000, from, 0) == 0);
    int received = 0, sent = 0;
    struct ibv_poll_cq_attr poll_attr = {0};
    while (!received || !sent) {
        int status = ibv_start_poll(cq, &poll_attr);
        must(status == 0 || status == ENOENT);
        if (status)
            continue;
        do {
            must(cq->status == IBV_WC_SUCCESS && ibv_wc_read_completion_ts(cq) > 0);
            if (ibv_wc_read_opcode(cq) == IBV_WC_RECV) {
                must(cq->wr_id == 77 && ibv_wc_read_byte_len(cq) == 1000);
                must(ibv_wc_read_qp_num(cq) == ends.server->qp->qp_num);
                received++;
            } else {
                sent++;
            }
        } while (ibv_next_poll(cq) == 0);
        ibv_end_poll(cq);
    }
    must(received == 1 && sent == 1 && memcmp(source, sink, 1000) == 0);
    disconnect_ends(&ends);
    must(ibv_destroy_srq(srq) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
    must(ibv_dereg_mr(from) == 0 && ibv_dereg_mr(to) == 0 && ibv_dealloc_pd(pd) == 0);
    rdma_free_devices(list);
    must(ibv_close_device(context) == 0);
}

int main(void)
{
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2,
                                            .max_inline_data = 64}};
    attr.qp_type = IBV_QPT_RC;
    struct ends ends = connect_ends(NULL, attr);
    int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    struct ibv_mr *from = ibv_reg_mr(ends.client->pd, source, SIZE, all);
    struct ibv_mr *to = ibv_reg_mr(ends.server->pd, sink, SIZE, all);
    must(from && to);
    sends(&ends, from, to);
    memory_operations(&ends, from, to);
    atomics(&ends, from, to);
    built(&ends, from, to);
    must(rdma_dereg_mr(from) == 0 && rdma_dereg_mr(to) == 0);
    disconnect_ends(&ends);
    extended();
    puts("ok");
    return 0;
}
