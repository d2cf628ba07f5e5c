/*
 * weft_group.h: memory that several hosts hold (HyperLoop). Link with -lweft_group.
 *
 * A group is a chain or a fan of replicas, which `weft group server` starts. A program opens a session with them and
 * begins operations. The devices of the replicas carry them out; no program of a replica runs for that.
 *
 * Conventions of all functions:
 *
 * - Offsets and lengths are in octets and of type uint64_t. An offset counts from the first octet of the session's
 *   range. It is the same at every replica.
 * - A function that fails returns -1, or NULL, and sets errno. weft_group_strerror() has the reason in a line of
 *   English.
 * - The first field of each struct is `struct_size`. Set it to sizeof the struct, and all fields that you do not use
 *   to 0. The library takes a struct of an older header, which is shorter. It takes a longer one if all octets that
 *   it does not know are 0.
 * - `struct weft_group *` is a name and no address. The library looks it up. A name is never given twice.
 * - All functions may be called from all threads. Calls on one group wait for each other: while a thread is in
 *   weft_group_wait() or weft_group_read(), the calls of other threads on that group wait.
 * - A child of fork() has none of its parent's groups (EBADF). It can open one only if its parent had not called
 *   weft_group_open() before the fork.
 * - The library reads a program's memory during a call only, and never keeps a pointer.
 *
 * Values of errno that are common:
 *
 *   EBADF         the group is not open: NULL, closed, or no group at all
 *   EFAULT        a pointer is NULL that must not be
 *   EINVAL        an argument makes no sense; weft_group_strerror() names it
 *   E2BIG         a struct is longer than the library knows, and the rest of it is not 0
 *   EIO           the library has failed; standard error has the reason. Close the group
 *
 * Values of errno when the session is over. Later operations fail, too. What was under way may be done in part. Close
 * the group, and open another one:
 *
 *   ECONNRESET    a replica is lost
 *   ESTALE        the group has a newer epoch
 *   ETIMEDOUT     the replicas did not answer for as long as the session waits
 */
#ifndef WEFT_GROUP_H
#define WEFT_GROUP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The largest number of replicas. */
#define WEFT_GROUP_MAX_REPLICAS 16

/* A session with a group. */
struct weft_group;

/* How the replicas hang together. */
enum weft_group_topology {
    /* Each replica hands operations on to the next one. */
    WEFT_GROUP_CHAIN = 0,
    /* The client sends operations to each replica. */
    WEFT_GROUP_FAN = 1
};

/* What flushed octets have to survive. */
enum weft_group_durability {
    /* The loss of power at all hosts, if the memory of each replica has a file. */
    WEFT_GROUP_FILE = 0,
    /* The failure of all replicas but one. A flush asks nothing of the replicas. */
    WEFT_GROUP_VOLATILE = 1
};

/* What a session is opened with. Where 0 has another meaning than the number, the comment says so. */
struct weft_group_options {
    uint64_t struct_size;
    /* The replicas, the head of a chain first: "10.0.0.1:7471,10.0.0.2:7471" or "[fd00::1]:7471". At most 16. NULL if
     * there is a register. */
    const char *members;
    /* A value of enum weft_group_topology. A register has its own. */
    uint64_t topology;
    /* Slots: how many operations are under way at most. A power of two, at most 4096. 0 stands for 128. */
    uint64_t window;
    /* The longest write of one slot, at most UINT32_MAX. 0 stands for 65536. The session has memory of window * piece
     * octets, which is at most 4 GiB. */
    uint64_t piece;
    /* How long a call waits for a replica, in milliseconds, at most 3600000. 0 stands for 5000. */
    uint64_t timeout_ms;
    /* The path of a file with the group's key: 32 octets, which its owner alone may read. NULL if there is none. */
    const char *key_file;
    /* The register that has the members (`weft group create`): the path of a file, or etcd://HOST:PORT/KEY. NULL if
     * there is none. */
    const char *register_name;
    /* The octets of each replica's memory that the session works on. `range_at` is a multiple of 8. 0 and 0 stand for
     * all that the first replica has. */
    uint64_t range_at;
    uint64_t range_len;
    /* A value of enum weft_group_durability. */
    uint64_t durability;
};

/*
 * Opens a session. Blocks until all replicas are connected, at most `timeout_ms`.
 *
 * Returns the group, or NULL:
 *   EFAULT        `options` is NULL, or both `members` and `register_name`
 *   EINVAL        an option makes no sense
 *   ERANGE        the range ends beyond 2^64
 *   E2BIG         the struct has fields that this library does not know
 *   ENOKEY        the file of the key cannot be read, or is no key
 *   ECONNREFUSED  a replica cannot be reached or refuses the session; the line of weft_group_strerror() names the
 *                 replica
 *   ESTALE        the group has a newer epoch
 *   ETIMEDOUT     a replica does not answer
 *   ENOMEM        there is not enough memory, or no device
 *   ENOTSUP       this process is a child of fork(), and its parent had called this function
 */
struct weft_group *weft_group_open(const struct weft_group_options *options);

/*
 * Begins a new epoch of a group with a register: members that do not answer leave, spares take their place and get all
 * octets. All sessions of the epoch before end (ESTALE, or ECONNRESET). The program opens another one then.
 *
 * With `from` the change is made only if the group is in that epoch, which weft_group_terms() tells of a session: then
 * nobody else has used the group since. 0 stands for any epoch. `*epoch` is set to the new one, unless `epoch` is NULL.
 *
 * Returns 0, or -1: EFAULT, EINVAL, E2BIG, ENOKEY, ENOMEM, ENOTSUP as weft_group_open(), and
 *   ESTALE        the group is not in epoch `from`, or other coordinators were always faster
 *   ENODATA       no member has all acknowledged octets (`weft group repair --from-storage` may help)
 *   ECONNREFUSED  the register does not answer, or has no group
 */
int weft_group_change_epoch(const struct weft_group_options *options, uint64_t from, uint64_t *epoch);

/*
 * Ends a session and frees all that belongs to it. Waits for calls of other threads on it. What is under way may be
 * done in part: call weft_group_wait() first.
 *
 * Returns 0, or -1: EBADF.
 */
int weft_group_close(struct weft_group *group);

/* What the client and the replicas have agreed on. */
struct weft_group_terms {
    uint64_t struct_size;
    /* Replicas, in all chains together. */
    uint64_t replicas;
    /* Octets of the session's range. */
    uint64_t len;
    /* Slots. */
    uint64_t window;
    /* The longest write of one slot, in octets. */
    uint64_t piece;
    uint64_t epoch;
};

/*
 * Stores the terms of a session. The program sets `struct_size`; octets of a longer struct become 0.
 *
 * Returns 0, or -1: EBADF, EFAULT, EINVAL for a wrong `struct_size`.
 */
int weft_group_terms(struct weft_group *group, struct weft_group_terms *terms);

/*
 * The operations.
 *
 * Each of the next four functions begins an operation, and returns before the operation is done. The number of the
 * operation goes to `id`, if that is not NULL. Numbers grow. Operations are done in the order of the calls. Each of
 * them is handed out once: by weft_group_wait() to the program that asks for it, or by weft_group_poll(). Until then
 * the library keeps a record of it.
 *
 * They return 0, or -1, besides the common values:
 *   EAGAIN        the window is full: as many operations are under way as there are slots. Call weft_group_poll() or
 *                 weft_group_wait(), and then again
 *   EBUSY         an operation under way uses the same octets, and one of both changes them. As EAGAIN
 *   ERANGE        octets are beyond the range of the session
 *   EMSGSIZE      more octets than there is room for
 * After these nothing has changed, and the session goes on.
 */

/*
 * gWRITE: writes `len` octets to the same place of every replica. They are copied during the call. A write longer
 * than a piece takes several slots; EMSGSIZE if it needs more than the window has.
 */
int weft_group_write(struct weft_group *group, uint64_t at, const void *octets, uint64_t len, uint64_t *id);

/*
 * gMEMCPY: each replica copies octets in its own memory. EINVAL if source and sink overlap; EMSGSIZE if `len` is more
 * than UINT32_MAX.
 */
int weft_group_copy(struct weft_group *group, uint64_t from, uint64_t to, uint64_t len, uint64_t *id);

/* The execute map of all replicas. */
#define WEFT_GROUP_ALL UINT64_MAX

/* What a replica has found that was not asked to compare. A word may have this value, too. */
#define WEFT_GROUP_UNTOUCHED UINT64_MAX

/*
 * gCAS: the replicas of the execute map `on` compare the word of 8 octets at `at` with `compare`. Where it is equal,
 * it becomes `swap`. Bit 0 of `on` is the first member. What each replica has found comes with the end of the
 * operation. The word is in the byte order of the replica's host.
 *
 * EINVAL if `at` is no multiple of 8, or `on` has no bit or one of a replica that does not exist.
 */
int weft_group_compare_swap(struct weft_group *group, uint64_t at, uint64_t compare, uint64_t swap, uint64_t on,
                            uint64_t *id);

/*
 * gFLUSH: makes `len` octets at `at` durable at all replicas whose memory has a file. All that was begun before is
 * done, too, when this is done. EMSGSIZE if `len` is more than UINT32_MAX.
 */
int weft_group_flush(struct weft_group *group, uint64_t at, uint64_t len, uint64_t *id);

/* The parts of an operation. They are carried out in this order. */
#define WEFT_GROUP_WRITE 1u
#define WEFT_GROUP_COPY 2u
#define WEFT_GROUP_SWAP 4u
#define WEFT_GROUP_FLUSH 8u

/* Several parts that go through the replicas in one pass. */
struct weft_group_op {
    uint64_t struct_size;
    /* The number of the operation: weft_group_submit() sets it. */
    uint64_t id;
    /* Which parts there are. An operation without any is done when it has passed all replicas. */
    uint64_t parts;
    /* WEFT_GROUP_WRITE. At most a piece. It must not overlap with the copy's sink or the word of the swap. */
    uint64_t write_at;
    const void *write_octets;
    uint64_t write_len;
    /* WEFT_GROUP_COPY */
    uint64_t copy_from;
    uint64_t copy_to;
    uint64_t copy_len;
    /* WEFT_GROUP_SWAP */
    uint64_t swap_at;
    uint64_t swap_compare;
    uint64_t swap_value;
    uint64_t swap_on;
    /* WEFT_GROUP_FLUSH */
    uint64_t flush_at;
    uint64_t flush_len;
};

/*
 * Begins `n` operations in the order of the array. All elements have the `struct_size` of the first one.
 *
 * Returns how many were begun. These have their `id`. If it is less than `n`, the next operation was refused; begin
 * it again to hear why. Returns -1 if the first one was refused: as weft_group_write(), and EINVAL for parts that
 * overlap and for unknown parts.
 */
int64_t weft_group_submit(struct weft_group *group, struct weft_group_op *ops, uint64_t n);

/* An operation that every replica has done. */
struct weft_group_done {
    uint64_t struct_size;
    /* Its number. */
    uint64_t id;
    /* What each replica found in the word of a swap. */
    uint64_t originals[WEFT_GROUP_MAX_REPLICAS];
};

/*
 * Takes what is done, oldest first, and does not block. The program sets `struct_size` of the first element of
 * `done`, which holds for all; octets of longer elements become 0.
 *
 * Returns how many there were, at most `n`. When the session is over and nothing is left, returns -1: ECONNRESET,
 * ESTALE or ETIMEDOUT. Else -1: EBADF, EFAULT, EINVAL for a wrong `struct_size`.
 */
int64_t weft_group_poll(struct weft_group *group, struct weft_group_done *done, uint64_t n);

/*
 * Blocks until an operation is done. Stores what each replica found in the word of a swap to the 16 words at
 * `originals`, if that is not NULL.
 *
 * A negative `ms` waits as long as the session does: if the replicas acknowledge nothing for `timeout_ms`, the
 * session is over (ETIMEDOUT). Else the call waits at most `ms` milliseconds. If the operation is not done by then,
 * it fails with EAGAIN, and the operation goes on.
 *
 * Returns 0, or -1: EAGAIN; ENOENT if no operation of this number is under way, or it was handed out; values of a
 * session that is over.
 */
int weft_group_wait(struct weft_group *group, uint64_t id, uint64_t *originals, int64_t ms);

/* How fresh octets are that are read. */
enum weft_group_fresh {
    /* All replicas have them, and the one that has answered was in the group then. */
    WEFT_GROUP_CONFIRMED = 0,
    /* One replica has them. The group may go on without it. */
    WEFT_GROUP_MAYBE = 1
};

/*
 * Reads octets from the tail of a chain, or from the first member of a fan. Waits for operations under way that
 * change them. `fresh` is a value of enum weft_group_fresh.
 *
 * Returns 0, or -1: ERANGE; values of a session that is over. After an error the octets at `out` have no meaning.
 */
int weft_group_read(struct weft_group *group, uint64_t at, void *out, uint64_t len, int fresh);

/*
 * Returns a descriptor for poll(2), which becomes readable when something is done or the session is over. Sleep on it
 * only when the last call on the group was a weft_group_poll() that returned 0. It may be readable though nothing is
 * done. The library closes it with the group. Programs must not read from it nor close it.
 *
 * On an error returns -1: EBADF.
 */
int weft_group_fd(struct weft_group *group);

/*
 * Returns the reason of the last call of this thread that failed, as a line without a newline. The line stays valid
 * until the next call of this thread fails. If none has failed, it is "no error".
 */
const char *weft_group_strerror(void);

#ifdef __cplusplus
}
#endif

#endif
