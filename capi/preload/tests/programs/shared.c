/* A shared receive queue that belongs to an id. Its queue pair takes receives from there. */
#include "common.h"

int main(void)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *info;
    struct rdma_cm_id *listener, *server, *client, *bare;
    struct ibv_qp_init_attr attr = {.cap = {8, 8, 1, 1, 16}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
    struct ibv_srq_init_attr wanted = {.attr = {.max_wr = 10, .max_sge = 1}, .srq_context = &hints};
    must(rdma_getaddrinfo("127.0.0.1", "0", &hints, &info) == 0);
    must(rdma_create_ep(&listener, info, NULL, NULL) == 0 && rdma_listen(listener, 1) == 0);
    rdma_freeaddrinfo(info);

    must(rdma_create_id(NULL, &bare, NULL, RDMA_PS_TCP) == 0);
    minus_with(EINVAL, rdma_create_srq(bare, NULL, &wanted));
    minus_with(EINVAL, rdma_create_srq(NULL, NULL, &wanted));
    must(rdma_destroy_id(bare) == 0);

    char port[6];
    snprintf(port, sizeof port, "%d", ntohs(rdma_get_src_port(listener)));
    hints.ai_flags = 0;
    must(rdma_getaddrinfo("127.0.0.1", port, &hints, &info) == 0);
    must(rdma_create_ep(&client, info, NULL, NULL) == 0);
    minus_with(EINVAL, rdma_create_srq(client, NULL, NULL));
    must(rdma_create_srq(client, NULL, &wanted) == 0);
    must(client->srq && client->pd && client->srq->srq_context == &hints && wanted.attr.max_wr >= 10);
    minus_with(EINVAL, rdma_create_srq(client, NULL, &wanted));
    must(rdma_create_qp(client, NULL, &attr) == 0 && client->qp->srq == client->srq);
    rdma_destroy_srq(client);
    must(client->srq);

    struct ends ends = {.client = client};
    pthread_t thread;
    must(pthread_create(&thread, NULL, connect_client, &ends) == 0);
    must(rdma_get_request(listener, &server) == 0);
    must(rdma_create_qp(server, NULL, &attr) == 0 && server->qp->srq == NULL);
    must(rdma_accept(server, NULL) == 0 && pthread_join(thread, NULL) == 0);

    /* rdma_post_recv looks for the queue of the id. */
    char text[16] = "";
    struct ibv_mr *mr = rdma_reg_msgs(client, text, sizeof text);
    must(mr && rdma_post_recv(client, text, text, sizeof text, mr) == 0);
    must(rdma_post_send(server, NULL, "shared", 7, NULL, IBV_SEND_INLINE) == 0);
    struct ibv_wc wc;
    must(rdma_get_recv_comp(client, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == 7);
    must(wc.wr_id == (uintptr_t)text && strcmp(text, "shared") == 0);

    must(rdma_disconnect(client) == 0 && rdma_disconnect(server) == 0 && ibv_dereg_mr(mr) == 0);
    rdma_destroy_qp(client);
    rdma_destroy_srq(client);
    must(client->srq == NULL);

    struct ibv_srq_init_attr_ex extended = {.attr = {.max_wr = 4, .max_sge = 1}, .srq_type = IBV_SRQT_BASIC};
    minus_with(EINVAL, rdma_create_srq_ex(client, &extended));
    extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    extended.pd = client->pd;
    must(rdma_create_srq_ex(client, &extended) == 0 && client->srq && client->srq->pd == client->pd);
    rdma_destroy_srq(client);
    extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
    extended.srq_type = IBV_SRQT_XRC;
    minus_with(EOPNOTSUPP, rdma_create_srq_ex(client, &extended));
    extended.srq_type = IBV_SRQT_BASIC;
    must(rdma_create_srq_ex(client, &extended) == 0);
    /* Destroying the endpoint destroys the queue. */
    rdma_destroy_ep(client);
    rdma_destroy_ep(server);
    rdma_destroy_ep(listener);
    rdma_freeaddrinfo(info);
    puts("ok");
    return 0;
}
