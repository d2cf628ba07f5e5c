/* A server rejects and ends at once, without exit handlers. Its client gets the private data. */
#include "common.h"

#include <sys/wait.h>

static void serve_and_vanish(int report)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *info;
    struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct rdma_cm_id *listener, *id;
    must(rdma_getaddrinfo("127.0.0.1", "0", &hints, &info) == 0);
    must(rdma_create_ep(&listener, info, NULL, &attr) == 0 && rdma_listen(listener, 1) == 0);
    uint16_t port = ntohs(rdma_get_src_port(listener));
    must(write(report, &port, sizeof port) == sizeof port);
    must(rdma_get_request(listener, &id) == 0);
    must(rdma_reject(id, "not today", 10) == 0);
    _exit(0);
}

int main(void)
{
    for (int round = 0; round < 20; round++) {
        int report[2];
        must(pipe(report) == 0);
        pid_t server = fork();
        must(server >= 0);
        if (server == 0)
            serve_and_vanish(report[1]);
        uint16_t port;
        must(read(report[0], &port, sizeof port) == sizeof port);
        char service[6];
        snprintf(service, sizeof service, "%d", port);

        struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
        must(rdma_getaddrinfo("127.0.0.1", service, &hints, &info) == 0);
        struct rdma_event_channel *channel = rdma_create_event_channel();
        struct rdma_cm_id *id;
        struct rdma_cm_event *event;
        must(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
        must(rdma_resolve_addr(id, NULL, info->ai_dst_addr, 2000) == 0);
        must(rdma_get_cm_event(channel, &event) == 0 && rdma_ack_cm_event(event) == 0);
        must(rdma_resolve_route(id, 2000) == 0);
        must(rdma_get_cm_event(channel, &event) == 0 && rdma_ack_cm_event(event) == 0);
        struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
        must(rdma_create_qp(id, NULL, &attr) == 0);
        must(rdma_connect(id, NULL) == 0);
        must(rdma_get_cm_event(channel, &event) == 0 && event->event == RDMA_CM_EVENT_REJECTED);
        must(event->param.conn.private_data_len >= 10);
        must(memcmp(event->param.conn.private_data, "not today", 10) == 0);
        must(rdma_ack_cm_event(event) == 0);
        rdma_destroy_qp(id);
        must(rdma_destroy_id(id) == 0);
        rdma_destroy_event_channel(channel);
        rdma_freeaddrinfo(info);
        must(waitpid(server, NULL, 0) == server && close(report[0]) == 0 && close(report[1]) == 0);
    }
    puts("ok");
    return 0;
}
