/* All wrong arguments, except for wrong addresses of memory. Nothing changes at the replicas. */
#include "common.h"

static void options_of(const char *members)
{
    struct weft_group_options good = {.struct_size = sizeof good}, bad;
    struct {
        struct weft_group_options known;
        uint64_t rest[4];
    } longer;
    good.members = members;
    null_with(EFAULT, "options is NULL", weft_group_open(NULL));
    bad = good, bad.members = NULL;
    null_with(EFAULT, "members is NULL", weft_group_open(&bad));
    bad = good, bad.struct_size = 0;
    null_with(EINVAL, "struct_size 0", weft_group_open(&bad));
    bad = good, bad.struct_size = 8;
    null_with(EINVAL, "struct_size 8", weft_group_open(&bad));
    bad = good, bad.struct_size = sizeof bad - 1;
    null_with(EINVAL, "struct_size", weft_group_open(&bad));
    bad = good, bad.struct_size = UINT64_MAX - 7;
    null_with(E2BIG, "struct_size", weft_group_open(&bad));
    memset(&longer, 0, sizeof longer);
    longer.known = good, longer.known.struct_size = sizeof longer, longer.rest[3] = 1;
    null_with(E2BIG, "fields that this library does not know", weft_group_open(&longer.known));

    static const char *const lists[][2] = {
        {"", "`` is no address with a port"},
        {"127.0.0.1", "`127.0.0.1` is no address with a port"},
        {"127.0.0.1:1,", "`` is no address"},
        {"127.0.0.1:1;127.0.0.1:2", "is no address"},
        {"localhost:7471", "`localhost:7471` is no address"},
        {"127.0.0.1:65536", "is no address"},
        {"\xff:1", "UTF-8"},
        {"[::1]:1,[::1]:2,[::1]:3,[::1]:4,[::1]:5,[::1]:6,[::1]:7,[::1]:8,[::1]:9,[::1]:10,[::1]:11,[::1]:12,[::1]:13,"
         "[::1]:14,[::1]:15,[::1]:16,[::1]:17", "17 of them, and at most 16"},
    };
    for (size_t index = 0; index < sizeof lists / sizeof *lists; index++) {
        bad = good, bad.members = lists[index][0];
        null_with(EINVAL, lists[index][1], weft_group_open(&bad));
    }
    bad = good, bad.topology = 2;
    null_with(EINVAL, "topology: 2", weft_group_open(&bad));
    bad = good, bad.durability = 2;
    null_with(EINVAL, "durability: 2", weft_group_open(&bad));
    bad = good, bad.window = 3;
    null_with(EINVAL, "window: 3", weft_group_open(&bad));
    bad = good, bad.window = 8192;
    null_with(EINVAL, "window: 8192", weft_group_open(&bad));
    bad = good, bad.window = (UINT64_C(1) << 32) + 1;
    null_with(EINVAL, "window: 4294967297", weft_group_open(&bad));
    bad = good, bad.piece = UINT64_C(1) << 32;
    null_with(EINVAL, "piece: ", weft_group_open(&bad));
    bad = good, bad.window = 4096, bad.piece = UINT32_MAX;
    null_with(EINVAL, "piece: 4096 of 4294967295 octets", weft_group_open(&bad));
    bad = good, bad.timeout_ms = 3600001;
    null_with(EINVAL, "timeout_ms: 3600001", weft_group_open(&bad));
    bad = good, bad.range_at = 8;
    null_with(EINVAL, "range_len", weft_group_open(&bad));
    bad = good, bad.range_at = 4, bad.range_len = 8;
    null_with(EINVAL, "range_at: 4", weft_group_open(&bad));
    bad = good, bad.range_at = UINT64_MAX - 7, bad.range_len = 8;
    null_with(ERANGE, "beyond 2^64", weft_group_open(&bad));
    bad = good, bad.range_len = UINT64_C(1) << 40;
    null_with(ECONNREFUSED, "replica 0 at 127.0.0.1:", weft_group_open(&bad));
    bad = good, bad.key_file = "/no/such/file";
    null_with(ENOKEY, "key_file: /no/such/file: No such file", weft_group_open(&bad));
    bad = good, bad.members = "127.0.0.1:1";
    null_with(ECONNREFUSED, "replica 0 at 127.0.0.1:1: nobody listens there", weft_group_open(&bad));
}

/* All functions with a handle that is none. */
static void handle(struct weft_group *group)
{
    static const char words[] = "no open group";
    struct weft_group_terms terms = {.struct_size = sizeof terms};
    struct weft_group_op op = {.struct_size = sizeof op};
    struct weft_group_done done = {.struct_size = sizeof done};
    char octets[8] = {0};
    fails_with(EBADF, words, weft_group_terms(group, &terms));
    fails_with(EBADF, words, weft_group_write(group, 0, octets, 8, NULL));
    fails_with(EBADF, words, weft_group_copy(group, 0, 8, 8, NULL));
    fails_with(EBADF, words, weft_group_compare_swap(group, 0, 0, 1, WEFT_GROUP_ALL, NULL));
    fails_with(EBADF, words, weft_group_flush(group, 0, 8, NULL));
    fails_with(EBADF, words, weft_group_submit(group, &op, 1));
    fails_with(EBADF, words, weft_group_poll(group, &done, 1));
    fails_with(EBADF, words, weft_group_wait(group, 0, NULL, 0));
    fails_with(EBADF, words, weft_group_read(group, 0, octets, 8, WEFT_GROUP_MAYBE));
    fails_with(EBADF, words, weft_group_fd(group));
    fails_with(EBADF, words, weft_group_close(group));
}

static void operations(struct weft_group *group, uint64_t len)
{
    static char octets[4096];
    uint64_t id = 77;
    fails_with(EFAULT, "NULL", weft_group_write(group, 0, NULL, 1, &id));
    fails_with(ERANGE, "beyond the range", weft_group_write(group, len - 7, octets, 8, &id));
    fails_with(ERANGE, "beyond the range", weft_group_write(group, UINT64_MAX, octets, 8, &id));
    fails_with(ERANGE, "octets", weft_group_write(group, 0, octets, UINT64_MAX, &id));
    fails_with(EMSGSIZE, "longer", weft_group_write(group, 0, octets, 4 * 600 + 1, &id));
    fails_with(EINVAL, "overlap", weft_group_copy(group, 0, 4, 8, &id));
    fails_with(ERANGE, "beyond the range", weft_group_copy(group, len - 7, 0, 8, &id));
    fails_with(ERANGE, "beyond the range", weft_group_copy(group, 0, len - 7, 8, &id));
    fails_with(ERANGE, "beyond the range", weft_group_copy(group, 0, 8, UINT64_C(1) << 32, &id));
    fails_with(ERANGE, "beyond the range", weft_group_copy(group, 0, 8, UINT64_MAX, &id));
    fails_with(EINVAL, "multiple of 8", weft_group_compare_swap(group, 4, 0, 1, WEFT_GROUP_ALL, &id));
    fails_with(ERANGE, "beyond the range", weft_group_compare_swap(group, len, 0, 1, WEFT_GROUP_ALL, &id));
    fails_with(EINVAL, "no replica", weft_group_compare_swap(group, 0, 0, 1, 0, &id));
    fails_with(EINVAL, "more than the 3 replicas", weft_group_compare_swap(group, 0, 0, 1, 8, &id));
    fails_with(EINVAL, "more than the 3 replicas", weft_group_compare_swap(group, 0, 0, 1, UINT64_C(1) << 40, &id));
    fails_with(ERANGE, "beyond the range", weft_group_flush(group, 0, len + 1, &id));
    fails_with(ERANGE, "beyond the range", weft_group_flush(group, 8, UINT64_MAX, &id));
    fails_with(ENOENT, "no operation of this name", weft_group_wait(group, 77, NULL, -1));
    fails_with(ENOENT, "no operation of this name", weft_group_wait(group, 77, NULL, 1000));
    fails_with(ENOENT, "no operation of this name", weft_group_wait(group, UINT64_MAX, NULL, 0));
    fails_with(EFAULT, "NULL", weft_group_read(group, 0, NULL, 1, WEFT_GROUP_CONFIRMED));
    fails_with(EINVAL, "fresh: 2", weft_group_read(group, 0, octets, 1, 2));
    fails_with(ERANGE, "beyond the range", weft_group_read(group, len, octets, 1, WEFT_GROUP_CONFIRMED));
    fails_with(ERANGE, "octets", weft_group_read(group, 0, octets, UINT64_MAX, WEFT_GROUP_CONFIRMED));
    must(id == 77);
}

static void arrays(struct weft_group *group, uint64_t len)
{
    static char octets[4096];
    struct weft_group_op op[2] = {{.struct_size = sizeof *op}, {.struct_size = sizeof *op}};
    struct weft_group_op plain = {.struct_size = sizeof plain};
    struct weft_group_done done[2] = {{.struct_size = sizeof *done}, {.struct_size = sizeof *done}};
    struct weft_group_terms terms = {0};
    fails_with(EFAULT, "terms is NULL", weft_group_terms(group, NULL));
    fails_with(EINVAL, "struct_size 0", weft_group_terms(group, &terms));
    fails_with(EFAULT, "ops is NULL", weft_group_submit(group, NULL, 1));
    must(weft_group_submit(group, NULL, 0) == 0);
    fails_with(EINVAL, "no array", weft_group_submit(group, op, UINT64_MAX));
    op->struct_size = 16;
    fails_with(EINVAL, "struct_size 16", weft_group_submit(group, op, 1));
    *op = plain, op->parts = 16;
    fails_with(EINVAL, "parts that do not exist", weft_group_submit(group, op, 2));
    *op = plain, op->parts = WEFT_GROUP_WRITE, op->write_len = 8;
    fails_with(EFAULT, "NULL", weft_group_submit(group, op, 2));
    op->write_octets = octets, op->write_len = 601;
    fails_with(EMSGSIZE, "longer", weft_group_submit(group, op, 2));
    op->write_len = 600, op->write_at = UINT64_MAX;
    fails_with(ERANGE, "beyond the range", weft_group_submit(group, op, 2));
    op->write_at = 0, op->parts |= WEFT_GROUP_SWAP, op->swap_at = 8, op->swap_on = WEFT_GROUP_ALL;
    fails_with(EINVAL, "overlap", weft_group_submit(group, op, 2));
    op->swap_at = 4;
    fails_with(EINVAL, "multiple of 8", weft_group_submit(group, op, 2));
    op->swap_on = 0;
    fails_with(EINVAL, "no replica", weft_group_submit(group, op, 2));
    *op = plain, op->parts = WEFT_GROUP_COPY, op->copy_to = len - 7, op->copy_len = 8;
    fails_with(ERANGE, "beyond the range", weft_group_submit(group, op, 2));
    *op = plain, op->parts = WEFT_GROUP_FLUSH, op->flush_at = 8, op->flush_len = UINT64_MAX;
    fails_with(ERANGE, "beyond the range", weft_group_submit(group, op, 2));
    fails_with(EFAULT, "done is NULL", weft_group_poll(group, NULL, 1));
    must(weft_group_poll(group, NULL, 0) == 0);
    fails_with(EINVAL, "no array", weft_group_poll(group, done, UINT64_MAX));
    done->struct_size = 4;
    fails_with(EINVAL, "struct_size 4", weft_group_poll(group, done, 2));
    done->struct_size = 4104;
    fails_with(E2BIG, "struct_size 4104", weft_group_poll(group, done, 2));
}

int main(int argc, char **argv)
{
    struct weft_group_options options = {.struct_size = sizeof options};
    struct weft_group_terms terms = {.struct_size = sizeof terms};
    must(argc >= 2 && strcmp(weft_group_strerror(), "no error") == 0);
    options_of(argv[1]);
    options.members = argv[1], options.window = 4, options.piece = 600;
    /* Before the first group is open, and with one. */
    handle(NULL);
    struct weft_group *group = weft_group_open(&options);
    must(group && weft_group_terms(group, &terms) == 0);
    handle(NULL);
    handle((struct weft_group *)&options);
    handle((struct weft_group *)((char *)group + 1));
    operations(group, terms.len);
    arrays(group, terms.len);
    must(weft_group_close(group) == 0);
    handle(group);
    /* A name is never given twice. */
    struct weft_group *other = weft_group_open(&options);
    must(other && other != group);
    handle(group);
    must(weft_group_close(other) == 0);
    puts("ok");
    return 0;
}
