/* The layout of the structs of exs.h, and the numbers. The same are in capi/src/abi/exs.rs. C and C++ agree. */
#include <exs.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
#define IS(condition) static_assert(condition, #condition)
#else
#define IS(condition) _Static_assert(condition, #condition)
#endif

IS(sizeof(exs_qhandle_t) == 4 && sizeof(exs_mhandle_t) == 4 && sizeof(exs_ahandle_t) == sizeof(void *));
IS(offsetof(exs_event_t, type) == 0 && offsetof(exs_event_t, fd) == 4 && offsetof(exs_event_t, ahandle) == 8);
IS(offsetof(exs_event_t, error) == 16 && offsetof(exs_event_t, flags) == 20 && offsetof(exs_event_t, u) == 24);
IS(sizeof(exs_event_t) == 160);
IS(offsetof(exs_evt_xfer_t, buf) == 0 && offsetof(exs_evt_xfer_t, len) == 8);
IS(offsetof(exs_evt_xfer_t, message_len) == 16 && offsetof(exs_evt_xfer_t, is_end) == 24);
IS(offsetof(exs_evt_accept_t, fd) == 0 && offsetof(exs_evt_accept_t, peer) == 8);
IS(offsetof(exs_evt_poll_t, revents) == 0 && sizeof(exs_evt_poll_t) == 2);
IS(offsetof(exs_acceptaddr_t, addr) == 0 && offsetof(exs_acceptaddr_t, len) == 8 && sizeof(exs_acceptaddr_t) == 16);
IS(offsetof(exs_iovec_t, iov_base) == 0 && offsetof(exs_iovec_t, iov_len) == 8);
IS(offsetof(exs_iovec_t, iov_mhandle) == 16 && sizeof(exs_iovec_t) == 24);
IS(offsetof(exs_fdvec_t, fd) == 0 && offsetof(exs_fdvec_t, offset) == 8 && offsetof(exs_fdvec_t, len) == 16);
IS(sizeof(exs_fdvec_t) == 24 && offsetof(exs_xferfile_t, u) == 8 && sizeof(exs_xferfile_t) == 32);
IS(offsetof(exs_msghdr_t, msg_name) == 0 && offsetof(exs_msghdr_t, msg_namelen) == 8);
IS(offsetof(exs_msghdr_t, msg_iov) == 16 && offsetof(exs_msghdr_t, msg_iovlen) == 24);
IS(offsetof(exs_msghdr_t, msg_control) == 32 && offsetof(exs_msghdr_t, msg_controllen) == 40);
IS(offsetof(exs_msghdr_t, msg_flags) == 48);

int main(void) {
    exs_mhandle_t none = EXS_MHANDLE_INVALID, unregistered = EXS_MHANDLE_UNREGISTERED;
    exs_ahandle_t all_ones = (exs_ahandle_t)-1;
    if (exs_init(EXS_VERSION1) != 0 || none == unregistered || all_ones != -1) return 1;
    puts(exs_strevent(EXS_EVT_SENDMSG));
    return 0;
}
