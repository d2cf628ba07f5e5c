/* Calls of all kinds for a trace: from two threads and a child, refused ones, a transfer, and objects left at the end. */
#include "common.h"

#include <sys/wait.h>

static struct ibv_context *context;

static void *ask(void *unused)
{
    struct ibv_device_attr attr;
    must(ibv_query_device(context, &attr) == 0);
    return unused;
}

static void transfer(void)
{
    static char buffer[64];
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ends ends = connect_ends(NULL, attr);
    struct ibv_mr *mr = rdma_reg_msgs(ends.server, buffer, sizeof buffer);
    struct ibv_wc wc;
    must(mr && rdma_post_recv(ends.server, (void *)0x77, buffer, sizeof buffer, mr) == 0);
    must(rdma_post_send(ends.client, (void *)0x78, buffer, 5, mr, IBV_SEND_SIGNALED) == 0);
    while (ibv_poll_cq(ends.server->recv_cq, 1, &wc) == 0)
        ;
    must(rdma_dereg_mr(mr) == 0);
    disconnect_ends(&ends);
}

int main(void)
{
    pthread_t thread;
    static char buffer[64];
    context = open_weft();
    must(pthread_create(&thread, NULL, ask, NULL) == 0 && pthread_join(thread, NULL) == 0);
    must(ibv_dereg_mr((struct ibv_mr *)buffer) == EINVAL);
    /* A call with an unmapped address fails, and the trace does not read there. */
    must(rdma_bind_addr(NULL, (struct sockaddr *)0x10) == -1 && errno == EINVAL);
    transfer();
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        must(ibv_alloc_pd(context) == NULL);
        exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    must(pd && ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
    puts("ok");
    return 0;
}
