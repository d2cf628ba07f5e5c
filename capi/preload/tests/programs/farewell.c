/* A process on a wire ends without disconnecting, or after it has destroyed its queue pair. Its peer learns of it at
 * once, as from a process on the system's TCP, and has every Send that completed. */
#include "common.h"

#include <poll.h>
#include <sys/wait.h>

enum { PATIENCE_MS = 15000, PORT = 7471, SENDS = 2, OCTETS = 100000 };

static char memory[SENDS][OCTETS];

static struct rdma_event_channel *channel;

static struct rdma_cm_event *expect(enum rdma_cm_event_type wanted)
{
    return next_event(channel, wanted, PATIENCE_MS);
}

static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
    must(rdma_create_qp(id, NULL, &attr) == 0);
}

static struct rdma_cm_id *join_wire(const char *spec, const char *path, const char *ip)
{
    char transport[128];
    snprintf(transport, sizeof transport, "%s:%s", spec, path);
    must(setenv("WEFT_TRANSPORT", transport, 1) == 0 && setenv("WEFT_IP", ip, 1) == 0);
    struct rdma_cm_id *id;
    channel = rdma_create_event_channel();
    must(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    return id;
}

static void connect_and_leave(const char *path, int is_listening, int destroys)
{
    char word;
    must(read(is_listening, &word, 1) == 1);
    struct rdma_cm_id *id = join_wire("unix", path, "10.0.0.2/24");
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(0x0a000001)};
    struct rdma_conn_param param = {0};
    must(rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, 1000) == 0);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_ADDR_RESOLVED));
    must(rdma_resolve_route(id, 1000) == 0);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_ROUTE_RESOLVED));
    make_qp(id);
    must(rdma_connect(id, &param) == 0);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_ESTABLISHED));
    memset(memory, 'x', sizeof memory);
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, sizeof memory);
    struct ibv_wc wc;
    for (int i = 0; i < SENDS; i++)
        must(mr && rdma_post_send(id, NULL, memory[i], OCTETS, mr, IBV_SEND_SIGNALED) == 0);
    for (int i = 0; i < SENDS; i++)
        must(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
    if (destroys)
        rdma_destroy_qp(id);
    exit(0);
}

static int run(int destroys)
{
    char folder[] = "/tmp/weft-farewell-XXXXXX", path[64];
    int is_listening[2];
    must(mkdtemp(folder) && pipe(is_listening) == 0);
    snprintf(path, sizeof path, "%s/wire", folder);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0)
        connect_and_leave(path, is_listening[0], destroys);
    struct rdma_cm_id *listener = join_wire("unix-listen", path, "10.0.0.1/24");
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(0x0a000001)};
    must(rdma_bind_addr(listener, (struct sockaddr *)&own) == 0 && rdma_listen(listener, 1) == 0);
    must(write(is_listening[1], "!", 1) == 1);
    struct rdma_cm_event *event = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *id = event->id;
    make_qp(id);
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, sizeof memory);
    for (int i = 0; i < SENDS; i++)
        must(mr && rdma_post_recv(id, memory[i], memory[i], OCTETS, mr) == 0);
    must(rdma_accept(id, NULL) == 0);
    rdma_ack_cm_event(event);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_ESTABLISHED));
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_DISCONNECTED));
    struct ibv_wc wc;
    for (int i = 0; i < SENDS; i++) {
        must(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == OCTETS);
        must(memory[i][0] == 'x' && memory[i][OCTETS - 1] == 'x');
    }
    must(rdma_dereg_mr(mr) == 0);
    rdma_destroy_qp(id);
    must(rdma_destroy_id(id) == 0 && rdma_destroy_id(listener) == 0);
    int status;
    must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    unlink(path);
    must(rmdir(folder) == 0);
    return 0;
}

int main(void)
{
    for (int destroys = 0; destroys < 2; destroys++) {
        pid_t child = fork();
        must(child >= 0);
        if (child == 0)
            return run(destroys);
        int status;
        must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    puts("ok");
    return 0;
}
