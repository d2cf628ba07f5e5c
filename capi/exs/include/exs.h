/*
 * exs.h: Extended Sockets, asynchronous sockets over RDMA. Link with -lexs.
 *
 * A program starts operations on sockets and takes their ends, as events, from queues. Octets move between the memory
 * of the two programs without a copy on the way. There are messages (SOCK_SEQPACKET) and streams (SOCK_STREAM). Both
 * ends have to be Weft's.
 *
 * Conventions of all functions:
 *
 * - A function that fails returns -1, or the invalid handle of its type, and sets errno.
 * - A socket is a descriptor of the system, so that its number is no other descriptor's. Only the functions of this
 *   header take it.
 * - A function that takes a queue `q` starts an operation and returns 0 at once. The end of the operation is one event
 *   in that queue. A start that fails has no event. A start reserves the place of its event, so that none is lost.
 * - `a` is the program's own number for the operation. The event has it.
 * - The memory of an operation is the operation's until the program has taken its event: the program may not change,
 *   unmap or, for a receive, read it.
 * - All functions may be called from all threads.
 * - A child of fork() has none of its parent's sockets, queues and memory.
 * - The functions exs_sync_... are as those of POSIX: they wait, and have no event. Below stands what differs.
 * - exit() and the return from main() close all sockets, and wait up to a second for what was sent. A peer that has not
 *   all of it then sees ECONNRESET. _exit(), and a signal that kills, wait for nothing: octets that a send has accepted
 *   may be lost, and a peer over plain TCP sees a clean end.
 *
 * Values of errno that are common:
 *
 *   EAGAIN      the socket takes no more operations (64 in each direction), or the queue has no place for another
 *               event. Take events and try again. From an exs_sync_ function: it would have to wait
 *   EBADF       there is no such socket
 *   EINVAL      there is no such queue or memory, or the memory does not have the octets; or another argument is wrong
 *   EFAULT      a pointer is NULL that must not be, or memory that is to be registered is not there. Memory that is not
 *               registered is copied by the call up to 4 KiB, as memcpy() does: a pointer to no memory is SIGSEGV then
 *   EMSGSIZE    an operation has at most 2^32 - 1 octets
 *   ENOTCONN    the socket is not connected
 *   EOPNOTSUPP, ENOTSUP (the same number)   Weft does not have it
 *
 * Values of `error` in an event: 0, ECANCELED after exs_cancel() or exs_close(), ETIMEDOUT, EPIPE behind
 * exs_shutdown(), ECONNRESET when the connection has ended, EPROTO when a peer has broken the protocol, ECONNREFUSED
 * and others of connect(2).
 *
 * The environment chooses the network: see the variables WEFT_... of Weft's page for C programs.
 */
#ifndef EXS_H
#define EXS_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EXS_VERSION1 1
#define EXS_VERSION EXS_VERSION1

/* A queue of events. */
typedef int32_t exs_qhandle_t;
#define EXS_QHANDLE_INVALID ((exs_qhandle_t)-1)

/* Registered memory. */
typedef int32_t exs_mhandle_t;
#define EXS_MHANDLE_INVALID ((exs_mhandle_t)-1)
/* Stands for memory that is not registered: it is for the time of the operation. */
#define EXS_MHANDLE_UNREGISTERED ((exs_mhandle_t)-2)

/* The program's own number for an operation. */
typedef intptr_t exs_ahandle_t;

/* Flags of exs_mregister(). Accepted, and without effect: nothing is pinned, and a peer gets rights to the octets of an
 * operation for its time only. */
#define EXS_MRF_SHARED 0x1

/* What has ended. */
#define EXS_EVT_POLL 1
#define EXS_EVT_CONNECT 2
#define EXS_EVT_ACCEPT 3
#define EXS_EVT_SEND 4
#define EXS_EVT_RECV 5
#define EXS_EVT_SENDMSG 6
#define EXS_EVT_RECVMSG 7
#define EXS_EVT_SENDFILE 8
#define EXS_EVT_SHUTDOWN 9
#define EXS_EVT_CLOSE 10

/* Flags of an event, with MSG_TRUNC. The message lies in the library's memory: give it back by
 * exs_recycle_rcv_buffer(). */
#define EXS_MSG_INPLACE 0x01000000
/* The octets moved from memory to memory, without an intermediate copy. */
#define EXS_MSG_DIRECT 0x02000000

/* Of send and receive. A receive of 0 octets without MSG_TRUNC and without an error: the peer sends nothing more, or
 * has sent an empty message. `is_end` tells them apart. */
typedef struct {
    void *buf;          /* the program's; with EXS_MSG_INPLACE the library's */
    size_t len;         /* octets that were moved */
    size_t message_len; /* octets of the whole message */
    int is_end;         /* 1 if the peer sends nothing more */
} exs_evt_xfer_t;

typedef struct {
    int fd; /* the new socket */
    struct sockaddr_storage peer;
} exs_evt_accept_t;

typedef struct {
    short revents;
} exs_evt_poll_t;

typedef struct {
    int type; /* EXS_EVT_... */
    int fd;   /* the socket of the operation */
    exs_ahandle_t ahandle;
    int error; /* 0, or a value of errno */
    int flags; /* MSG_TRUNC, EXS_MSG_... */
    union {
        exs_evt_xfer_t xfer;
        exs_evt_accept_t accept;
        exs_evt_poll_t poll;
    } u;
} exs_event_t;

/* Opens the device. Other functions do so, too, so that the call is a check of the version. */
int exs_init(int version);

/* ---- queues ---- */

/* The most events that a queue has room for. */
#define EXS_EVTVEC_MAX 1048576

/* Makes a queue for `depth` events, 1 to EXS_EVTVEC_MAX. An operation under way counts as one. */
exs_qhandle_t exs_qcreate(int depth);

/* Takes events into `vec`, and returns how many.
 *   count > 0   waits until one is there, and takes at most `count`
 *   count < 0   waits until -count are there, and takes as many; `vec` has room for -count
 *   count = 0   returns 0
 * `timeout` NULL waits for ever. When the time is over, it returns those that are there, which may be 0. A wait for
 * more events than the queue has room for is one for a full queue. EINTR: a signal came, and no event was there. */
int exs_qdequeue(exs_qhandle_t q, exs_event_t *vec, int count, struct timeval *timeout);

/* Deletes a queue, with the events that wait in it. EBUSY: operations are under way that end there. */
int exs_qdelete(exs_qhandle_t q);

#define EXS_QATTR_DEPTH 1  /* events that it has room for; another value is ENOTSUP */
#define EXS_QATTR_EVENTS 2 /* events that wait; it cannot be set */
#define EXS_QATTR_WAIT 3   /* how exs_qdequeue() waits: EXS_WAIT_... */
#define EXS_QATTR_SIGNAL 4 /* ENOTSUP: use exs_qfd() with F_SETSIG */

#define EXS_WAIT_ADAPTIVE 0  /* spins for 50 microseconds, and then sleeps: the default */
#define EXS_WAIT_NOTIFY 1    /* sleeps at once */
#define EXS_WAIT_BUSY_POLL 2 /* does not sleep */

/* Sets an attribute of a queue. */
int exs_qmodify(exs_qhandle_t q, int attribute, int value);

/* Stores the value of an attribute of a queue. */
int exs_qstatus(exs_qhandle_t q, int attribute, int *value);

/* Returns a descriptor that is readable while events wait, for poll(2) and epoll(7). Do not read or close it. */
int exs_qfd(exs_qhandle_t q);

/* Returns how many events wait. */
int exs_qcount(exs_qhandle_t q);

/* Returns the name of a type of events, as "EXS_EVT_SEND". */
const char *exs_strevent(int type);

/* ---- memory ---- */

/* Registers memory. Operations within it need not do so each time. */
exs_mhandle_t exs_mregister(void *addr, size_t len, int flags);

/* Ends that. EBUSY: operations are under way in it. */
int exs_mderegister(exs_mhandle_t m);

/* ENOTSUP. */
int exs_mmodify(exs_mhandle_t m, int flags);

/* ---- sockets ---- */

/* Makes a socket: AF_INET or AF_INET6; SOCK_STREAM or SOCK_SEQPACKET, with SOCK_NONBLOCK or SOCK_CLOEXEC. */
int exs_socket(int domain, int type, int protocol);
/* The address to listen on, or to connect from. The device chooses a port of 0. */
int exs_bind(int fd, const struct sockaddr *addr, socklen_t len);
/* `backlog`, 1 to 4096: connections that are being established, or that no exs_accept() has taken. Further ones are
 * refused, also if accepts wait for them. */
int exs_listen(int fd, int backlog);
int exs_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
int exs_getpeername(int fd, struct sockaddr *addr, socklen_t *len);

/* Starts to connect. EXS_EVT_CONNECT. */
int exs_connect(int fd, const struct sockaddr *addr, socklen_t len, exs_qhandle_t q, exs_ahandle_t a);

/* Room for the address of a peer. `len` is the room, and with the event the length of the address. */
typedef struct {
    struct sockaddr *addr;
    socklen_t len;
} exs_acceptaddr_t;

/* Starts to accept `count` connections, 1 to 64. EXS_EVT_ACCEPT for each. `vec` is NULL, or has a place for each,
 * which is its operation's until the event is taken. */
int exs_accept(int fd, exs_acceptaddr_t *vec, int count, exs_qhandle_t q, exs_ahandle_t a);

/* Starts to send: a message, or the next octets of a stream. Flags: MSG_DONTWAIT and MSG_NOSIGNAL, which change
 * nothing. The event of a message comes when the peer has taken it; that of a stream, when `buf` is free. */
int exs_send(int fd, const void *buf, size_t len, int flags, exs_qhandle_t q, exs_ahandle_t a, exs_mhandle_t m);

/* Starts to receive: a message, or as many octets of a stream as are there. Flags: MSG_WAITALL fills `buf` from a
 * stream. EXS_MSG_INPLACE leaves a message in the library's memory if it came as immediate data; `buf` is for longer
 * ones. */
int exs_recv(int fd, void *buf, size_t len, int flags, exs_qhandle_t q, exs_ahandle_t a, exs_mhandle_t m);
#define exs_rcv exs_recv

/* Gives a message that was received in place back to the library; exs_close() does so, too. Until then it takes one
 * of the RECV_CREDITS, and the sender's event does not come. */
int exs_recycle_rcv_buffer(int fd, void *buf);

typedef struct {
    void *iov_base;
    size_t iov_len;
    exs_mhandle_t iov_mhandle;
} exs_iovec_t;

typedef struct {
    void *msg_name; /* NULL, and 0 below: a socket has its peer */
    socklen_t msg_namelen;
    exs_iovec_t *msg_iov;
    int msg_iovlen;
    void *msg_control; /* NULL, else EOPNOTSUPP */
    size_t msg_controllen;
    int msg_flags;
} exs_msghdr_t;

/* As exs_send() and exs_recv(), for several pieces of memory. */
int exs_sendmsg(int fd, const exs_msghdr_t *msg, int flags, exs_qhandle_t q, exs_ahandle_t a);
int exs_recvmsg(int fd, exs_msghdr_t *msg, int flags, exs_qhandle_t q, exs_ahandle_t a);

#define EXS_IOVEC 1
#define EXS_FDVEC 2

typedef struct {
    int fd;
    off_t offset;
    size_t len;
} exs_fdvec_t;

/* A part of what exs_sendfile() sends: memory, or octets of a file. */
typedef struct {
    int type; /* EXS_IOVEC, EXS_FDVEC */
    union {
        exs_iovec_t iov;
        exs_fdvec_t fdv;
    } u;
} exs_xferfile_t;

/* Starts to send parts behind each other, as one operation of at most 1 GiB. They are read into a buffer at the
 * start. Of a file that is shorter it sends what is there. */
int exs_sendfile(int fd, const exs_xferfile_t *vec, int count, int flags, exs_qhandle_t q, exs_ahandle_t a);

#define EXS_POLLIN POLLIN
#define EXS_POLLOUT POLLOUT

/* Starts to wait until the socket has one of `events`: EXS_POLLIN, octets or a message or an end to receive;
 * EXS_POLLOUT, a place for a send. One EXS_EVT_POLL. */
int exs_poll(int fd, short events, exs_qhandle_t q, exs_ahandle_t a);

#define EXS_SHUT_WR SHUT_WR

/* Sends nothing more behind what was started, or receives nothing more. EXS_EVT_SHUTDOWN when that has begun. */
int exs_shutdown(int fd, int how, exs_qhandle_t q, exs_ahandle_t a);

/* Closes a socket, in the background: sends what was started and waits for the peer's end, at most SO_LINGER (30 s).
 * EXS_EVT_CLOSE, or no event if `q` is EXS_QHANDLE_INVALID. The number is no socket's from now on; it is free with the
 * event. Its error is 0 when both sides have closed. ETIMEDOUT: the time was over first. ECONNRESET and others: the
 * connection was lost meanwhile. Octets that were sent may be lost after each of these. A close that ends the
 * connection at once, as SO_LINGER of 0 and unread octets do, has ECANCELED if it has cut off sends, else 0. */
int exs_close(int fd, exs_qhandle_t q, exs_ahandle_t a);

#define EXS_CAF_FILDES 0x1  /* the operations of this socket */
#define EXS_CAF_AHANDLE 0x2 /* the operations with this number */

/* Cancels sends and receives, those to which all flags apply. Returns how many have begun to end so. Each has its event
 * still, which tells how it has ended: a receive of a stream that has octets ends with them. */
int exs_cancel(int fd, exs_ahandle_t a, int flags);

/* Options of a socket, fixed when it connects or listens. After that the answer is what both ends have agreed on. A
 * value out of its range is EINVAL. So is one by which the slots of the socket would take more than 1 GiB:
 * (WINDOW + RECV_CREDITS) * (32 + SMALL_PACKET_MAX) octets, of a stream WINDOW * (32 + SMALL_PACKET_MAX). So lower
 * WINDOW before a SMALL_PACKET_MAX of many MiB is set. */
#define EXS_SMALL_PACKET_MAX 1 /* longest immediate data of this side: 0 to 16 MiB, 1024 */
#define EXS_SEND_CREDITS 2     /* messages not acknowledged: 1 to 1024, 32 */
#define EXS_RECV_CREDITS 3     /* the same, of the peer */
#define EXS_WINDOW 4           /* Sends of any kind before the peer hears of it: 8 to 1024, 32 */
#define EXS_ADVERTS 5          /* receives of a stream that are advertised at a time: 1 to 256, 16 */
#define EXS_RING 6             /* intermediate buffer of a stream: 0, or 4 KiB to 64 MiB, 256 KiB */
#define EXS_DIRECT_MIN 7       /* shortest rest of a send for which a stream waits to reach the peer's memory, 65536 */
#define EXS_PLAIN 8            /* peers of a stream (EINVAL for messages) over plain TCP, without EXS: one of: */
#define EXS_PLAIN_OFF 0        /* none: the default */
#define EXS_PLAIN_ACCEPT 1     /* a listener takes both kinds of peers; a socket that connects speaks EXS */
#define EXS_PLAIN_ALWAYS 2     /* all are. After connecting the answer is this one or EXS_PLAIN_OFF */
#define EXS_F_GET(option) (0x4500 | (option))
#define EXS_F_SET(option) (0x4600 | (option))

/* fcntl(2) with F_GETFL, F_SETFL (O_NONBLOCK), EXS_F_GET(), which returns the value, and EXS_F_SET() with an int. Other
 * commands are EOPNOTSUPP. */
int exs_fcntl(int fd, int command, ...);

/* Options at SOL_SOCKET, beside SO_LINGER, SO_ERROR, SO_TYPE and SO_DOMAIN. A struct timeval for an operation; 0:
 * none. An operation ends with ETIMEDOUT. A send of which octets are on the wire takes the connection with it. */
#define SO_ASYNC_SEND_TIMEOUT 0x4501
#define SO_ASYNC_RECV_TIMEOUT 0x4502
int exs_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int exs_setsockopt(int fd, int level, int name, const void *value, socklen_t len);

/* ---- as POSIX ---- */

/* As the functions of POSIX on streams: each waits, unless O_NONBLOCK or MSG_DONTWAIT says otherwise. Of SOCK_SEQPACKET
 * one send is one message. What differs:
 *
 * - The socket is one for these functions only, and not for read(), poll(), dup() or close().
 * - No SIGPIPE comes. A send behind the end is EPIPE.
 * - exs_sync_send() ends when the octets are copied, or have left; they may not have arrived. exs_sync_close() waits
 *   until all have left, at most SO_LINGER for each of the last sends, and returns 0.
 * - SO_RCVTIMEO and SO_SNDTIMEO are ENOPROTOOPT. SO_ASYNC_RECV_TIMEOUT and SO_ASYNC_SEND_TIMEOUT hold for these
 *   functions, too: a call ends with ETIMEDOUT, and not with EAGAIN.
 * - exs_sync_fcntl() has F_GETFL, F_SETFL and EXS_F_...: F_DUPFD, F_GETFD, F_SETFD and others are EOPNOTSUPP.
 * - MSG_OOB, ancillary data, and MSG_PEEK of messages are EOPNOTSUPP. */
int exs_sync_socket(int domain, int type, int protocol);
int exs_sync_bind(int fd, const struct sockaddr *addr, socklen_t len);
int exs_sync_listen(int fd, int backlog);
int exs_sync_accept(int fd, struct sockaddr *addr, socklen_t *len);
int exs_sync_connect(int fd, const struct sockaddr *addr, socklen_t len);
ssize_t exs_sync_send(int fd, const void *buf, size_t len, int flags);
ssize_t exs_sync_recv(int fd, void *buf, size_t len, int flags);
ssize_t exs_sync_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len);
ssize_t exs_sync_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from, socklen_t *from_len);
ssize_t exs_sync_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t exs_sync_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t exs_sync_read(int fd, void *buf, size_t len);
ssize_t exs_sync_write(int fd, const void *buf, size_t len);
ssize_t exs_sync_readv(int fd, const struct iovec *iov, int count);
ssize_t exs_sync_writev(int fd, const struct iovec *iov, int count);
ssize_t exs_sync_sendfile(int fd, int file, off_t *offset, size_t len);
int exs_sync_shutdown(int fd, int how);
int exs_sync_close(int fd);
int exs_sync_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
int exs_sync_getpeername(int fd, struct sockaddr *addr, socklen_t *len);
int exs_sync_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int exs_sync_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int exs_sync_fcntl(int fd, int command, ...);
int exs_sync_poll(struct pollfd *fds, nfds_t count, int timeout);
int exs_sync_select(int count, fd_set *in, fd_set *out, fd_set *err, struct timeval *timeout);

/* As exs_sync_send() and exs_sync_recv(), from and to registered memory, without a copy. */
ssize_t exs_sync_msend(int fd, const void *buf, size_t len, int flags, exs_mhandle_t m);
ssize_t exs_sync_mrecv(int fd, void *buf, size_t len, int flags, exs_mhandle_t m);
ssize_t exs_sync_msendmsg(int fd, const exs_msghdr_t *msg, int flags);
ssize_t exs_sync_mrecvmsg(int fd, exs_msghdr_t *msg, int flags);

#ifdef __cplusplus
}
#endif

#endif
