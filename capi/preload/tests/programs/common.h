/* The common part of these tests' programs. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* Like assert, but not disabled by NDEBUG, and with errno. */
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Checks that a call returns null and sets errno. */
#define null_with(number, call)                                                                    \
    do {                                                                                           \
        errno = 0;                                                                                 \
        must((call) == NULL);                                                                      \
        must(errno == (number));                                                                   \
    } while (0)

/* Takes the next event of a channel, which comes in time and is the expected one. */
static inline struct rdma_cm_event *next_event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted, int patience_ms)
{
    struct rdma_cm_event *event;
    struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
    must(poll(&fd, 1, patience_ms) == 1);
    must(rdma_get_cm_event(channel, &event) == 0 && event->event == wanted);
    return event;
}

/* Checks that a call returns -1 and sets errno. */
#define minus_with(number, call)                                                                   \
    do {                                                                                           \
        errno = 0;                                                                                 \
        must((call) == -1);                                                                        \
        must(errno == (number));                                                                   \
    } while (0)

static inline struct ibv_context *open_weft(void)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    must(list && count == 1 && list[1] == NULL);
    must(strcmp(ibv_get_device_name(list[0]), "weft0") == 0);
    struct ibv_context *context = ibv_open_device(list[0]);
    must(context);
    ibv_free_device_list(list);
    return context;
}

/* Connects two ids, each with a queue pair that was made with `attr` in `pd`, or in the ids' own domain. */
struct ends {
    struct rdma_cm_id *listener, *client, *server;
    struct rdma_addrinfo *client_info;
};

static inline void *connect_client(void *argument)
{
    struct ends *ends = argument;
    struct rdma_conn_param param = {.private_data = "hello", .private_data_len = 6,
                                    .responder_resources = 4, .initiator_depth = 4};
    must(rdma_connect(ends->client, &param) == 0);
    return NULL;
}

static inline struct ends connect_ends(struct ibv_pd *pd, struct ibv_qp_init_attr attr)
{
    struct ends ends = {0};
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *info;
    must(rdma_getaddrinfo("127.0.0.1", "0", &hints, &info) == 0);
    struct ibv_qp_init_attr server_attr = attr;
    must(rdma_create_ep(&ends.listener, info, pd, &server_attr) == 0);
    rdma_freeaddrinfo(info);
    must(rdma_listen(ends.listener, 1) == 0);
    char port[6];
    snprintf(port, sizeof port, "%d", ntohs(rdma_get_src_port(ends.listener)));
    must(strcmp(port, "0") != 0);
    hints.ai_flags = 0;
    must(rdma_getaddrinfo("127.0.0.1", port, &hints, &ends.client_info) == 0);
    must(rdma_create_ep(&ends.client, ends.client_info, pd, &attr) == 0);
    must(ends.client->verbs && ends.client->qp && ends.client->pd);
    pthread_t thread;
    must(pthread_create(&thread, NULL, connect_client, &ends) == 0);
    must(rdma_get_request(ends.listener, &ends.server) == 0);
    must(ends.server->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
    must(memcmp(ends.server->event->param.conn.private_data, "hello", 6) == 0);
    must(ends.server->event->param.conn.private_data_len == 6);
    must(rdma_accept(ends.server, NULL) == 0);
    must(pthread_join(thread, NULL) == 0);
    must(ends.client->event->event == RDMA_CM_EVENT_ESTABLISHED);
    must(ends.client->qp->state == IBV_QPS_RTS && ends.server->qp->state == IBV_QPS_RTS);
    return ends;
}

static inline void disconnect_ends(struct ends *ends)
{
    must(rdma_disconnect(ends->client) == 0);
    must(rdma_disconnect(ends->server) == 0);
    rdma_destroy_ep(ends->client);
    rdma_destroy_ep(ends->server);
    rdma_destroy_ep(ends->listener);
    rdma_freeaddrinfo(ends->client_info);
}
