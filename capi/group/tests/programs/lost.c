/* A replica goes away while the program sleeps on the descriptor. */
#include "common.h"

int main(int argc, char **argv)
{
    struct weft_group_options options = {.struct_size = sizeof options};
    struct weft_group_done done = {.struct_size = sizeof done};
    uint64_t id;
    char octet;
    must(argc == 2);
    options.members = argv[1];
    struct weft_group *group = weft_group_open(&options);
    must(group);
    must(weft_group_write(group, 0, "octets", 6, &id) == 0);
    must(weft_group_wait(group, id, NULL, -1) == 0);
    struct pollfd fd = {weft_group_fd(group), POLLIN, 0};
    must(weft_group_poll(group, &done, 1) == 0);
    say("opened");
    int64_t taken;
    while ((taken = weft_group_poll(group, &done, 1)) == 0)
        must(poll(&fd, 1, 60000) == 1);
    must(taken == -1 && errno == ECONNRESET);
    fails_with(ECONNRESET, "lost", weft_group_write(group, 0, "octets", 6, &id));
    fails_with(ECONNRESET, "lost", weft_group_read(group, 0, &octet, 1, WEFT_GROUP_MAYBE));
    fails_with(ECONNRESET, "lost", weft_group_poll(group, &done, 1));
    must(weft_group_close(group) == 0);
    fails_with(EBADF, "no open group", weft_group_close(group));
    puts("ok");
    return 0;
}
