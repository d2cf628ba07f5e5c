/* A group with a register: a member goes away, and a spare takes its place. */
#include "common.h"

int main(int argc, char **argv)
{
    struct weft_group_options options = {.struct_size = sizeof options, .timeout_ms = 2000};
    struct weft_group_terms terms = {.struct_size = sizeof terms};
    uint64_t id, epoch = 0;
    char octets[8] = "";
    must(argc == 2);
    fails_with(EFAULT, "members", weft_group_change_epoch(&options, 0, &epoch));
    options.members = "127.0.0.1:1";
    fails_with(EINVAL, "register_name", weft_group_change_epoch(&options, 0, &epoch));
    options.register_name = argv[1];
    fails_with(EINVAL, "members", weft_group_change_epoch(&options, 0, &epoch));
    options.members = NULL;
    null_with(ECONNREFUSED, "no epoch has begun", weft_group_open(&options));
    must(weft_group_change_epoch(&options, 0, &epoch) == 0 && epoch == 1);
    struct weft_group *group = weft_group_open(&options);
    must(group);
    must(weft_group_terms(group, &terms) == 0 && terms.epoch == 1 && terms.replicas == 2);
    must(weft_group_write(group, 0, "before, ", 8, &id) == 0);
    must(weft_group_wait(group, id, NULL, -1) == 0);
    say("opened");
    must(getchar() != EOF);
    while (weft_group_write(group, 8, "after ", 6, &id) == 0 && weft_group_wait(group, id, NULL, -1) == 0)
        ;
    must(errno == ECONNRESET);
    must(weft_group_close(group) == 0);
    fails_with(ESTALE, "another change", weft_group_change_epoch(&options, 7, &epoch));
    must(weft_group_change_epoch(&options, 1, &epoch) == 0 && epoch == 2);
    group = weft_group_open(&options);
    must(group);
    must(weft_group_read(group, 0, octets, 8, WEFT_GROUP_CONFIRMED) == 0 && memcmp(octets, "before, ", 8) == 0);
    must(weft_group_write(group, 8, "after ", 6, &id) == 0);
    must(weft_group_wait(group, id, NULL, -1) == 0);
    must(weft_group_close(group) == 0);
    puts("ok");
    return 0;
}
