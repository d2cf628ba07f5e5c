/* A child has none of its parent's groups. */
#include <sys/wait.h>

#include "common.h"

int main(int argc, char **argv)
{
    struct weft_group_options options = {.struct_size = sizeof options};
    uint64_t id;
    int status;
    must(argc == 2);
    options.members = argv[1];
    struct weft_group *group = weft_group_open(&options);
    must(group);
    pid_t child = fork();
    if (child == 0) {
        fails_with(EBADF, "no open group", weft_group_write(group, 0, "child", 5, &id));
        fails_with(EBADF, "no open group", weft_group_close(group));
        null_with(ENOTSUP, "fork", weft_group_open(&options));
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    must(weft_group_write(group, 0, "parent", 6, &id) == 0);
    must(weft_group_wait(group, id, NULL, -1) == 0);
    must(weft_group_close(group) == 0);
    puts("ok");
    return 0;
}
