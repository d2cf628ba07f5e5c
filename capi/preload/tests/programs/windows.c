/* Memory windows of both types, between two ids of one process. */
#include "common.h"

enum { SIZE = 4096, REMOTE = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };

static char source[SIZE], sink[SIZE];
static struct ends ends;
static struct ibv_mr *from, *to;

static struct ibv_wc done(struct ibv_cq *cq, enum ibv_wc_status status, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc;
    int count;
    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0)
        ;
    must(count == 1 && wc.status == status);
    must(status != IBV_WC_SUCCESS || wc.opcode == opcode);
    return wc;
}

/* Writes through an rkey. A Read behind it shows that all octets are placed. */
static void writes(uint32_t rkey, uint64_t to_offset, const char *text)
{
    strcpy(source, text);
    must(rdma_post_write(ends.client, NULL, source, strlen(text) + 1, from, IBV_SEND_SIGNALED, to_offset, rkey) == 0);
    done(ends.client->send_cq, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
    must(rdma_post_read(ends.client, NULL, source + 100, 4, from, IBV_SEND_SIGNALED, to_offset, rkey) == 0);
    done(ends.client->send_cq, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
    must(memcmp(source, source + 100, 4) == 0);
}

static void bind_1(struct ibv_mw *window, struct ibv_mr *mr, void *addr, size_t length, int access)
{
    struct ibv_mw_bind bind = {.wr_id = 9, .send_flags = IBV_SEND_SIGNALED,
                               .bind_info = {mr, (uintptr_t)addr, length, access}};
    must(ibv_bind_mw(ends.server->qp, window, &bind) == 0);
    must(done(ends.server->send_cq, IBV_WC_SUCCESS, IBV_WC_BIND_MW).wr_id == 9);
}

static void type_1(void)
{
    struct ibv_mw *window = ibv_alloc_mw(ends.server->pd, IBV_MW_TYPE_1);
    must(window && window->pd == ends.server->pd && window->type == IBV_MW_TYPE_1);
    bind_1(window, to, sink + 64, 256, REMOTE | IBV_ACCESS_LOCAL_WRITE);
    uint32_t first = window->rkey;
    must(first != to->rkey);
    writes(first, (uintptr_t)sink + 64, "through a window");
    must(strcmp(sink + 64, "through a window") == 0);
    must(ibv_dereg_mr(to) == EBUSY);
    bind_1(window, to, sink + 1024, 256, REMOTE | IBV_ACCESS_ZERO_BASED);
    must(window->rkey != first);
    writes(window->rkey, 16, "from zero on");
    must(strcmp(sink + 1024 + 16, "from zero on") == 0);
    /* Length 0 closes it, with a region or without. */
    bind_1(window, NULL, NULL, 0, 0);
    bind_1(window, to, sink, 0, 0);

    struct ibv_mw_bind bind = {.bind_info = {to, (uintptr_t)sink, 8, IBV_ACCESS_MW_BIND}};
    must(ibv_bind_mw(ends.server->qp, window, &bind) == EINVAL);
    bind.bind_info.mw_access_flags = REMOTE;
    must(ibv_bind_mw((void *)window, window, &bind) == EINVAL);
    bind.send_flags = IBV_SEND_SIGNALED;
    must(ibv_bind_mw(ends.server->qp, window, &bind) == 0);
    done(ends.server->send_cq, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
    must(ibv_dealloc_mw(window) == 0);
    must(ends.server->verbs->ops.dealloc_mw(window) == EINVAL);
    must(ends.server->verbs->ops.bind_mw(ends.server->qp, window, &bind) == EINVAL);
}

static int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_mw *window, uint32_t rkey)
{
    struct ibv_send_wr wr = {.wr_id = 5, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey}, *bad;
    if (opcode == IBV_WR_BIND_MW) {
        wr.bind_mw.mw = window;
        wr.bind_mw.rkey = rkey;
        wr.bind_mw.bind_info = (struct ibv_mw_bind_info){to, (uintptr_t)sink, 512, REMOTE};
    }
    return ibv_post_send(qp, &wr, &bad);
}

static void type_2(void)
{
    struct ibv_mw *window = ibv_alloc_mw(ends.server->pd, IBV_MW_TYPE_2);
    struct ibv_mw *other = ibv_alloc_mw(ends.server->pd, IBV_MW_TYPE_2);
    must(window && other);
    struct ibv_qp *server = ends.server->qp, *client = ends.client->qp;
    uint32_t rkey = ibv_inc_rkey(window->rkey);
    must(post(server, IBV_WR_BIND_MW, other, rkey) == EINVAL);
    must(post(server, IBV_WR_BIND_MW, NULL, rkey) == EINVAL);
    must(post(server, IBV_WR_BIND_MW, window, rkey) == 0);
    done(ends.server->send_cq, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
    writes(rkey, (uintptr_t)sink, "by a key of one's own");

    /* The peer invalidates the window. */
    must(rdma_post_recv(ends.server, NULL, sink + 2048, 8, to) == 0);
    must(post(client, IBV_WR_SEND_WITH_INV, NULL, rkey) == 0);
    done(ends.client->send_cq, IBV_WC_SUCCESS, IBV_WC_SEND);
    struct ibv_wc wc = done(ends.server->recv_cq, IBV_WC_SUCCESS, IBV_WC_RECV);
    must(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == rkey);

    /* Builds the binding call by call, and invalidates the window on this side. */
    rkey = ibv_inc_rkey(rkey);
    struct ibv_qp_ex *extended = ibv_qp_to_qp_ex(server);
    struct ibv_mw_bind_info info = {to, (uintptr_t)sink, 512, REMOTE};
    ibv_wr_start(extended);
    extended->wr_id = 6;
    extended->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_bind_mw(extended, window, rkey, &info);
    must(ibv_wr_complete(extended) == 0);
    must(done(ends.server->send_cq, IBV_WC_SUCCESS, IBV_WC_BIND_MW).wr_id == 6);
    writes(rkey, (uintptr_t)sink + 32, "once more");
    must(ibv_dereg_mr(to) == EBUSY);
    must(post(server, IBV_WR_LOCAL_INV, NULL, rkey) == 0);
    done(ends.server->send_cq, IBV_WC_SUCCESS, IBV_WC_LOCAL_INV);
    ibv_wr_start(extended);
    ibv_wr_bind_mw(extended, NULL, rkey, &info);
    must(ibv_wr_complete(extended) == EINVAL);

    /* A Write through a closed window ends the stream. */
    must(rdma_post_write(ends.client, NULL, source, 8, from, IBV_SEND_SIGNALED, (uintptr_t)sink, rkey) == 0);
    must(rdma_post_read(ends.client, NULL, source, 8, from, IBV_SEND_SIGNALED, (uintptr_t)sink, rkey) == 0);
    struct ibv_wc ended;
    do {
        while (ibv_poll_cq(ends.client->send_cq, 1, &ended) == 0)
            ;
    } while (ended.status == IBV_WC_SUCCESS);
    must(ibv_dealloc_mw(window) == 0 && ibv_dealloc_mw(other) == 0);
}

int main(void)
{
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
                                    .qp_type = IBV_QPT_RC};
    ends = connect_ends(NULL, attr);
    struct ibv_device_attr device;
    must(ibv_query_device(ends.server->verbs, &device) == 0 && device.max_mw > 0);
    must(device.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
    must(device.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS);
    from = ibv_reg_mr(ends.client->pd, source, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    to = ibv_reg_mr(ends.server->pd, sink, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    must(from && to);
    null_with(EINVAL, ibv_alloc_mw(ends.server->pd, 3));
    type_1();
    type_2();
    must(ibv_dereg_mr(from) == 0 && ibv_dereg_mr(to) == 0);
    disconnect_ends(&ends);
    puts("ok");
    return 0;
}
