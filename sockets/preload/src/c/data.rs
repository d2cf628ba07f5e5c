//! Calls that move octets.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint, c_void};

use libc::{iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

use crate::boundary::{answer, answer_int};
use crate::buffers::Buffers;
use crate::call::Call;
use crate::data;
use crate::first::First;
use crate::handover;
use crate::real::{kernel, point};
use crate::transfer;
use crate::{file, pipe, receive, strict};

hooks! {
    fn read(descriptor: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_read, descriptor, buffer, len) };
        // SAFETY: the program's own buffer.
        let ours = |call: &Call| unsafe { read_pieces(call, &one(buffer, len), 1) };
        // SAFETY: as above.
        answer(data::receive(descriptor, 0, kernel, ours, |first| unsafe { see_one(first, buffer, len) }))
    }

    fn readv(descriptor: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_readv, descriptor, pieces, count) };
        // SAFETY: the program's own buffers.
        let ours = |call: &Call| unsafe { read_pieces(call, pieces, count) };
        // SAFETY: as above.
        answer(data::receive(descriptor, 0, kernel, ours, |first| unsafe { see_pieces(first, pieces, count) }))
    }

    fn preadv2(descriptor: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_preadv2, descriptor, pieces, count, offset, 0, flags) };
        if offset != -1 {
            return answer(kernel());
        }
        // SAFETY: the program's own buffers.
        let ours = |call: &Call| unsafe { read_pieces(call, pieces, count) };
        // SAFETY: as above.
        answer(data::receive(descriptor, 0, kernel, ours, |first| unsafe { see_pieces(first, pieces, count) }))
    }

    fn recv(descriptor: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_recvfrom, descriptor, buffer, len, flags, 0, 0) };
        // SAFETY: the program's own buffer.
        let ours = |call: &Call| unsafe { receive::receive(call, Buffers::new(&[one(buffer, len)])) };
        // SAFETY: as above.
        answer(data::receive(descriptor, flags, kernel, ours, |first| unsafe { see_one(first, buffer, len) }))
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
        // SAFETY: the program's own buffer. A stream names no sender.
        let ours = |call: &Call| unsafe {
            if !address.is_null() && !strict::is_readable(address_len, 1) {
                return BAD_ADDRESS;
            }
            if !address.is_null() && !address_len.is_null() {
                *address_len = 0;
            }
            receive::receive(call, Buffers::new(&[one(buffer, len)]))
        };
        // SAFETY: as above.
        answer(data::receive(descriptor, flags, kernel, ours, |first| unsafe { see_one(first, buffer, len) }))
    }

    fn recvmsg(descriptor: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_recvmsg, descriptor, message, flags) };
        // SAFETY: the program's own message.
        let ours = |call: &Call| unsafe { receive_message(call, message) };
        // SAFETY: as above.
        answer(data::receive(descriptor, flags, kernel, ours, |first| unsafe { see_message(first, message) }))
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
        // SAFETY: the program's own messages.
        let ours = |call: &Call| unsafe { receive_messages(call, messages, count) };
        answer_int(data::receive_counted(descriptor, flags, kernel, ours, (octets, unseen)))
    }

    fn write(descriptor: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_write, descriptor, buffer, len) };
        // SAFETY: the program's own buffer.
        let ours = |call: &Call| unsafe { transfer::send(call, Buffers::new(&[one(buffer, len)])) };
        // SAFETY: as above.
        answer(data::send(descriptor, 0, kernel, ours, |first| unsafe { see_one(first, buffer, len) }))
    }

    fn writev(descriptor: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_writev, descriptor, pieces, count) };
        // SAFETY: the program's own buffers.
        let ours = |call: &Call| unsafe { write_pieces(call, pieces, count) };
        // SAFETY: as above.
        answer(data::send(descriptor, 0, kernel, ours, |first| unsafe { see_pieces(first, pieces, count) }))
    }

    fn pwritev2(descriptor: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_pwritev2, descriptor, pieces, count, offset, 0, flags) };
        if offset != -1 {
            return answer(kernel());
        }
        // SAFETY: the program's own buffers.
        let ours = |call: &Call| unsafe { write_pieces(call, pieces, count) };
        // SAFETY: as above.
        answer(data::send(descriptor, 0, kernel, ours, |first| unsafe { see_pieces(first, pieces, count) }))
    }

    fn send(descriptor: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_sendto, descriptor, buffer, len, flags, 0, 0) };
        // SAFETY: the program's own buffer.
        let ours = |call: &Call| unsafe { transfer::send(call, Buffers::new(&[one(buffer, len)])) };
        // SAFETY: as above.
        answer(data::send(descriptor, flags, kernel, ours, |first| unsafe { see_one(first, buffer, len) }))
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
        // SAFETY: the program's own buffer.
        let ours = |call: &Call| unsafe { transfer::send(call, Buffers::new(&[one(buffer, len)])) };
        // SAFETY: as above.
        answer(data::send(descriptor, flags, kernel, ours, |first| unsafe { see_one(first, buffer, len) }))
    }

    fn sendmsg(descriptor: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the program's own message.
        unsafe { pass_descriptors(message) };
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_sendmsg, descriptor, message, flags) };
        // SAFETY: the program's own message.
        let ours = |call: &Call| unsafe { send_message(call, message) };
        // SAFETY: as above.
        answer(data::send(descriptor, flags, kernel, ours, |first| unsafe { see_message(first, message) }))
    }

    fn sendmmsg(descriptor: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        for at in 0..if messages.is_null() { 0 } else { count as usize } {
            // SAFETY: the program's own messages.
            unsafe { pass_descriptors(&raw const (*messages.add(at)).msg_hdr) };
        }
        // SAFETY: the program's own call.
        let kernel = || unsafe { point!(SYS_sendmmsg, descriptor, messages, count, flags) };
        // SAFETY: the kernel has sent so many.
        let octets = |sent| unsafe { octets(messages, sent) };
        // SAFETY: the program's own messages.
        let ours = |call: &Call| unsafe { send_messages(call, messages, count) };
        answer_int(data::send_counted(descriptor, flags, kernel, ours, (octets, unseen)))
    }

    fn sendfile(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        // SAFETY: the program's own call.
        let kernel = || unsafe { kernel!(SYS_sendfile, out, input, offset, count) };
        // SAFETY: the program's own place of a number.
        let ours = |call: &Call| unsafe { send_file(call, input, offset, count) };
        answer(data::send(out, 0, kernel, ours, unseen))
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
        let send = || data::send(out, 0, kernel, |call| pipe::send(call, input, len, flags), unseen);
        answer(data::receive(input, 0, send, |call| pipe::receive(call, out, len, flags), unseen))
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

/// Returns a buffer as a piece.
fn one(buffer: *const c_void, len: size_t) -> iovec {
    iovec { iov_base: buffer.cast_mut(), iov_len: len }
}

/// Takes the pieces of a call as the kernel does.
///
/// # Safety
/// So many pieces can be read, if they are not too many.
unsafe fn pieces_of<'a>(pieces: *const iovec, count: usize) -> Result<&'a [iovec], isize> {
    let pieces = match count {
        0 => &[],
        1..=MOST_PIECES if !strict::is_readable(pieces, count) => return Err(BAD_ADDRESS),
        // SAFETY: as the caller promises.
        1..=MOST_PIECES => unsafe { core::slice::from_raw_parts(pieces, count) },
        _ => return Err(-(libc::EINVAL as isize)),
    };
    let is_long = pieces.iter().any(|piece| isize::try_from(piece.iov_len).is_err());
    if is_long { Err(-(libc::EINVAL as isize)) } else { Ok(pieces) }
}

/// Reads: without room nothing happens.
///
/// # Safety
/// The pieces can be read, and their memory can be written.
unsafe fn read_pieces(call: &Call, pieces: *const iovec, count: c_int) -> isize {
    // SAFETY: as the caller promises.
    let buffers = unsafe { pieces_of(pieces, count as usize).map(|pieces| Buffers::new(pieces)) };
    buffers.map_or_else(
        |error| error,
        |buffers| if buffers.len() == 0 { 0 } else { receive::receive(call, buffers) },
    )
}

/// Writes pieces: without octets nothing happens.
///
/// # Safety
/// The pieces can be read, and their memory can be.
unsafe fn write_pieces(call: &Call, pieces: *const iovec, count: c_int) -> isize {
    // SAFETY: as the caller promises.
    let buffers = unsafe { pieces_of(pieces, count as usize).map(|pieces| Buffers::new(pieces)) };
    buffers.map_or_else(
        |error| error,
        |buffers| if buffers.len() == 0 { 0 } else { transfer::send(call, buffers) },
    )
}

/// Keeps the first octets of a connection from a buffer through which the kernel has moved them.
///
/// # Safety
/// The buffer can be read as far as the kernel has used it.
unsafe fn see_one(first: First, buffer: *const c_void, len: size_t) {
    // SAFETY: as the caller promises.
    unsafe { see_pieces(first, &one(buffer, len), 1) }
}

/// As [`see_one`], from pieces. The octets that are read are those that the kernel has moved.
///
/// # Safety
/// As for [`see_one`]. So many pieces can be read.
unsafe fn see_pieces(first: First, pieces: *const iovec, count: c_int) {
    // SAFETY: as the caller promises.
    if let Ok(pieces) = unsafe { pieces_of(pieces, count as usize) } {
        // SAFETY: as above.
        first.see(unsafe { Buffers::new(pieces) });
    }
}

/// As [`see_one`], from a message.
///
/// # Safety
/// As for [`see_one`]. The kernel has read the message.
unsafe fn see_message(first: First, message: *const msghdr) {
    // SAFETY: as the caller promises.
    if let Ok(pieces) = unsafe { pieces_of((*message).msg_iov, (*message).msg_iovlen) } {
        // SAFETY: as above.
        first.see(unsafe { Buffers::new(pieces) });
    }
}

/// The octets of a call are not in the program's memory, or in many pieces of it.
fn unseen(_: First) {}

/// Sends from a file: from the place in `offset`, or from where the file is read next.
///
/// # Safety
/// `offset` is null, or can be read and written.
unsafe fn send_file(call: &Call, input: c_int, offset: *mut off_t, count: usize) -> isize {
    if !offset.is_null() && !strict::is_readable(offset, 1) {
        return BAD_ADDRESS;
    }
    // SAFETY: as the caller promises.
    let given = (!offset.is_null()).then(|| unsafe { *offset });
    // SAFETY: this call touches no memory.
    let begin =
        given.map_or_else(|| unsafe { kernel!(SYS_lseek, input, 0, libc::SEEK_CUR) }, |given| given as isize);
    if begin < 0 {
        return -(libc::EINVAL as isize);
    }
    let result = file::send(call, input, begin as u64, count);
    if result > 0 && given.is_some() {
        // SAFETY: as the caller promises.
        unsafe { *offset = (begin + result) as off_t };
    } else if result > 0 {
        // SAFETY: as above.
        unsafe { kernel!(SYS_lseek, input, begin + result, libc::SEEK_SET) };
    }
    result
}

/// Receives a message. That of a stream has neither address nor control data.
///
/// # Safety
/// The message and its pieces can be written.
unsafe fn receive_message(call: &Call, message: *mut msghdr) -> isize {
    if !strict::is_readable(message, 1) {
        return BAD_ADDRESS;
    }
    // SAFETY: as the caller promises.
    unsafe {
        let pieces = match pieces_of((*message).msg_iov, (*message).msg_iovlen) {
            Ok(pieces) => pieces,
            Err(error) => return error,
        };
        let result = receive::receive(call, Buffers::new(pieces));
        if result >= 0 {
            (*message).msg_namelen = 0;
            (*message).msg_controllen = 0;
            (*message).msg_flags = 0;
        }
        result
    }
}

/// Sends a message.
///
/// # Safety
/// The message and its pieces can be read.
unsafe fn send_message(call: &Call, message: *const msghdr) -> isize {
    if !strict::is_readable(message, 1) {
        return BAD_ADDRESS;
    }
    // SAFETY: as the caller promises.
    let pieces = unsafe { pieces_of((*message).msg_iov, (*message).msg_iovlen) };
    // SAFETY: as the caller promises.
    pieces.map_or_else(|error| error, |pieces| transfer::send(call, unsafe { Buffers::new(pieces) }))
}

/// Receives messages until one fails. Those behind the first do not wait if the program says so.
///
/// # Safety
/// As for each message.
unsafe fn receive_messages(call: &Call, messages: *mut mmsghdr, count: c_uint) -> isize {
    let rest = if call.has(libc::MSG_WAITFORONE) { libc::MSG_DONTWAIT } else { 0 };
    let flags = call.flags & !libc::MSG_WAITFORONE;
    for at in 0..count as usize {
        let call = Call { flags: if at > 0 { flags | rest } else { flags }, ..*call };
        // SAFETY: as the caller promises.
        let result = unsafe { receive_message(&call, &raw mut (*messages.add(at)).msg_hdr) };
        if result < 0 {
            return if at > 0 { at as isize } else { result };
        }
        // SAFETY: as the caller promises.
        unsafe { (*messages.add(at)).msg_len = result as c_uint };
    }
    count as isize
}

/// Sends messages until one fails.
///
/// # Safety
/// As for each message.
unsafe fn send_messages(call: &Call, messages: *mut mmsghdr, count: c_uint) -> isize {
    for at in 0..count as usize {
        // SAFETY: as the caller promises.
        let result = unsafe { send_message(call, &raw const (*messages.add(at)).msg_hdr) };
        if result < 0 {
            return if at > 0 { at as isize } else { result };
        }
        // SAFETY: as the caller promises.
        unsafe { (*messages.add(at)).msg_len = result as c_uint };
    }
    count as isize
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

/// The kernel's answer to an address where nothing can be read or written.
const BAD_ADDRESS: isize = -(libc::EFAULT as isize);
/// `UIO_MAXIOV`
const MOST_PIECES: usize = 1024;

/// Readies the connections whose descriptors a message passes to another process.
///
/// # Safety
/// The message is as the program's calls have it.
unsafe fn pass_descriptors(message: *const msghdr) {
    // SAFETY: as the caller promises. The macros of the headers stay inside of the control data.
    unsafe {
        if message.is_null() || !strict::is_readable(message, 1) || (*message).msg_controllen == 0 {
            return;
        }
        if !strict::is_readable((*message).msg_control.cast::<u8>(), (*message).msg_controllen) {
            return;
        }
        let mut part = libc::CMSG_FIRSTHDR(message);
        while !part.is_null() {
            if ((*part).cmsg_level, (*part).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let octets = (*part).cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                for at in 0..octets / size_of::<c_int>() {
                    handover::pass(libc::CMSG_DATA(part).cast::<c_int>().add(at).read_unaligned());
                }
            }
            part = libc::CMSG_NXTHDR(message, part);
        }
    }
}
