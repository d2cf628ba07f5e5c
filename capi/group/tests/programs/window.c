/* The window, polls, waits, the descriptor, versions of structs, two groups, two threads. In the end all octets below
 * 8000 are 0xA5. */
#include <pthread.h>

#include "common.h"

static char octets[8000];

static void window(struct weft_group *group)
{
    uint64_t ids[5], originals[WEFT_GROUP_MAX_REPLICAS];
    struct weft_group_done done[8] = {{.struct_size = sizeof *done}};
    for (int turn = 0; turn < 20; turn++) {
        /* Nothing takes acknowledgements in between, so that the window is full behind four. */
        for (uint64_t index = 0; index < 3; index++)
            must(weft_group_write(group, 100 * index, octets, 100, &ids[index]) == 0);
        fails_with(EBUSY, "the same octets", weft_group_write(group, 299, octets, 2, &ids[4]));
        must(weft_group_write(group, 300, octets, 100, &ids[3]) == 0);
        fails_with(EAGAIN, "the window is full", weft_group_write(group, 400, octets, 1, &ids[4]));
        /* One is taken by its number, out of order. The others are polled. */
        must(weft_group_wait(group, ids[2], originals, 60000) == 0 && originals[0] == WEFT_GROUP_UNTOUCHED);
        fails_with(ENOENT, "no operation", weft_group_wait(group, ids[2], NULL, 60000));
        fails_with(ENOENT, "no operation", weft_group_wait(group, ids[2], NULL, -1));
        must(weft_group_wait(group, ids[3], NULL, turn % 2 ? -1 : 60000) == 0);
        must(weft_group_poll(group, done, 8) == 2 && done[0].id == ids[0] && done[1].id == ids[1]);
        must(done[1].struct_size == sizeof *done && weft_group_poll(group, done, 8) == 0);
    }
    /* A write of several slots is one operation. */
    must(weft_group_write(group, 0, octets, 4 * 2000, ids) == 0);
    must(weft_group_wait(group, *ids, NULL, -1) == 0 && weft_group_poll(group, done, 8) == 0);
}

static void descriptor(struct weft_group *group)
{
    struct weft_group_done done = {.struct_size = sizeof done};
    struct pollfd fd = {weft_group_fd(group), POLLIN, 0};
    must(fd.fd >= 0);
    for (uint64_t turn = 0; turn < 50; turn++) {
        uint64_t id;
        /* A poll that finds nothing arms it. The event of what was taken before may come late. */
        int late = 0;
        do
            must(weft_group_poll(group, &done, 1) == 0 && late++ < 1000);
        while (poll(&fd, 1, 0));
        must(weft_group_compare_swap(group, 9000, turn, turn + 1, turn % 2 ? WEFT_GROUP_ALL : 7, &id) == 0);
        int64_t taken;
        while ((taken = weft_group_poll(group, &done, 1)) == 0)
            must(poll(&fd, 1, 60000) == 1);
        must(taken == 1 && done.id == id);
        must(done.originals[0] == turn && done.originals[2] == turn);
        must(done.originals[3] == WEFT_GROUP_UNTOUCHED || turn % 2);
    }
    uint64_t id;
    must(weft_group_compare_swap(group, 9000, 7, 8, 2, &id) == 0);
    must(weft_group_wait(group, id, done.originals, -1) == 0);
    must(done.originals[0] == WEFT_GROUP_UNTOUCHED && done.originals[1] == 50);
}

/* Structs of an older header, and of a newer one. */
static void versions(struct weft_group *group)
{
    struct {
        struct weft_group_op known;
        uint64_t rest[3];
    } ops[3];
    struct {
        struct weft_group_done known;
        uint64_t rest[3];
    } done[3];
    struct {
        struct weft_group_terms known;
        uint64_t rest;
    } terms;
    uint64_t older[2][6], least[2] = {sizeof least, 5};
    memset(ops, 0, sizeof ops);
    for (int index = 0; index < 3; index++) {
        ops[index].known.struct_size = sizeof *ops;
        ops[index].known.parts = WEFT_GROUP_WRITE;
        ops[index].known.write_at = 10 * index, ops[index].known.write_octets = octets, ops[index].known.write_len = 10;
    }
    ops[2].rest[2] = 1;
    must(weft_group_submit(group, &ops->known, 3) == 2);
    fails_with(E2BIG, "fields that this library does not know", weft_group_submit(group, &ops[2].known, 1));
    ops[2].rest[2] = 0, ops[2].known.struct_size = sizeof ops->known;
    must(weft_group_submit(group, &ops[1].known, 2) == -1 && errno == EBUSY);
    must(weft_group_wait(group, ops[1].known.id, NULL, 60000) == 0);
    must(weft_group_submit(group, &ops[1].known, 2) == 1);
    must(weft_group_wait(group, ops[1].known.id, NULL, 60000) == 0);
    memset(done, 0xEE, sizeof done);
    done->known.struct_size = sizeof *done;
    must(weft_group_poll(group, &done->known, 3) == 1);
    must(done->known.id == ops[0].known.id && done->rest[0] == 0 && done->rest[2] == 0);
    must(done->known.struct_size == sizeof *done && done[1].known.id == UINT64_C(0xEEEEEEEEEEEEEEEE));
    /* An older struct of operations ends behind the write; one of what is done has no originals. */
    memset(older, 0, sizeof older);
    for (int index = 0; index < 2; index++) {
        older[index][0] = sizeof *older, older[index][2] = WEFT_GROUP_WRITE;
        older[index][3] = 20 * index, older[index][5] = 20;
        memcpy(&older[index][4], &(const char *){octets}, sizeof(char *));
    }
    must(weft_group_submit(group, (struct weft_group_op *)older, 2) == 2);
    must(weft_group_wait(group, older[1][1], NULL, 60000) == 0);
    must(weft_group_poll(group, (struct weft_group_done *)least, 1) == 1 && least[1] == older[0][1]);
    memset(&terms, 0xEE, sizeof terms);
    terms.known.struct_size = sizeof terms;
    must(weft_group_terms(group, &terms.known) == 0 && terms.rest == 0 && terms.known.struct_size == sizeof terms);
    must(terms.known.replicas == 3 && terms.known.window == 4 && terms.known.piece == 2000);
    must(terms.known.len == 65536 && terms.known.epoch == 0);
}

/* Adds 1 to a word until it has done so a hundred times. */
static void *add(void *group)
{
    uint64_t originals[WEFT_GROUP_MAX_REPLICAS], word = 0, id;
    for (int added = 0; added < 100;) {
        if (weft_group_compare_swap(group, 10000, word, word + 1, WEFT_GROUP_ALL, &id)) {
            must(errno == EBUSY);
            continue;
        }
        must(weft_group_wait(group, id, originals, -1) == 0);
        added += originals[0] == word;
        word = originals[0] == word ? word + 1 : originals[0];
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct {
        struct weft_group_options known;
        uint64_t rest[2];
    } options;
    struct weft_group *other;
    struct weft_group_terms terms = {.struct_size = sizeof terms};
    pthread_t thread;
    uint64_t word;
    char read[64];
    must(argc == 3);
    memset(octets, 0xA5, sizeof octets);
    memset(&options, 0, sizeof options);
    options.known.struct_size = sizeof options;
    options.known.members = argv[1], options.known.window = 4, options.known.piece = 2000;
    options.known.topology = strcmp(argv[2], "fan") ? WEFT_GROUP_CHAIN : WEFT_GROUP_FAN;
    struct weft_group *group = weft_group_open(&options.known);
    must(group);
    window(group);
    versions(group);
    descriptor(group);
    must(pthread_create(&thread, NULL, add, group) == 0);
    add(group);
    must(pthread_join(thread, NULL) == 0);
    must(weft_group_read(group, 10000, &word, sizeof word, WEFT_GROUP_CONFIRMED) == 0 && word == 200);
    /* An older struct ends behind the members. The other group sees a range of the first one's memory. */
    options.known.struct_size = sizeof options, options.known.range_at = 7992, options.known.range_len = 64;
    other = weft_group_open(&options.known);
    must(other && weft_group_terms(other, &terms) == 0 && terms.len == 64);
    must(weft_group_read(other, 0, read, sizeof read, WEFT_GROUP_MAYBE) == 0);
    must(memcmp(read, octets, 8) == 0 && read[8] == 0);
    must(weft_group_close(group) == 0);
    must(weft_group_read(other, 0, read, sizeof read, WEFT_GROUP_CONFIRMED) == 0);
    must(weft_group_close(other) == 0);
    options.known.struct_size = 16;
    other = weft_group_open(&options.known);
    must(other && weft_group_terms(other, &terms) == 0 && terms.len == 65536 && terms.window == 128);
    must(weft_group_close(other) == 0);
    puts("ok");
    return 0;
}
