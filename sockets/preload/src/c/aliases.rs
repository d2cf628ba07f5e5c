//! The C library's second names of hooked functions, for other libraries and for programs with 64-bit offsets.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{iovec, mmsghdr, mode_t, off_t, pid_t, size_t, sockaddr, socklen_t, ssize_t};

use super::{data, life, process};

/// Exports a function under a second name.
macro_rules! aliases {
    ($($alias:ident = $module:ident :: $name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)+) => {
        hooks! {
            $(fn $alias($($argument: $kind),*) -> $answer {
                // SAFETY: as in the program's call.
                unsafe { $module::$name($($argument),*) }
            })+
        }
    };
}

aliases! {
    __read = data::read(descriptor: c_int, buffer: *mut c_void, len: size_t) -> ssize_t;
    __recv = data::recv(descriptor: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    __write = data::write(descriptor: c_int, buffer: *const c_void, len: size_t) -> ssize_t;
    preadv64v2 = data::preadv2(from: c_int, pieces: *const iovec, count: c_int, place: off_t, flags: c_int) -> ssize_t;
    pwritev64v2 = data::pwritev2(to: c_int, pieces: *const iovec, count: c_int, place: off_t, flags: c_int) -> ssize_t;
    __send = data::send(descriptor: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    __sendmmsg = data::sendmmsg(descriptor: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    __socket = life::socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    __connect = life::connect(descriptor: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    __close = life::close(descriptor: c_int) -> c_int;
    __dup2 = life::dup2(descriptor: c_int, to: c_int) -> c_int;
    __fcntl = life::fcntl(descriptor: c_int, command: c_int, argument: c_long) -> c_int;
    __pipe = life::pipe(pair: *mut c_int) -> c_int;
    __open = life::open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    __open64 = life::open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    __fork = process::fork() -> pid_t;
}
