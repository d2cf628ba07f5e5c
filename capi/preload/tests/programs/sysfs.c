/* The folder that stands for /sys contains the answers of the calls, as the kernel writes them. */
#define _GNU_SOURCE
#include <ftw.h>
#include <sys/stat.h>

#include "common.h"

/* Declared in a header that is not installed. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static char folder[64];

static char *content(const char *base, const char *name)
{
    static char text[4][128];
    static int next;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", base, name);
    FILE *file = fopen(path, "r");
    if (!file)
        fprintf(stderr, "%s\n", path);
    must(file);
    char *place = text[next++ % 4];
    must(fgets(place, sizeof text[0], file));
    must(place[strlen(place) - 1] == '\n');
    place[strlen(place) - 1] = 0;
    must(fclose(file) == 0);
    return place;
}

static int removes(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind, (void)where;
    return remove(path);
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/weft-sysfs-%d", getpid());
    must(setenv("WEFT_SYSFS", folder, 1) == 0 && unsetenv("SYSFS_PATH") == 0);
    must(strcmp(ibv_get_sysfs_path(), folder) == 0);
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    must(list && count == 1);
    struct ibv_context *context = ibv_open_device(list[0]);
    must(context);

    const char *base = list[0]->ibdev_path;
    must(strncmp(base, folder, strlen(folder)) == 0 && strcmp(strrchr(base, '/'), "/weft0") == 0);
    must(ibv_get_device_index(list[0]) == -1);
    must(list[0]->node_type == atoi(content(base, "node_type")));
    must(strcmp(content(list[0]->dev_path, "ibdev"), "weft0") == 0);
    must(strcmp(content(list[0]->dev_path, "../abi_version"), "6") == 0);
    struct ibv_port_attr port;
    must(ibv_query_port(context, 1, &port) == 0);
    must((int)port.state == atoi(content(base, "ports/1/state")));
    must(strcmp(content(base, "ports/1/link_layer"), "Ethernet") == 0);
    must(strcmp(content(base, "device/net/lo/address"), "00:00:00:00:00:00") == 0);
    must(atoi(content(base, "device/numa_node")) == -1);
    char wanted[40] = "";
    union ibv_gid gid;
    must(ibv_query_gid(context, 1, 0, &gid) == 0);
    for (int i = 0; i < 16; i += 2)
        sprintf(wanted + strlen(wanted), "%s%02x%02x", i ? ":" : "", gid.raw[i], gid.raw[i + 1]);
    must(strcmp(content(base, "ports/1/gids/0"), wanted) == 0);
    must(strcmp(content(base, "ports/1/gid_attrs/types/0"), "IB/RoCE v1") == 0);
    char answer[64];
    must(ibv_read_sysfs_file(base, "node_guid", answer, sizeof answer) > 0);
    must(strcmp(content(base, "node_guid"), answer) == 0);
    minus_with(ENOENT, ibv_read_sysfs_file(base, "ports/1/gids/1", answer, sizeof answer));
    must(ibv_read_sysfs_file("/proc/sys/kernel", "ostype", answer, sizeof answer) == 5 && strcmp(answer, "Linux") == 0);

    ibv_free_device_list(list);
    must(ibv_close_device(context) == 0);
    must(nftw(folder, removes, 8, FTW_DEPTH | FTW_PHYS) == 0);
    puts("ok");
    return 0;
}
