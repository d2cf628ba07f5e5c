/* A child of a process that has a device. */
#include "common.h"

#include <sys/wait.h>

int main(void)
{
    struct ibv_context *context = open_weft();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    static char buffer[64];
    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    must(pd && mr && ibv_fork_init() == 0 && ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
    pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        must(ibv_dereg_mr(mr) == EINVAL && ibv_dealloc_pd(pd) == EINVAL);
        null_with(EINVAL, ibv_alloc_pd(context));
        struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
        struct ends ends = connect_ends(NULL, attr);
        struct ibv_mr *own = rdma_reg_msgs(ends.server, buffer, sizeof buffer);
        struct ibv_wc wc;
        must(own && rdma_post_recv(ends.server, NULL, buffer, sizeof buffer, own) == 0);
        must(rdma_post_send(ends.client, NULL, buffer, 5, own, IBV_SEND_SIGNALED) == 0);
        must(rdma_get_recv_comp(ends.server, &wc) == 1 && wc.byte_len == 5);
        must(rdma_dereg_mr(own) == 0);
        disconnect_ends(&ends);
        exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    must(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
    puts("ok");
    return 0;
}
