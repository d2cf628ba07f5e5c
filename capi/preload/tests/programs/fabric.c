/* Two message endpoints of libfabric's verbs provider: private data, messages, RDMA Write and Read, and the end. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Checks that a call returns 0. */
#define done(call)                                                                                 \
    do {                                                                                           \
        int outcome = (call);                                                                      \
        if (outcome) {                                                                             \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, fi_strerror(-outcome));  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { SIZE = 1 << 16, PATIENCE_MS = 60000 };

struct end {
    struct fi_info *info;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_eq *eq;
    struct fid_mr *mr;
    char buffer[SIZE];
};

static struct fid_fabric *fabric;
static struct end client, server;

static struct fi_info *find(const char *service, uint64_t flags)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    must(hints);
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG | FI_RMA;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup("verbs");
    done(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", service, flags, hints, &info));
    must(strcmp(info->domain_attr->name, "weft0") == 0 && info->ep_attr->protocol == FI_PROTO_IWARP);
    fi_freeinfo(hints);
    return info;
}

static struct fid_eq *open_eq(void)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_eq *eq;
    done(fi_eq_open(fabric, &attr, &eq, NULL));
    return eq;
}

static void open_end(struct end *end)
{
    struct fi_cq_attr attr = {.size = 16, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC};
    done(fi_domain(fabric, end->info, &end->domain, NULL));
    done(fi_endpoint(end->domain, end->info, &end->ep, NULL));
    end->eq = open_eq();
    done(fi_cq_open(end->domain, &attr, &end->cq, NULL));
    done(fi_ep_bind(end->ep, &end->eq->fid, 0));
    done(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
    done(fi_enable(end->ep));
    done(fi_mr_reg(end->domain, end->buffer, SIZE, FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0,
                   0, &end->mr, NULL));
}

/* Returns the next event and its data. Meanwhile it polls `other`, if there is one, and expects no completion there:
   a connection only goes on while its queue is polled. */
static struct fi_eq_cm_entry *expect(struct fid_eq *eq, uint32_t wanted, const char *data, struct fid_eq *other)
{
    static char room[sizeof(struct fi_eq_cm_entry) + 256];
    uint32_t event = 0;
    ssize_t len = -FI_EAGAIN;
    memset(room, 0, sizeof room);
    for (int waited = 0; len == -FI_EAGAIN && waited < PATIENCE_MS; waited++) {
        must(!other || fi_eq_read(other, &event, room, sizeof room, 0) == -FI_EAGAIN);
        len = fi_eq_sread(eq, &event, room, sizeof room, 1, 0);
    }
    must(len >= (ssize_t)sizeof(struct fi_eq_cm_entry) && event == wanted);
    struct fi_eq_cm_entry *entry = (void *)room;
    must(!data || memcmp(entry->data, data, strlen(data)) == 0);
    return entry;
}

static struct fi_cq_msg_entry complete(struct end *end, void *context)
{
    struct fi_cq_msg_entry entry;
    must(fi_cq_sread(end->cq, &entry, 1, NULL, PATIENCE_MS) == 1);
    must(entry.op_context == context);
    return entry;
}

static void connect_both(void)
{
    struct fi_info *passive = find("0", FI_SOURCE);
    struct fid_pep *pep;
    struct sockaddr_in address;
    size_t len = sizeof address;
    char port[6];
    done(fi_fabric(passive->fabric_attr, &fabric, NULL));
    struct fid_eq *eq = open_eq();
    done(fi_passive_ep(fabric, passive, &pep, NULL));
    done(fi_pep_bind(pep, &eq->fid, 0));
    done(fi_listen(pep));
    done(fi_getname(&pep->fid, &address, &len));
    must(address.sin_family == AF_INET && address.sin_port != 0);
    snprintf(port, sizeof port, "%d", ntohs(address.sin_port));

    client.info = find(port, 0);
    open_end(&client);
    done(fi_connect(client.ep, client.info->dest_addr, "hello", 5));
    server.info = expect(eq, FI_CONNREQ, "hello", client.eq)->info;
    open_end(&server);
    done(fi_accept(server.ep, "welcome", 7));
    expect(client.eq, FI_CONNECTED, "welcome", NULL);
    expect(server.eq, FI_CONNECTED, NULL, NULL);
    done(fi_close(&pep->fid));
    done(fi_close(&eq->fid));
    fi_freeinfo(passive);
}

static void transfer(void)
{
    static int contexts[4];
    memset(client.buffer, 'a', SIZE);
    done(fi_recv(server.ep, server.buffer, SIZE, fi_mr_desc(server.mr), 0, &contexts[0]));
    done(fi_send(client.ep, client.buffer, SIZE, fi_mr_desc(client.mr), 0, &contexts[1]));
    complete(&client, &contexts[1]);
    must(complete(&server, &contexts[0]).len == SIZE && memcmp(server.buffer, client.buffer, SIZE) == 0);

    uint64_t address = (uintptr_t)server.buffer;
    memset(client.buffer, 'b', SIZE);
    done(fi_write(client.ep, client.buffer, SIZE, fi_mr_desc(client.mr), 0, address, fi_mr_key(server.mr), &contexts[2]));
    complete(&client, &contexts[2]);
    /* A Read behind the Write sees it. */
    memset(client.buffer, 'c', SIZE);
    done(fi_read(client.ep, client.buffer, SIZE, fi_mr_desc(client.mr), 0, address, fi_mr_key(server.mr), &contexts[3]));
    must(complete(&client, &contexts[3]).flags & FI_READ);
    for (int index = 0; index < SIZE; index++)
        must(client.buffer[index] == 'b' && server.buffer[index] == 'b');
}

static void close_end(struct end *end)
{
    done(fi_close(&end->ep->fid));
    done(fi_close(&end->mr->fid));
    done(fi_close(&end->cq->fid));
    done(fi_close(&end->eq->fid));
    done(fi_close(&end->domain->fid));
    fi_freeinfo(end->info);
}

int main(void)
{
    connect_both();
    transfer();
    done(fi_shutdown(client.ep, 0));
    expect(server.eq, FI_SHUTDOWN, NULL, NULL);
    close_end(&client);
    close_end(&server);
    done(fi_close(&fabric->fid));
    puts("ok");
    return 0;
}
