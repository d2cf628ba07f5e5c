/* Lists that contain a wrong request. `bad_wr` names it. Requests before it are posted, and those behind it are not. */
#include "common.h"

enum { COUNT = 3 };

static char buffer[64];
static struct ibv_mr *mr;

/* Takes `count` completions with these ids, and checks that there is no further one. */
static void completed(struct ibv_cq *cq, int count, const uint64_t *ids)
{
    struct ibv_wc wc;
    for (int index = 0; index < count; index++) {
        int found;
        while ((found = ibv_poll_cq(cq, 1, &wc)) == 0)
            ;
        must(found == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == ids[index]);
    }
    must(ibv_poll_cq(cq, 1, &wc) == 0);
}

/* Writes of no octets, with the ids `first`, `first` + 1 and so on. */
static void write_list(struct ibv_send_wr *list, uint64_t first)
{
    for (int index = 0; index < COUNT; index++)
        list[index] = (struct ibv_send_wr){.wr_id = first + index, .next = index + 1 < COUNT ? &list[index + 1] : NULL,
                                           .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
                                           .wr.rdma = {(uintptr_t)buffer, mr->rkey}};
}

static void recv_list(struct ibv_recv_wr *list, int count)
{
    for (int index = 0; index < count; index++)
        list[index] = (struct ibv_recv_wr){.wr_id = index, .next = index + 1 < count ? &list[index + 1] : NULL};
}

static void sends(struct ibv_qp *qp)
{
    struct ibv_send_wr list[COUNT], good, *bad;
    for (int wrong = 0; wrong < COUNT; wrong++) {
        write_list(list, 10);
        list[wrong].opcode = 77;
        bad = NULL;
        must(ibv_post_send(qp, list, &bad) == EINVAL && bad == &list[wrong]);
        /* The next request completes next: none behind the wrong one was posted. */
        good = list[!wrong];
        good.wr_id = 20;
        good.next = NULL;
        must(ibv_post_send(qp, &good, &bad) == 0);
        const uint64_t ids[COUNT] = {wrong > 0 ? 10 : 20, wrong > 1 ? 11 : 20, 20};
        completed(qp->send_cq, wrong + 1, ids);
    }
    /* The same for a request that the queue itself refuses. A program may pass null for `bad_wr`. */
    struct ibv_sge sges[COUNT] = {{(uintptr_t)buffer, 1, mr->lkey}, {(uintptr_t)buffer, 1, mr->lkey}, {(uintptr_t)buffer, 1, mr->lkey}};
    write_list(list, 30);
    list[1].sg_list = sges;
    list[1].num_sge = COUNT;
    must(ibv_post_send(qp, list, &bad) == EINVAL && bad == &list[1]);
    must(ibv_post_send(qp, &list[1], NULL) == EINVAL);
    /* `bad_wr` does not change if no request is refused. */
    write_list(list, 40);
    bad = &good;
    must(ibv_post_send(qp, list, &bad) == 0 && bad == &good);
    completed(qp->send_cq, 4, (const uint64_t[]){30, 40, 41, 42});
}

/* Builds requests. If one is wrong, none is posted. */
static void built(struct ibv_qp *qp)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
    ex->wr_flags = IBV_SEND_SIGNALED;
    for (int wrong = 0; wrong <= COUNT; wrong++) {
        ibv_wr_start(ex);
        for (int index = 0; index < COUNT; index++) {
            ex->wr_id = 50 + index;
            ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)buffer);
            if (index == wrong)
                ibv_wr_set_sge_list(ex, 1000, NULL);
        }
        must(ibv_wr_complete(ex) == (wrong < COUNT ? EINVAL : 0));
    }
    completed(qp->send_cq, COUNT, (const uint64_t[]){50, 51, 52});
}

/* Posts a list to the receive queue of a queue pair, or to a shared one. */
typedef int post_recvs(void *queue, struct ibv_recv_wr *list, struct ibv_recv_wr **bad);

static int post_recv(void *qp, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
    return ibv_post_recv(qp, list, bad);
}

static int post_srq_recv(void *srq, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
    return ibv_post_srq_recv(srq, list, bad);
}

/* Fills a queue of `places`, by lists that contain a wrong request, and by one that is too long. */
static void recvs(post_recvs *post, void *queue, int places)
{
    struct ibv_recv_wr *list = calloc(places, sizeof *list), *bad = NULL;
    must(list && places > 3 * COUNT);
    for (int wrong = 0; wrong < COUNT; wrong++) {
        recv_list(list, COUNT);
        list[wrong].num_sge = wrong == 1 ? 1000 : -1;
        must(post(queue, list, &bad) == EINVAL && bad == &list[wrong]);
        must(post(queue, &list[wrong], NULL) == EINVAL);
    }
    /* By now one and two requests are posted. */
    recv_list(list, places);
    must(post(queue, list, &bad) == ENOMEM && bad == &list[places - COUNT]);
    free(list);
}

int main(void)
{
    struct ibv_context *context = open_weft();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    must(pd && (mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ends ends = connect_ends(pd, attr);
    struct ibv_qp_init_attr made;
    struct ibv_qp_attr now;
    must(ibv_query_qp(ends.server->qp, &now, IBV_QP_CAP, &made) == 0 && now.port_num == 1);
    sends(ends.client->qp);
    built(ends.client->qp);
    recvs(post_recv, ends.server->qp, (int)made.cap.max_recv_wr);
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 16, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
    must(srq);
    recvs(post_srq_recv, srq, (int)srq_attr.attr.max_wr);
    must(ibv_destroy_srq(srq) == 0);
    disconnect_ends(&ends);
    must(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
    puts("ok");
    return 0;
}
