//! Extended Sockets: the functions of POSIX that are the same without waiting.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use super::exs::{
    exs_bind, exs_fcntl, exs_getpeername, exs_getsockname, exs_getsockopt, exs_listen, exs_setsockopt,
    exs_socket,
};

#[unsafe(no_mangle)]
extern "C" fn exs_sync_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    exs_socket(domain, kind, protocol)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_bind(
    number: c_int,
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> c_int {
    // SAFETY: as `exs_bind` wants it.
    unsafe { exs_bind(number, address, len) }
}

#[unsafe(no_mangle)]
extern "C" fn exs_sync_listen(number: c_int, backlog: c_int) -> c_int {
    exs_listen(number, backlog)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_getsockname(
    number: c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: as `exs_getsockname` wants it.
    unsafe { exs_getsockname(number, address, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_getpeername(
    number: c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: as `exs_getpeername` wants it.
    unsafe { exs_getpeername(number, address, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_getsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: as `exs_getsockopt` wants it.
    unsafe { exs_getsockopt(number, level, name, value, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_setsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: libc::socklen_t,
) -> c_int {
    // SAFETY: as `exs_setsockopt` wants it.
    unsafe { exs_setsockopt(number, level, name, value, len) }
}

/// Variadic in C, as `exs_fcntl`.
#[unsafe(no_mangle)]
extern "C" fn exs_sync_fcntl(number: c_int, command: c_int, argument: c_int) -> c_int {
    exs_fcntl(number, command, argument)
}
