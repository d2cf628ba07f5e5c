/* A peer on a wire is killed or stopped, at either end of the connection. The survivor only receives, or has sent
   something. It learns of the end at once if the wire ends, else within the time limit. */
#include "common.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>

enum { PATIENCE_MS = 60000, PORT = 7471, OCTETS = 100, LIMIT_S = 4, LONG_S = 600 };

/* The way in which the victim ends, and the survivor's activity. */
struct trial {
    int signal;
    bool survivor_listens_on_wire, survivor_connects, survivor_sends;
};

static struct rdma_event_channel *channel;
static char memory[OCTETS];

static struct rdma_cm_event *expect(enum rdma_cm_event_type wanted)
{
    return next_event(channel, wanted, PATIENCE_MS);
}

static double now(void)
{
    struct timespec time;
    must(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
    must(rdma_create_qp(id, NULL, &attr) == 0);
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, OCTETS);
    must(mr && rdma_post_recv(id, mr, memory, OCTETS, mr) == 0);
}

static struct rdma_cm_id *join_wire(bool listens, const char *path, bool is_first, int limit_s)
{
    char transport[128], limit[16];
    snprintf(transport, sizeof transport, "%s:%s", listens ? "unix-listen" : "unix", path);
    snprintf(limit, sizeof limit, "%d", limit_s);
    must(setenv("WEFT_TRANSPORT", transport, 1) == 0 && setenv("WEFT_IP", is_first ? "10.0.0.1/24" : "10.0.0.2/24", 1) == 0);
    must(setenv("WEFT_TIMEOUT", limit, 1) == 0);
    struct rdma_cm_id *id;
    channel = rdma_create_event_channel();
    must(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    return id;
}

static struct rdma_cm_id *connect_to(struct rdma_cm_id *id, bool is_first)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(is_first ? 0x0a000002 : 0x0a000001)};
    struct rdma_conn_param param = {0};
    must(rdma_resolve_addr(id, NULL, (struct sockaddr *)&peer, 1000) == 0);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_ADDR_RESOLVED));
    must(rdma_resolve_route(id, 1000) == 0);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_ROUTE_RESOLVED));
    make_qp(id);
    must(rdma_connect(id, &param) == 0);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_ESTABLISHED));
    return id;
}

static struct rdma_cm_id *accept_one(void)
{
    struct rdma_cm_event *event = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *id = event->id;
    make_qp(id);
    must(rdma_accept(id, NULL) == 0);
    rdma_ack_cm_event(event);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_ESTABLISHED));
    return id;
}

/* An end of the connection. The sides that listen, on the wire and for connections, report when they do. */
static struct rdma_cm_id *make_end(bool is_survivor, const struct trial *trial, const char *path, const int *tell, const int *told)
{
    bool listens_on_wire = is_survivor == trial->survivor_listens_on_wire, connects = is_survivor == trial->survivor_connects;
    char word;
    if (!listens_on_wire)
        must(read(told[0], &word, 1) == 1);
    struct rdma_cm_id *id = join_wire(listens_on_wire, path, is_survivor, is_survivor && trial->signal == SIGSTOP ? LIMIT_S : LONG_S);
    if (!connects) {
        struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(is_survivor ? 0x0a000001 : 0x0a000002)};
        must(rdma_bind_addr(id, (struct sockaddr *)&own) == 0 && rdma_listen(id, 1) == 0);
    } else {
        struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(is_survivor ? 0x0a000001 : 0x0a000002)};
        must(rdma_bind_addr(id, (struct sockaddr *)&own) == 0);
    }
    /* Now the devices are opened: first that of the side that listens on the wire. */
    must(write(tell[1], "!", 1) == 1);
    if (listens_on_wire)
        must(read(told[0], &word, 1) == 1);
    return connects ? connect_to(id, is_survivor) : accept_one();
}

static void survive(const struct trial *trial, const char *path, const int *tell, const int *told, pid_t victim)
{
    struct rdma_cm_id *id = make_end(true, trial, path, tell, told);
    char word;
    must(read(told[0], &word, 1) == 1);
    double start = now();
    must(kill(victim, trial->signal) == 0);
    struct ibv_mr *mr = rdma_reg_msgs(id, memory, OCTETS);
    if (trial->survivor_sends)
        must(mr && rdma_post_send(id, NULL, memory, OCTETS, mr, 0) == 0);
    struct ibv_wc wc;
    must(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR);
    rdma_ack_cm_event(expect(RDMA_CM_EVENT_DISCONNECTED));
    double took = now() - start;
    /* A killed process ends its wire. A stopped one keeps it, and is given up after the time limit and not before half of
       it. With the long limit of this trial, a survivor that misses the end of the wire would take too long. */
    must(trial->signal == SIGKILL ? took < LONG_S / 4 : took > LIMIT_S / 2 - 0.1);
}

static void run(const struct trial *trial)
{
    char folder[] = "/tmp/weft-silent-XXXXXX", path[64];
    int from_victim[2], to_victim[2], status;
    must(mkdtemp(folder) && pipe(from_victim) == 0 && pipe(to_victim) == 0);
    snprintf(path, sizeof path, "%s/wire", folder);
    pid_t victim = fork();
    must(victim >= 0);
    if (victim == 0) {
        make_end(false, trial, path, from_victim, to_victim);
        must(write(from_victim[1], "!", 1) == 1);
        for (;;)
            pause();
    }
    pid_t survivor = fork();
    must(survivor >= 0);
    if (survivor == 0) {
        alarm(2 * PATIENCE_MS / 1000);
        survive(trial, path, to_victim, from_victim, victim);
        _exit(0);
    }
    must(waitpid(survivor, &status, 0) == survivor);
    bool is_good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    must(kill(victim, SIGKILL) == 0 && waitpid(victim, &status, 0) == victim);
    unlink(path);
    must(rmdir(folder) == 0);
    if (!is_good)
        fprintf(stderr, "signal %d, listens on the wire %d, connects %d, sends %d\n", trial->signal, trial->survivor_listens_on_wire,
                trial->survivor_connects, trial->survivor_sends);
    must(is_good);
}

int main(void)
{
    for (int bits = 0; bits < 8; bits++) {
        struct trial trial = {SIGKILL, bits & 1, bits & 2, bits & 4};
        run(&trial);
    }
    struct trial stopped[] = {{SIGSTOP, true, true, false}, {SIGSTOP, true, false, false}, {SIGSTOP, true, false, true}};
    for (int index = 0; index < 3; index++)
        run(&stopped[index]);
    puts("ok");
    return 0;
}
