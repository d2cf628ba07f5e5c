/* The octets between a socket and its peer. The peer has a bare queue pair, and its own encoder of the protocol. */
#include <rdma/rsocket.h>

#include "common.h"

struct place {
    uint64_t addr;
    uint32_t key, length;
} __attribute__((packed));

struct hello {
    uint8_t version, flags;
    uint16_t credits;
    uint8_t reserved[3], mappings;
    struct place table, data;
} __attribute__((packed));

/* The memory of the peer. */
static struct {
    struct place table[2];
    uint8_t data[1 << 17], source[1 << 16];
    uint32_t messages[384];
} own;

struct peer {
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    struct hello told;
    int fd;
};

static int listener(char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    must(rbind(fd, (void *)&address, len) == 0 && rlisten(fd, 1) == 0);
    must(rgetsockname(fd, (void *)&address, &len) == 0);
    sprintf(port, "%d", ntohs(address.sin_port));
    return fd;
}

static void *accept_one(void *argument) { return (void *)(intptr_t)raccept(*(int *)argument, NULL, NULL); }

static struct rdma_cm_id *make_id(char *port)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
    struct ibv_qp_init_attr attr = {.cap = {400, 400, 1, 1, 64}, .sq_sig_all = 1};
    struct rdma_cm_id *id;
    must(rdma_getaddrinfo("127.0.0.1", port, &hints, &info) == 0);
    must(rdma_create_ep(&id, info, NULL, &attr) == 0);
    rdma_freeaddrinfo(info);
    return id;
}

static struct hello hello_of(struct ibv_mr *mr)
{
    return (struct hello){
        .version = 1, .flags = 2, .credits = htons(384),
        .table = {htobe64((uintptr_t)own.table), htonl(mr->rkey), htonl(2)},
        .data = {htobe64((uintptr_t)own.data), htonl(mr->rkey), htonl(sizeof own.data / 2)}};
}

static struct peer connect_peer(void)
{
    struct peer peer;
    char port[6];
    void *fd;
    pthread_t thread;
    int listening = listener(port);
    memset(&own, 0, sizeof own);
    peer.id = make_id(port);
    peer.mr = ibv_reg_mr(peer.id->pd, &own, sizeof own, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    must(peer.mr);
    for (int index = 0; index < 384; index++)
        must(rdma_post_recv(peer.id, NULL, &own.messages[index], 4, peer.mr) == 0);
    struct hello hello = hello_of(peer.mr);
    struct rdma_conn_param param = {.private_data = &hello, .private_data_len = sizeof hello, .initiator_depth = 1};
    must(pthread_create(&thread, NULL, accept_one, &listening) == 0);
    must(rdma_connect(peer.id, &param) == 0 && pthread_join(thread, &fd) == 0);
    must(peer.id->event->param.conn.private_data_len >= sizeof peer.told);
    memcpy(&peer.told, peer.id->event->param.conn.private_data, sizeof peer.told);
    peer.fd = (int)(intptr_t)fd;
    must(peer.fd >= 0 && rclose(listening) == 0);
    return peer;
}

static void end_peer(struct peer *peer)
{
    rdma_disconnect(peer->id);
    must(ibv_dereg_mr(peer->mr) == 0);
    rdma_destroy_ep(peer->id);
    must(rclose(peer->fd) == 0);
}

static void sent(struct rdma_cm_id *id)
{
    struct ibv_wc wc;
    must(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
}

static void tell_octets(struct peer *peer, uint32_t message, size_t len)
{
    must(rdma_post_send(peer->id, NULL, &message, len, NULL, IBV_SEND_INLINE) == 0);
    sent(peer->id);
}

static void tell(struct peer *peer, uint32_t message) { tell_octets(peer, message, 4); }

static void put(struct peer *peer, size_t len, uint64_t to, uint32_t key)
{
    must(rdma_post_write(peer->id, NULL, own.source, len, peer->mr, 0, to, key) == 0);
    sent(peer->id);
}

/* Takes the next message of the socket, in the order in which receives were posted. */
static uint32_t heard(struct peer *peer, int index)
{
    struct ibv_wc wc;
    must(rdma_get_recv_comp(peer->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == 4);
    return own.messages[index];
}

static void conversation(void)
{
    struct peer peer = connect_peer();
    struct hello told = peer.told;
    must(told.version == 1 && told.flags == 2 && ntohs(told.credits) == 384 && told.mappings == 0);
    must(ntohl(told.table.length) == 2 && ntohl(told.data.length) == 1 << 16);

    /* The first call grants the second half, in the second entry. */
    char text[8];
    memcpy(own.source, "written", 7);
    put(&peer, 7, be64toh(told.data.addr), ntohl(told.data.key));
    tell(&peer, 7);
    must(rrecv(peer.fd, text, 7, MSG_WAITALL) == 7 && memcmp(text, "written", 7) == 0);
    must(heard(&peer, 0) == (4u << 29 | 384));
    must(own.table[1].addr == be64toh(told.data.addr) + (1 << 16) && own.table[1].length == 1 << 16);
    must(own.table[1].key == ntohl(told.data.key) && own.table[0].length == 0);

    /* Octets lie in the peer's buffer before the message comes. They continue there, and then in the next buffer. */
    static uint8_t much[1 << 16];
    memset(much, 9, sizeof much);
    must(rsend(peer.fd, "answer", 6, 0) == 6 && heard(&peer, 1) == 6 && memcmp(own.data, "answer", 6) == 0);
    struct place next = {(uintptr_t)own.data + (1 << 16), peer.mr->rkey, 1 << 16};
    memcpy(own.source, &next, sizeof next);
    put(&peer, sizeof next, be64toh(told.table.addr) + sizeof next, ntohl(told.table.key));
    tell(&peer, 4u << 29 | 400);
    must(rsend(peer.fd, much, sizeof much, 0) == sizeof much);
    must(heard(&peer, 2) == (1 << 16) - 6 && heard(&peer, 3) == 6);
    must(own.data[6] == 9 && own.data[(1 << 16) + 5] == 9 && own.data[(1 << 16) + 6] == 0);

    /* The ends. */
    tell(&peer, 7u << 29 | 2);
    must(rrecv(peer.fd, text, 1, 0) == 0);
    must(rsend(peer.fd, "x", 1, 0) == 1 && heard(&peer, 4) == 1);
    must(rshutdown(peer.fd, SHUT_WR) == 0 && heard(&peer, 5) == 7u << 29);
    end_peer(&peer);
}

/* Each of these ends the connection, and has no other effect. */
static void rudeness(void)
{
    static const struct {
        uint32_t message;
        size_t len;
    } rude[] = {{(1 << 17) + 1, 4}, {0x1fffffff, 4}, {5u << 29, 4}, {7u << 29 | 9, 4}, {1, 3}, {0, 0}, {1u << 29, 4}};
    char octet;
    for (size_t index = 0; index < sizeof rude / sizeof *rude; index++) {
        struct peer peer = connect_peer();
        tell_octets(&peer, rude[index].message, rude[index].len);
        minus_with(EPROTO, rrecv(peer.fd, &octet, 1, 0));
        must(rrecv(peer.fd, &octet, 1, 0) == 0);
        struct pollfd fds = {peer.fd, POLLIN, 0};
        must(rpoll(&fds, 1, -1) == 1 && fds.revents == (POLLIN | POLLERR));
        end_peer(&peer);
    }
    /* More messages than it has credits for. */
    struct peer peer = connect_peer();
    for (int index = 0; index < 385; index++)
        tell(&peer, 1);
    int error = 0;
    socklen_t len = sizeof error;
    while (error == 0)
        must(rgetsockopt(peer.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0);
    must(error == EPROTO);
    end_peer(&peer);
}

/* A peer that is no socket is rejected, and the listener goes on. */
static void strangers(void)
{
    char port[6];
    int listening = listener(port);
    struct hello bad[3] = {{.version = 2}, {.version = 1, .flags = 1}, {.version = 1}};
    pthread_t thread;
    for (int index = 0; index < 4; index++) {
        struct rdma_cm_id *id = make_id(port);
        struct rdma_conn_param param = {.private_data = bad, .private_data_len = index < 3 ? sizeof *bad : 5};
        if (index == 0)
            must(pthread_create(&thread, NULL, accept_one, &listening) == 0);
        param.private_data = &bad[index % 3];
        minus_with(ECONNREFUSED, rdma_connect(id, &param));
        rdma_destroy_ep(id);
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)atoi(port));
    void *server;
    int client = rsocket(AF_INET, SOCK_STREAM, 0);
    must(rconnect(client, (void *)&address, sizeof address) == 0 && pthread_join(thread, &server) == 0);
    must(rclose(client) == 0 && rclose((int)(intptr_t)server) == 0 && rclose(listening) == 0);
}

int main(void)
{
    conversation();
    rudeness();
    strangers();
    puts("ok");
    return 0;
}
