/*
 * The four operations of HyperLoop in order: gWRITE, gMEMCPY, gCAS, gFLUSH; then a read. First one by one, then all
 * four in one pass.
 *
 *   cc operations.c -lweft_group -o operations
 *   ./operations 127.0.0.1:7471,127.0.0.1:7472,127.0.0.1:7473
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft_group.h>

static void check(int outcome, const char *what)
{
    if (outcome) {
        fprintf(stderr, "%s: %s\n", what, weft_group_strerror());
        exit(1);
    }
}

/* Waits until an operation is done, for as long as the session waits for its replicas. */
static void finish(struct weft_group *group, uint64_t id, uint64_t *originals, const char *what)
{
    check(weft_group_wait(group, id, originals, -1), what);
}

static void show_swap(const uint64_t *originals, uint64_t replicas)
{
    for (uint64_t replica = 0; replica < replicas; replica++)
        printf("replica %" PRIu64 " found %" PRIu64 "\n", replica, originals[replica]);
}

int main(int argc, char **argv)
{
    static const char text[] = "hello from C";
    struct weft_group_options options = {.struct_size = sizeof options};
    struct weft_group_terms terms = {.struct_size = sizeof terms};
    uint64_t originals[WEFT_GROUP_MAX_REPLICAS], id;
    char copy[sizeof text], second[sizeof text];

    if (argc != 2) {
        fprintf(stderr, "%s ADDR:PORT[,ADDR:PORT...]\n", argv[0]);
        return 2;
    }
    options.members = argv[1];
    struct weft_group *group = weft_group_open(&options);
    if (!group)
        check(-1, "open");
    check(weft_group_terms(group, &terms), "terms");

    /* The copy reads what the write changes, so it is begun when the write is done. */
    check(weft_group_write(group, 0, text, sizeof text, &id), "write");
    finish(group, id, NULL, "write");
    check(weft_group_copy(group, 0, 4096, sizeof text, &id), "copy");
    finish(group, id, NULL, "copy");
    check(weft_group_compare_swap(group, 8192, 0, 1, WEFT_GROUP_ALL, &id), "swap");
    finish(group, id, originals, "swap");
    show_swap(originals, terms.replicas);
    check(weft_group_flush(group, 0, 8200, &id), "flush");
    finish(group, id, NULL, "flush");

    /* All four in one pass: one message goes through the replicas. */
    struct weft_group_op op = {.struct_size = sizeof op};
    op.parts = WEFT_GROUP_WRITE | WEFT_GROUP_COPY | WEFT_GROUP_SWAP | WEFT_GROUP_FLUSH;
    op.write_at = 100;
    op.write_octets = text;
    op.write_len = sizeof text;
    op.copy_from = 100;
    op.copy_to = 5000;
    op.copy_len = sizeof text;
    op.swap_at = 8192;
    op.swap_compare = 1;
    op.swap_value = 2;
    op.swap_on = WEFT_GROUP_ALL;
    op.flush_at = 0;
    op.flush_len = 8200;
    check(weft_group_submit(group, &op, 1) != 1, "submit");
    finish(group, op.id, originals, "submit");
    show_swap(originals, terms.replicas);

    check(weft_group_read(group, 4096, copy, sizeof copy, WEFT_GROUP_CONFIRMED), "read");
    check(weft_group_read(group, 5000, second, sizeof second, WEFT_GROUP_CONFIRMED), "read");
    printf("%s\n%s\n", copy, second);
    check(weft_group_close(group), "close");
    return 0;
}
