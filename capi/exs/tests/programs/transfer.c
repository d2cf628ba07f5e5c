/* Sends and receives: messages and a stream, registered memory and other, short and long, of several pieces, files. */
#include "common.h"
#include <fcntl.h>
#include <poll.h>

enum { LONG = 1 << 20 };

static exs_qhandle_t q;
static unsigned char *from, *to;
static exs_mhandle_t m_from, m_to;

static void fill(size_t len, unsigned seed) {
    for (size_t i = 0; i < len; i++) from[i] = (unsigned char)(i * 31 + seed * 7 + (i >> 8));
    memset(to, 0xEE, LONG);
}

/* Sends one message of each length, with the memory registered or not. */
static void messages(int ends[2], exs_mhandle_t out, exs_mhandle_t in) {
    const size_t lens[] = {0, 1, 100, 1024, 1025, 4096, 4097, 70000, LONG};
    for (unsigned i = 0; i < sizeof lens / sizeof *lens; i++) {
        size_t len = lens[i];
        fill(len, i);
        CHECK(exs_recv(ends[1], to, LONG, 0, q, (exs_ahandle_t)i, in) == 0);
        CHECK(exs_send(ends[0], from, len, 0, q, -1, out) == 0);
        exs_event_t events[2];
        CHECK(exs_qdequeue(q, events, -2, NULL) == 2);
        exs_event_t *received = events[0].type == EXS_EVT_RECV ? &events[0] : &events[1];
        exs_event_t *sent = events[0].type == EXS_EVT_RECV ? &events[1] : &events[0];
        CHECK(received->type == EXS_EVT_RECV && received->fd == ends[1] && received->ahandle == (exs_ahandle_t)i);
        CHECK(sent->type == EXS_EVT_SEND && sent->fd == ends[0] && sent->ahandle == -1);
        CHECK(received->error == 0 && sent->error == 0);
        CHECK(sent->u.xfer.len == len && received->u.xfer.len == len && received->u.xfer.message_len == len);
        CHECK(received->u.xfer.buf == to && received->u.xfer.is_end == 0);
        CHECK(!(received->flags & EXS_MSG_DIRECT) == (len <= 1024));
        CHECK(memcmp(from, to, len) == 0);
        CHECK(to[len] == 0xEE || len == LONG);
    }
}

/* A message that is longer than the receive loses its rest, and both ends hear of it. */
static void truncated(int ends[2]) {
    fill(5000, 3);
    CHECK(exs_recv(ends[1], to, 10, 0, q, 1, EXS_MHANDLE_UNREGISTERED) == 0);
    CHECK(exs_send(ends[0], from, 5000, 0, q, 2, m_from) == 0);
    exs_event_t events[2];
    CHECK(exs_qdequeue(q, events, -2, NULL) == 2);
    for (int i = 0; i < 2; i++) {
        CHECK(events[i].error == 0 && events[i].flags & MSG_TRUNC);
        CHECK(events[i].u.xfer.len == 10 && events[i].u.xfer.message_len == 5000);
    }
    CHECK(memcmp(from, to, 10) == 0 && to[10] == 0xEE);
}

/* A socket takes 64 operations of a direction. Their events come in the order of the starts. */
static void many(int ends[2]) {
    exs_qhandle_t own = exs_qcreate(200);
    exs_event_t events[128];
    int received = 0, sent = 0;
    fill(640, 4);
    for (int i = 0; i < 64; i++) CHECK(exs_recv(ends[1], to + i * 10, 10, 0, own, i, m_to) == 0);
    FAILS(exs_recv(ends[1], to, 10, 0, own, 64, m_to), EAGAIN);
    FAILS(exs_recv(ends[1], to, 10, 0, own, 64, EXS_MHANDLE_UNREGISTERED), EAGAIN);
    CHECK(exs_qcount(own) == 0);
    for (int i = 0; i < 64; i++) CHECK(exs_send(ends[0], from + i * 10, 10, 0, own, i, m_from) == 0);
    CHECK(exs_qdequeue(own, events, -128, NULL) == 128);
    for (int i = 0; i < 128; i++) {
        int *next = events[i].type == EXS_EVT_RECV ? &received : &sent;
        CHECK(events[i].error == 0 && events[i].u.xfer.len == 10 && events[i].ahandle == (*next)++);
    }
    CHECK(received == 64 && sent == 64 && memcmp(from, to, 640) == 0);
    CHECK(exs_qdelete(own) == 0);
}

/* A stream, received by parts and whole; the end comes behind all octets. */
static void stream(int ends[2], exs_mhandle_t out, exs_mhandle_t in) {
    fill(LONG, 5);
    CHECK(exs_recv(ends[1], to, LONG, MSG_WAITALL, q, 1, in) == 0);
    for (int i = 0; i < 16; i++) CHECK(exs_send(ends[0], from + i * (LONG / 16), LONG / 16, 0, q, 2, out) == 0);
    exs_event_t events[17];
    CHECK(exs_qdequeue(q, events, -17, NULL) == 17);
    for (int i = 0; i < 17; i++) {
        CHECK(events[i].error == 0);
        CHECK(events[i].u.xfer.len == (events[i].type == EXS_EVT_RECV ? LONG : LONG / 16));
    }
    CHECK(memcmp(from, to, LONG) == 0);
    fill(300, 6);
    CHECK(exs_send(ends[0], from, 300, 0, q, 3, out) == 0);
    CHECK(take(q, EXS_EVT_SEND, 3).error == 0);
    size_t have = 0;
    while (have < 300) {
        CHECK(exs_recv(ends[1], to + have, 128, 0, q, 4, in) == 0);
        exs_event_t event = take(q, EXS_EVT_RECV, 4);
        CHECK(event.error == 0 && event.u.xfer.len > 0 && event.u.xfer.len <= 128);
        have += event.u.xfer.len;
    }
    CHECK(have == 300 && memcmp(from, to, 300) == 0);
}

/* Several pieces of memory go and come in one operation. */
static void pieces(int ends[2]) {
    fill(200000, 8);
    const exs_mhandle_t none = EXS_MHANDLE_UNREGISTERED;
    exs_iovec_t out[3] = {{from, 1000, m_from}, {from + 1000, 0, none}, {from + 1000, 2000, none}};
    exs_iovec_t in[2] = {{to, 700, m_to}, {to + 5000, 4000, m_to}};
    exs_msghdr_t sent, received;
    memset(&sent, 0, sizeof sent);
    memset(&received, 0, sizeof received);
    sent.msg_iov = out, sent.msg_iovlen = 3;
    received.msg_iov = in, received.msg_iovlen = 2;
    CHECK(exs_recvmsg(ends[1], &received, 0, q, 1) == 0);
    CHECK(exs_sendmsg(ends[0], &sent, 0, q, 2) == 0);
    exs_event_t events[2];
    CHECK(exs_qdequeue(q, events, -2, NULL) == 2);
    for (int i = 0; i < 2; i++) {
        CHECK(events[i].error == 0 && events[i].u.xfer.len == 3000);
        CHECK(events[i].type == (events[i].fd == ends[0] ? EXS_EVT_SENDMSG : EXS_EVT_RECVMSG));
    }
    CHECK(memcmp(from, to, 700) == 0 && to[700] == 0xEE && memcmp(from + 700, to + 5000, 2300) == 0);
    /* Registered pieces are gathered where they are. */
    memset(to, 0xEE, LONG);
    exs_iovec_t many[31];
    for (int i = 0; i < 31; i++) many[i] = (exs_iovec_t){from + i * 5000, (size_t)(i * 100), m_from};
    sent.msg_iov = many, sent.msg_iovlen = 31;
    CHECK(exs_recv(ends[1], to, LONG, 0, q, 3, m_to) == 0 && exs_sendmsg(ends[0], &sent, 0, q, 4) == 0);
    CHECK(exs_qdequeue(q, events, -2, NULL) == 2);
    for (int i = 0; i < 2; i++) CHECK(events[i].error == 0 && events[i].u.xfer.len == 46500);
    for (int i = 0, at = 0; i < 31; at += i * 100, i++) CHECK(memcmp(to + at, from + i * 5000, (size_t)(i * 100)) == 0);
    char control[16];
    sent.msg_control = control, sent.msg_controllen = sizeof control;
    FAILS(exs_sendmsg(ends[0], &sent, 0, q, 2), EOPNOTSUPP);
}

/* Memory and octets of a file, one behind the other. */
static void files(int ends[2]) {
    char name[] = "/tmp/weft-exs-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0);
    fill(9000, 9);
    CHECK(write(file, from, 9000) == 9000);
    exs_xferfile_t parts[2];
    parts[0].type = EXS_IOVEC;
    parts[0].u.iov.iov_base = "head", parts[0].u.iov.iov_len = 4, parts[0].u.iov.iov_mhandle = EXS_MHANDLE_UNREGISTERED;
    parts[1].type = EXS_FDVEC;
    parts[1].u.fdv.fd = file, parts[1].u.fdv.offset = 500, parts[1].u.fdv.len = 8000;
    CHECK(exs_recv(ends[1], to, 8004, MSG_WAITALL, q, 1, m_to) == 0);
    CHECK(exs_sendfile(ends[0], parts, 2, 0, q, 2) == 0);
    exs_event_t events[2];
    CHECK(exs_qdequeue(q, events, -2, NULL) == 2);
    for (int i = 0; i < 2; i++) {
        CHECK(events[i].error == 0 && events[i].u.xfer.len == 8004);
        CHECK(events[i].type == (events[i].fd == ends[0] ? EXS_EVT_SENDFILE : EXS_EVT_RECV));
    }
    CHECK(memcmp(to, "head", 4) == 0 && memcmp(to + 4, from + 500, 8000) == 0);
    parts[1].u.fdv.fd = 9999;
    FAILS(exs_sendfile(ends[0], parts, 2, 0, q, 2), EBADF);
    parts[1].type = 3;
    FAILS(exs_sendfile(ends[0], parts, 2, 0, q, 2), EINVAL);
    close(file);
}

/* A socket is polled, canceled, shut down and closed. */
static void ends_of(int ends[2]) {
    CHECK(exs_poll(ends[1], EXS_POLLIN, q, 1) == 0);
    CHECK(exs_poll(ends[0], EXS_POLLOUT, q, 2) == 0);
    CHECK(take(q, EXS_EVT_POLL, 2).u.poll.revents == POLLOUT);
    CHECK(exs_send(ends[0], "x", 1, 0, q, 3, EXS_MHANDLE_UNREGISTERED) == 0);
    /* The send of a message ends when the peer has taken it, that of a stream before. */
    exs_event_t events[2];
    do CHECK(exs_qdequeue(q, events, 1, NULL) == 1);
    while (events[0].type == EXS_EVT_SEND);
    CHECK(events[0].type == EXS_EVT_POLL && events[0].u.poll.revents == POLLIN);
    CHECK(exs_recv(ends[1], to, 10, 0, q, 4, EXS_MHANDLE_UNREGISTERED) == 0);
    do CHECK(exs_qdequeue(q, events, 1, NULL) == 1);
    while (events[0].type == EXS_EVT_SEND);
    CHECK(events[0].type == EXS_EVT_RECV && events[0].u.xfer.len == 1 && to[0] == 'x');
    struct timeval soon = {0, 100000};
    CHECK(exs_qdequeue(q, events, 1, &soon) <= 1);

    CHECK(exs_recv(ends[1], to, 10, 0, q, 5, EXS_MHANDLE_UNREGISTERED) == 0);
    CHECK(exs_recv(ends[1], to + 10, 10, 0, q, 6, EXS_MHANDLE_UNREGISTERED) == 0);
    CHECK(exs_cancel(ends[1], 99, EXS_CAF_FILDES | EXS_CAF_AHANDLE) == 0);
    CHECK(exs_cancel(-1, 6, EXS_CAF_AHANDLE) == 1);
    CHECK(take(q, EXS_EVT_RECV, 6).error == ECANCELED);
    CHECK(exs_cancel(ends[1], 0, EXS_CAF_FILDES) == 1);
    CHECK(take(q, EXS_EVT_RECV, 5).error == ECANCELED);
    FAILS(exs_cancel(ends[1], 0, 0), EINVAL);

    CHECK(exs_recv(ends[1], to, 10, 0, q, 7, EXS_MHANDLE_UNREGISTERED) == 0);
    CHECK(exs_shutdown(ends[0], EXS_SHUT_WR, q, 8) == 0);
    CHECK(exs_qdequeue(q, events, -2, NULL) == 2);
    exs_event_t *end = events[0].type == EXS_EVT_RECV ? &events[0] : &events[1];
    CHECK(end->error == 0 && end->ahandle == 7 && end->u.xfer.len == 0 && end->u.xfer.is_end == 1);
    CHECK(exs_send(ends[0], "x", 1, 0, q, 9, EXS_MHANDLE_UNREGISTERED) == 0);
    CHECK(take(q, EXS_EVT_SEND, 9).error == EPIPE);

    CHECK(exs_close(ends[0], q, 10) == 0);
    FAILS(exs_send(ends[0], "x", 1, 0, q, 9, EXS_MHANDLE_UNREGISTERED), EBADF);
    CHECK(exs_close(ends[1], q, 11) == 0);
    CHECK(exs_qdequeue(q, events, -2, NULL) == 2);
    for (int i = 0; i < 2; i++) CHECK(events[i].type == EXS_EVT_CLOSE && events[i].error == 0);
}

int main(void) {
    int ends[2];
    CHECK(exs_init(EXS_VERSION) == 0);
    q = exs_qcreate(64);
    CHECK(q != EXS_QHANDLE_INVALID);
    from = malloc(LONG);
    to = malloc(LONG + 1);
    CHECK(from != NULL && to != NULL);
    m_from = exs_mregister(from, LONG, EXS_MRF_SHARED);
    m_to = exs_mregister(to, LONG, 0);
    CHECK(m_from != EXS_MHANDLE_INVALID && m_to != EXS_MHANDLE_INVALID && m_from != m_to);

    make_pair(SOCK_SEQPACKET, q, ends, NULL);
    messages(ends, m_from, m_to);
    messages(ends, EXS_MHANDLE_UNREGISTERED, EXS_MHANDLE_UNREGISTERED);
    truncated(ends);
    many(ends);
    pieces(ends);
    ends_of(ends);

    make_pair(SOCK_STREAM, q, ends, NULL);
    stream(ends, m_from, m_to);
    stream(ends, EXS_MHANDLE_UNREGISTERED, EXS_MHANDLE_UNREGISTERED);
    files(ends);
    ends_of(ends);

    CHECK(exs_mderegister(m_from) == 0 && exs_mderegister(m_to) == 0);
    CHECK(exs_qcount(q) == 0 && exs_qdelete(q) == 0);
    free(from);
    free(to);
    puts("ok");
    return 0;
}
