/* Replicas that answer nothing for a while: a wait with a limit, and one without. */
#include "common.h"

int main(int argc, char **argv)
{
    struct weft_group_options options = {.struct_size = sizeof options};
    struct weft_group_done done = {.struct_size = sizeof done};
    uint64_t id, last;
    must(argc == 2);
    options.members = argv[1];
    options.timeout_ms = 60000;
    struct weft_group *group = weft_group_open(&options);
    options.timeout_ms = 5000;
    struct weft_group *impatient = weft_group_open(&options);
    must(group && impatient);
    say("opened");
    must(getchar() == '\n');
    must(weft_group_write(group, 0, "later", 5, &id) == 0);
    fails_with(EAGAIN, "not done after 0 milliseconds", weft_group_wait(group, id, NULL, 0));
    fails_with(EAGAIN, "not done after 50 milliseconds", weft_group_wait(group, id, NULL, 50));
    must(weft_group_poll(group, &done, 1) == 0);
    say("waited");
    must(getchar() == '\n');
    must(weft_group_wait(group, id, NULL, 60000) == 0);
    say("done");
    must(getchar() == '\n');
    must(weft_group_write(impatient, 0, "never", 5, &id) == 0);
    fails_with(ETIMEDOUT, "did not answer in time", weft_group_wait(impatient, id, NULL, -1));
    fails_with(ETIMEDOUT, "did not answer in time", weft_group_write(impatient, 8, "never", 5, &last));
    say("timed out");
    must(weft_group_close(impatient) == 0);
    must(weft_group_close(group) == 0);
    puts("ok");
    return 0;
}
