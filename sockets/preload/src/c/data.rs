//! Calls that move octets.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint, c_void};

use libc::{iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

use crate::boundary::{answer, answer_int};
use crate::data;
use crate::real::{kernel, point};

hooks! {
    fn read(descriptor: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: the program's own call.
        answer(data::receive(descriptor, 0, || unsafe { point!(SYS_read, descriptor, buffer, len) }))
    }

    fn readv(descriptor: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        answer(data::receive(descriptor, 0, || unsafe { point!(SYS_readv, descriptor, pieces, count) }))
    }

    fn preadv2(descriptor: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_preadv2, descriptor, pieces, count, offset, 0, flags) };
        answer(if offset == -1 { data::receive(descriptor, 0, kernel) } else { kernel() })
    }

    fn recv(descriptor: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_recvfrom, descriptor, buffer, len, flags, 0, 0) };
        answer(data::receive(descriptor, flags, kernel))
    }

    fn recvfrom(
        descriptor: c_int,
        buffer: *mut c_void,
        len: size_t,
        flags: c_int,
        address: *mut sockaddr,
        address_len: *mut socklen_t,
    ) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel =
            || unsafe { point!(SYS_recvfrom, descriptor, buffer, len, flags, address, address_len) };
        answer(data::receive(descriptor, flags, kernel))
    }

    fn recvmsg(descriptor: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_recvmsg, descriptor, message, flags) };
        answer(data::receive(descriptor, flags, kernel))
    }

    fn recvmmsg(
        descriptor: c_int,
        messages: *mut mmsghdr,
        count: c_uint,
        flags: c_int,
        timeout: *mut timespec,
    ) -> c_int {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_recvmmsg, descriptor, messages, count, flags, timeout) };
        // SAFETY: the kernel has filled so many.
        let octets = |filled| unsafe { octets(messages, filled) };
        answer_int(data::receive_counted(descriptor, flags, kernel, octets))
    }

    fn write(descriptor: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
        // SAFETY: the program's own call.
        answer(data::send(descriptor, 0, || unsafe { point!(SYS_write, descriptor, buffer, len) }))
    }

    fn writev(descriptor: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        answer(data::send(descriptor, 0, || unsafe { point!(SYS_writev, descriptor, pieces, count) }))
    }

    fn pwritev2(descriptor: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_pwritev2, descriptor, pieces, count, offset, 0, flags) };
        answer(if offset == -1 { data::send(descriptor, 0, kernel) } else { kernel() })
    }

    fn send(descriptor: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_sendto, descriptor, buffer, len, flags, 0, 0) };
        answer(data::send(descriptor, flags, kernel))
    }

    fn sendto(
        descriptor: c_int,
        buffer: *const c_void,
        len: size_t,
        flags: c_int,
        address: *const sockaddr,
        address_len: socklen_t,
    ) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_sendto, descriptor, buffer, len, flags, address, address_len) };
        answer(data::send(descriptor, flags, kernel))
    }

    fn sendmsg(descriptor: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_sendmsg, descriptor, message, flags) };
        answer(data::send(descriptor, flags, kernel))
    }

    fn sendmmsg(descriptor: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_sendmmsg, descriptor, messages, count, flags) };
        // SAFETY: the kernel has sent so many.
        let octets = |sent| unsafe { octets(messages, sent) };
        answer_int(data::send_counted(descriptor, flags, kernel, octets))
    }

    fn sendfile(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        // SAFETY: the program's own call.
        answer(data::send(out, 0, || unsafe { kernel!(SYS_sendfile, out, input, offset, count) }))
    }

    fn sendfile64(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        // SAFETY: as in the program's call.
        unsafe { sendfile(out, input, offset, count) }
    }

    fn splice(
        input: c_int,
        input_offset: *mut i64,
        out: c_int,
        out_offset: *mut i64,
        len: size_t,
        flags: c_uint,
    ) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_splice, input, input_offset, out, out_offset, len, flags) };
        answer(data::receive(input, 0, || data::send(out, 0, kernel)))
    }

    fn __read_chk(descriptor: c_int, buffer: *mut c_void, len: size_t, room: size_t) -> ssize_t {
        check(len, room);
        // SAFETY: as in the program's call.
        unsafe { read(descriptor, buffer, len) }
    }

    fn __recv_chk(descriptor: c_int, buffer: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t {
        check(len, room);
        // SAFETY: as in the program's call.
        unsafe { recv(descriptor, buffer, len, flags) }
    }

    #[expect(clippy::too_many_arguments, reason = "the C library's function has as many")]
    fn __recvfrom_chk(
        descriptor: c_int,
        buffer: *mut c_void,
        len: size_t,
        room: size_t,
        flags: c_int,
        address: *mut sockaddr,
        address_len: *mut socklen_t,
    ) -> ssize_t {
        check(len, room);
        // SAFETY: as in the program's call.
        unsafe { recvfrom(descriptor, buffer, len, flags, address, address_len) }
    }
}

/// Returns the octets of so many messages.
///
/// # Safety
/// The kernel has moved the first `count` messages.
unsafe fn octets(messages: *const mmsghdr, count: isize) -> isize {
    // SAFETY: as the caller promises.
    let moved = (0..count).map(|at| unsafe { (*messages.offset(at)).msg_len } as isize);
    moved.sum()
}

/// Ends the process, as the C library does, if a call could write behind its buffer.
fn check(len: size_t, room: size_t) {
    unsafe extern "C" {
        fn __chk_fail() -> !;
    }
    if len > room {
        // SAFETY: it has no arguments.
        unsafe { __chk_fail() }
    }
}
