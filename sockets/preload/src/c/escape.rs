//! `syscall()`: calls by number go the way of the functions that they stand for.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_long, c_uint};

use weft_sockets::Reason;

use super::{data, life, options, process, rights, rings};
use crate::boundary::answer;
use crate::life::opened;
use crate::real::{self, Arguments};
use crate::rights::retire;

hooks! {
    fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
        let arguments = [a, b, c, d, e, f];
        // SAFETY: the program's own call.
        unsafe {
            move_octets(number, arguments)
                .or_else(|| change_descriptors(number, arguments))
                .or_else(|| change_process(number, arguments))
                .unwrap_or_else(|| answer(real::call(number, arguments)) as c_long)
        }
    }
}

/// Takes the calls of the data family. Returns `None` for others.
///
/// # Safety
/// As the call itself.
unsafe fn move_octets(number: c_long, arguments: Arguments) -> Option<c_long> {
    let [a, b, c, d, e, f] = arguments;
    let descriptor = int(a);
    // SAFETY: as the caller promises.
    let result = unsafe {
        match number {
            libc::SYS_read => data::read(descriptor, b as _, c),
            libc::SYS_readv => data::readv(descriptor, b as _, int(c)),
            libc::SYS_preadv2 => data::preadv2(descriptor, b as _, int(c), d as _, int(f)),
            libc::SYS_recvfrom => data::recvfrom(descriptor, b as _, c, int(d), e as _, f as _),
            libc::SYS_recvmsg => data::recvmsg(descriptor, b as _, int(c)),
            libc::SYS_recvmmsg => data::recvmmsg(descriptor, b as _, unsigned(c), int(d), e as _) as isize,
            libc::SYS_write => data::write(descriptor, b as _, c),
            libc::SYS_writev => data::writev(descriptor, b as _, int(c)),
            libc::SYS_pwritev2 => data::pwritev2(descriptor, b as _, int(c), d as _, int(f)),
            libc::SYS_sendto => data::sendto(descriptor, b as _, c, int(d), e as _, unsigned(f)),
            libc::SYS_sendmsg => data::sendmsg(descriptor, b as _, int(c)),
            libc::SYS_sendmmsg => data::sendmmsg(descriptor, b as _, unsigned(c), int(d)) as isize,
            libc::SYS_sendfile => data::sendfile(descriptor, int(b), c as _, d),
            libc::SYS_splice => data::splice(descriptor, b as _, int(c), d as _, e, unsigned(f)),
            _ => return None,
        }
    };
    Some(result as c_long)
}

/// Takes the calls that make, close and change descriptors. Returns `None` for others.
///
/// # Safety
/// As the call itself.
unsafe fn change_descriptors(number: c_long, arguments: Arguments) -> Option<c_long> {
    let [a, b, c, d, e, _] = arguments;
    let descriptor = int(a);
    // SAFETY: as the caller promises.
    let result = unsafe {
        match number {
            libc::SYS_socket => life::socket(int(a), int(b), int(c)),
            libc::SYS_socketpair => life::socketpair(int(a), int(b), int(c), d as _),
            libc::SYS_connect => life::connect(descriptor, b as _, unsigned(c)),
            libc::SYS_accept => life::accept(descriptor, b as _, c as _),
            libc::SYS_accept4 => life::accept4(descriptor, b as _, c as _, int(d)),
            libc::SYS_close => life::close(descriptor),
            libc::SYS_close_range => life::close_range(unsigned(a), unsigned(b), int(c)),
            libc::SYS_dup => life::dup(descriptor),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => life::dup2(descriptor, int(b)),
            libc::SYS_dup3 => life::dup3(descriptor, int(b), int(c)),
            // The library's own function asks for an owner in another way.
            libc::SYS_fcntl if int(b) != libc::F_GETOWN => life::fcntl(descriptor, int(b), c as _),
            libc::SYS_ioctl => life::ioctl(descriptor, b as _, c as _),
            libc::SYS_setsockopt => options::setsockopt(descriptor, int(b), int(c), d as _, unsigned(e)),
            libc::SYS_getsockopt => options::getsockopt(descriptor, int(b), int(c), d as _, e as _),
            libc::SYS_pipe2 => life::pipe2(a as _, int(b)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_pipe => life::pipe(a as _),
            libc::SYS_eventfd2 | libc::SYS_timerfd_create | libc::SYS_memfd_create | libc::SYS_openat => {
                opened(real::call(number, arguments))
            }
            _ => return None,
        }
    };
    Some(c_long::from(result))
}

/// Takes the calls that copy the process, or change its rights. Returns `None` for others.
///
/// # Safety
/// As the call itself.
unsafe fn change_process(number: c_long, arguments: Arguments) -> Option<c_long> {
    let [flags, stack, c, d, e, _] = arguments;
    match number {
        // SAFETY: as the caller promises.
        libc::SYS_prctl => return Some(c_long::from(unsafe { rights::prctl(int(flags), stack, c, d, e) })),
        libc::SYS_seccomp if flags <= libc::SECCOMP_SET_MODE_FILTER as usize => retire(Reason::Seccomp),
        libc::SYS_io_uring_setup if !rings::are_forbidden() => retire(Reason::Evidence),
        _ => {}
    }
    let is_copy = match number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork => true,
        libc::SYS_clone => stack == 0 && int(flags) & libc::CLONE_VM == 0,
        _ => false,
    };
    // SAFETY: as the caller promises.
    is_copy.then(|| answer(unsafe { process::fork_by_number(number, arguments) }) as c_long)
}

/// The kernel takes the low half of an `int`'s register.
const fn int(argument: usize) -> c_int {
    argument as c_int
}

/// As [`int`].
const fn unsigned(argument: usize) -> c_uint {
    argument as c_uint
}
