//! Descriptors come and go.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{mode_t, size_t, sockaddr, socklen_t};

use crate::boundary::{answer, answer_int};
use crate::handover;
use crate::real::{kernel, point};
use crate::{closing, ends};
use crate::{life, queue, upgrade};

hooks! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        // SAFETY: the program's own call.
        let result = unsafe { kernel!(SYS_socket, domain, kind, protocol) };
        life::made(result, domain, kind, protocol);
        answer_int(result)
    }

    fn accept(listener: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the program's own call.
        let result = unsafe { point!(SYS_accept, listener, address, len) };
        life::accepted(listener, result, 0);
        answer_int(result)
    }

    fn accept4(listener: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        // SAFETY: the program's own call.
        let result = unsafe { point!(SYS_accept4, listener, address, len, flags) };
        life::accepted(listener, result, flags);
        answer_int(result)
    }

    fn connect(descriptor: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        // SAFETY: the program's own call.
        let result = unsafe { point!(SYS_connect, descriptor, address, len) };
        // SAFETY: the kernel has read the address.
        if result == 0 && unsafe { (*address).sa_family } == libc::AF_UNSPEC as u16 {
            life::dissolved(descriptor);
        } else if result == 0 {
            return answer_int(upgrade::require(descriptor));
        }
        answer_int(result)
    }

    fn shutdown(descriptor: c_int, how: c_int) -> c_int {
        let is_first = closing::will_shut_down(descriptor, how);
        // SAFETY: the program's own call.
        let result = unsafe { kernel!(SYS_shutdown, descriptor, how) };
        if result == 0 {
            closing::shut_down(descriptor, how);
        } else if is_first {
            closing::sends_on(descriptor);
        }
        answer_int(result)
    }

    fn close(descriptor: c_int) -> c_int {
        closing::close(descriptor);
        // SAFETY: the program's own call.
        answer_int(unsafe { point!(SYS_close, descriptor) })
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        if first <= last && flags.cast_unsigned() & !libc::CLOSE_RANGE_UNSHARE == 0 {
            closing::close_range(first, last);
        }
        // SAFETY: the program's own call.
        answer_int(unsafe { kernel!(SYS_close_range, first, last, flags) })
    }

    fn closefrom(first: c_int) {
        // SAFETY: any numbers may be given.
        unsafe { close_range(first.max(0).cast_unsigned(), c_uint::MAX, 0) };
    }

    fn dup(descriptor: c_int) -> c_int {
        // SAFETY: the program's own call.
        let result = unsafe { kernel!(SYS_dup, descriptor) };
        life::duplicated(descriptor, result);
        answer_int(result)
    }

    fn dup2(descriptor: c_int, to: c_int) -> c_int {
        life::overwrite(descriptor, to);
        // SAFETY: the program's own call.
        #[cfg(target_arch = "x86_64")]
        let result = unsafe { kernel!(SYS_dup2, descriptor, to) };
        // `dup3` refuses equal numbers, of which `dup2` checks that they are open.
        #[cfg(not(target_arch = "x86_64"))]
        let result = match descriptor == to {
            // SAFETY: the program's own descriptor.
            true => unsafe { kernel!(SYS_fcntl, descriptor, libc::F_GETFL) }.min(to as isize),
            // SAFETY: the program's own call.
            false => unsafe { kernel!(SYS_dup3, descriptor, to, 0) },
        };
        life::duplicated(descriptor, result);
        answer_int(result)
    }

    fn dup3(descriptor: c_int, to: c_int, flags: c_int) -> c_int {
        if flags & !libc::O_CLOEXEC == 0 {
            life::overwrite(descriptor, to);
        }
        // SAFETY: the program's own call.
        let result = unsafe { kernel!(SYS_dup3, descriptor, to, flags) };
        life::duplicated(descriptor, result);
        answer_int(result)
    }

    fn fcntl(descriptor: c_int, command: c_int, argument: c_long) -> c_int {
        if command == libc::F_GETOWN {
            return owner(descriptor);
        }
        let result = if matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW) {
            // SAFETY: the program's own call.
            unsafe { point!(SYS_fcntl, descriptor, command, argument) }
        } else {
            // SAFETY: the program's own call.
            unsafe { kernel!(SYS_fcntl, descriptor, command, argument) }
        };
        life::controlled(descriptor, command, argument, result);
        answer_int(result)
    }

    fn fcntl64(descriptor: c_int, command: c_int, argument: c_long) -> c_int {
        // SAFETY: as in the program's call.
        unsafe { fcntl(descriptor, command, argument) }
    }

    fn ioctl(descriptor: c_int, request: libc::c_ulong, argument: *mut c_void) -> c_int {
        // SAFETY: the program's own call.
        let result = unsafe { kernel!(SYS_ioctl, descriptor, request, argument) };
        // SAFETY: the kernel has written a number there.
        let octets = || queue::octets(descriptor, request, || unsafe { *argument.cast() });
        if result == 0 && let Some(octets) = octets() {
            // SAFETY: as above.
            unsafe { *argument.cast() = octets };
        }
        if result == 0 && request == libc::FIONCLEX {
            handover::prepare(descriptor);
        }
        if result == 0 && request == libc::FIONBIO {
            // SAFETY: the kernel has read a number there.
            life::set_nonblocking(descriptor, unsafe { *argument.cast::<c_int>() } != 0);
        }
        answer_int(result)
    }

    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
        // SAFETY: the program's own call.
        let result = unsafe { kernel!(SYS_socketpair, domain, kind, protocol, pair) };
        // SAFETY: the kernel has written two numbers if it says 0.
        unsafe { enter_pair(result, pair) }
    }

    fn pipe(pair: *mut c_int) -> c_int {
        // SAFETY: as in the program's call.
        unsafe { pipe2(pair, 0) }
    }

    fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
        // SAFETY: the program's own call.
        let result = unsafe { kernel!(SYS_pipe2, pair, flags) };
        // SAFETY: the kernel has written two numbers if it says 0.
        unsafe { enter_pair(result, pair) }
    }

    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: as in the program's call.
        unsafe { openat(libc::AT_FDCWD, path, flags, mode) }
    }

    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        let is_making = flags & (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) != 0;
        let mode = if is_making { mode } else { 0 };
        // SAFETY: the program's own call.
        let result = unsafe { point!(SYS_openat, folder, path, flags, mode) };
        life::opened(result)
    }

    fn creat(path: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: the program's own call.
        #[cfg(target_arch = "x86_64")]
        return life::opened(unsafe { point!(SYS_creat, path, mode) });
        // SAFETY: as in the program's call.
        #[cfg(not(target_arch = "x86_64"))]
        unsafe { openat(libc::AT_FDCWD, path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
    }

    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: as in the program's call.
        unsafe { openat(libc::AT_FDCWD, path, flags, mode) }
    }

    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: as in the program's call.
        unsafe { openat(folder, path, flags, mode) }
    }

    fn creat64(path: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: as in the program's call.
        unsafe { creat(path, mode) }
    }

    fn eventfd(value: c_uint, flags: c_int) -> c_int {
        // SAFETY: the program's own call.
        life::opened(unsafe { kernel!(SYS_eventfd2, value, flags) })
    }

    fn timerfd_create(clock: c_int, flags: c_int) -> c_int {
        // SAFETY: the program's own call.
        life::opened(unsafe { kernel!(SYS_timerfd_create, clock, flags) })
    }

    fn signalfd(descriptor: c_int, mask: *const libc::sigset_t, flags: c_int) -> c_int {
        // SAFETY: the program's own call.
        let result = unsafe { kernel!(SYS_signalfd4, descriptor, mask, KERNEL_MASK, flags) };
        if descriptor == -1 { life::opened(result) } else { answer_int(result) }
    }

    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int {
        // SAFETY: the program's own call.
        life::opened(unsafe { kernel!(SYS_memfd_create, name, flags) })
    }
}

/// Returns the process or group that gets a descriptor's signals. Groups are negative numbers, which the plain request
/// would confound with errors.
fn owner(descriptor: c_int) -> c_int {
    let mut owner = [0 as c_int; 2];
    // SAFETY: this request writes two numbers.
    let result = unsafe { kernel!(SYS_fcntl, descriptor, F_GETOWN_EX, owner.as_mut_ptr()) };
    let [kind, number] = owner;
    match result {
        0 if kind == F_OWNER_PGRP => -number,
        0 => number,
        error => answer_int(error),
    }
}

/// Enters the pair that a call has made.
///
/// # Safety
/// If `result` is 0, the kernel has written two numbers.
unsafe fn enter_pair(result: isize, pair: *const c_int) -> c_int {
    if result == 0 {
        for at in 0..2 {
            // SAFETY: as the caller promises.
            ends::enter(unsafe { *pair.add(at) });
        }
    }
    answer(result) as c_int
}

/// Octets of the kernel's set of signals.
const KERNEL_MASK: size_t = 8;
const F_GETOWN_EX: c_int = 16;
const F_OWNER_PGRP: c_int = 2;
