/* Makes children of all kinds during a transfer. The parent goes on, and every octet arrives. */
#include "common.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { SIZE = 1 << 16, ROUNDS = 3 };

static struct ends ends;
static struct ibv_mr *mr;
static unsigned char octets[2][SIZE];
static volatile int is_over;
static unsigned messages;
/* The sockets at the program's start. */
static int before;

static void send_one(unsigned number)
{
    struct ibv_wc wc;
    memset(octets[0], (int)number, SIZE);
    must(rdma_post_recv(ends.server, NULL, octets[1], SIZE, mr) == 0);
    must(rdma_post_send(ends.client, NULL, octets[0], SIZE, mr, IBV_SEND_SIGNALED) == 0);
    must(rdma_get_send_comp(ends.client, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
    must(rdma_get_recv_comp(ends.server, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == SIZE);
    must(memcmp(octets[0], octets[1], SIZE) == 0);
}

static void *transfer(void *unused)
{
    (void)unused;
    for (messages = 0; !is_over; messages++)
        send_one(messages);
    return NULL;
}

/* Counts the sockets that this process holds. */
static int count_sockets(void)
{
    DIR *folder = opendir("/proc/self/fd");
    must(folder);
    int count = 0;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        struct stat stat;
        count += fstat(atoi(entry->d_name), &stat) == 0 && S_ISSOCK(stat.st_mode);
    }
    closedir(folder);
    return count;
}

static void has_no_sockets(void)
{
    /* The two ends of the connection, and the listener. */
    must(count_sockets() == before);
    _exit(0);
}

static void execs(void)
{
    char number[12];
    snprintf(number, sizeof number, "%d", before);
    execl("/bin/sh", "sh", "-c", "[ \"$(ls -l /proc/$$/fd | grep -c socket:)\" = $0 ]", number, NULL);
    _exit(1);
}

static void exits(void)
{
    exit(0);
}

static void destroys_what_is_not_its_own(void)
{
    must(rdma_disconnect(ends.client) == -1 && errno == EINVAL);
    must(ibv_dereg_mr(mr) == EINVAL);
    rdma_destroy_ep(ends.client);
    exit(0);
}

static void has_a_device_of_its_own(void)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
    ends = connect_ends(NULL, attr);
    mr = ibv_reg_mr(ends.client->pd, octets, sizeof octets, IBV_ACCESS_LOCAL_WRITE);
    must(mr && count_sockets() >= before + 3);
    for (unsigned number = 0; number < 10; number++)
        send_one(number);
    must(ibv_dereg_mr(mr) == 0);
    disconnect_ends(&ends);
    exit(0);
}

int main(void)
{
    static void (*const KINDS[])(void) = {has_no_sockets, execs, exits, destroys_what_is_not_its_own, has_a_device_of_its_own};
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
    pthread_t thread;
    before = count_sockets();
    ends = connect_ends(NULL, attr);
    must(count_sockets() >= before + 3);
    mr = ibv_reg_mr(ends.client->pd, octets, sizeof octets, IBV_ACCESS_LOCAL_WRITE);
    must(mr && pthread_create(&thread, NULL, transfer, NULL) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned kind = 0; kind < sizeof KINDS / sizeof *KINDS; kind++) {
            pid_t child = fork();
            must(child >= 0);
            if (child == 0)
                KINDS[kind]();
            int status;
            must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
    }
    is_over = 1;
    must(pthread_join(thread, NULL) == 0 && messages > 0);
    must(ibv_dereg_mr(mr) == 0);
    disconnect_ends(&ends);
    puts("ok");
    return 0;
}
