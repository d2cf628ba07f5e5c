/* Finds all functions by dlopen and dlvsym, as NCCL does, and ends by dlclose while the device works. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>

#include "../../../preload/tests/programs/common.h"

static void *verbs, *cm;

static void *found(void *library, const char *name, const char *version)
{
    void *symbol = dlvsym(library, name, version);
    if (!symbol)
        fprintf(stderr, "%s\n", dlerror());
    must(symbol);
    return symbol;
}

#define VERBS(name, version) __typeof__(&name) p_##name = found(verbs, #name, version)
#define CM(name) __typeof__(&name) p_##name = found(cm, #name, "RDMACM_1.0")

static struct ibv_context *open_device(void)
{
    VERBS(ibv_fork_init, "IBVERBS_1.1");
    VERBS(ibv_get_device_list, "IBVERBS_1.1");
    VERBS(ibv_free_device_list, "IBVERBS_1.1");
    VERBS(ibv_get_device_name, "IBVERBS_1.1");
    VERBS(ibv_open_device, "IBVERBS_1.1");
    int count = 0;
    must(p_ibv_fork_init() == 0);
    struct ibv_device **list = p_ibv_get_device_list(&count);
    must(list && count == 1 && strcmp(p_ibv_get_device_name(list[0]), "weft0") == 0);
    struct ibv_context *context = p_ibv_open_device(list[0]);
    must(context);
    p_ibv_free_device_list(list);
    return context;
}

/* A listener and an id that connects to it, of librdmacm.so.1, have the device of libibverbs.so.1. */
static void connects(void)
{
    CM(rdma_create_event_channel);
    CM(rdma_destroy_event_channel);
    CM(rdma_create_id);
    CM(rdma_destroy_id);
    CM(rdma_bind_addr);
    CM(rdma_listen);
    CM(rdma_get_src_port);
    CM(rdma_resolve_addr);
    CM(rdma_get_cm_event);
    CM(rdma_ack_cm_event);
    VERBS(ibv_query_device, "IBVERBS_1.1");
    VERBS(ibv_alloc_pd, "IBVERBS_1.1");
    VERBS(ibv_dealloc_pd, "IBVERBS_1.1");
    struct rdma_event_channel *channel = p_rdma_create_event_channel();
    struct rdma_cm_id *listener, *client;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(channel && p_rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
    must(p_rdma_bind_addr(listener, (struct sockaddr *)&address) == 0 && p_rdma_listen(listener, 1) == 0);
    address.sin_port = p_rdma_get_src_port(listener);
    must(p_rdma_create_id(channel, &client, NULL, RDMA_PS_TCP) == 0);
    must(p_rdma_resolve_addr(client, NULL, (struct sockaddr *)&address, 2000) == 0);
    struct rdma_cm_event *event;
    must(p_rdma_get_cm_event(channel, &event) == 0 && event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
    must(p_rdma_ack_cm_event(event) == 0);
    struct ibv_device_attr attr;
    must(client->verbs && p_ibv_query_device(client->verbs, &attr) == 0);
    struct ibv_pd *pd = p_ibv_alloc_pd(client->verbs);
    must(pd && p_ibv_dealloc_pd(pd) == 0);
    must(p_rdma_destroy_id(client) == 0 && p_rdma_destroy_id(listener) == 0);
    p_rdma_destroy_event_channel(channel);
}

int main(void)
{
    verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    cm = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
    must(verbs && cm);
    found(verbs, "ibv_reg_mr_iova2", "IBVERBS_1.8");
    found(verbs, "ibv_query_ece", "IBVERBS_1.10");
    found(verbs, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
    must(!dlvsym(verbs, "ibv_reg_mr", "IBVERBS_1.18") && !dlvsym(verbs, "rdma_listen", "RDMACM_1.0"));
    struct ibv_context *context = open_device();
    connects();
    /* Providers are linked with the private part, and have to load beside our libraries. */
    static const char *const providers[] = {"libmlx5.so.1", "libefa.so.1", "libmlx4.so.1", "libmana.so.1"};
    for (size_t i = 0; i < sizeof providers / sizeof *providers; i++) {
        void *provider = dlopen(providers[i], RTLD_NOW);
        if (!provider && !strstr(dlerror(), "No such file"))
            must(!"a provider loads");
    }
    /* Threads of the device go on in code that is still loaded. */
    must(context->async_fd >= 0);
    must(dlclose(cm) == 0 && dlclose(verbs) == 0);
    struct pollfd nothing = {.fd = context->async_fd, .events = POLLIN};
    must(poll(&nothing, 1, 50) == 0);
    must(open_device());
    puts("ok");
    return 0;
}
