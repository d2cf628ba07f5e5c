//! Extended Sockets: the functions of POSIX. The buffers are the program's, and lent during a call.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::{Errno, pread};

use super::boundary::{Outcome, lent, lent_mut, read, read_optional, write};
use super::exs::{address_of, register, socket};
use super::exs_io::allow;
use super::fork::process;
use super::rsocket::tell;
use super::trace::args;
use crate::exs::{Receiving, Socket};

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_accept(
    number: c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    args![number].number(|| {
        let listener = socket(number)?;
        let peer = listener.accept_now(listener.may_wait(0)?)?;
        let socket = Socket::around(peer, listener.kind().is_v6)?;
        let theirs = socket.peer_addr().map_err(|_| Errno::CONNABORTED)?;
        if !address.is_null() && !len.is_null() {
            // SAFETY: the program's places for an address and its length.
            unsafe { tell(theirs, address, len) }?;
        }
        Ok(process().exs.add_socket(&socket))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_connect(
    number: c_int,
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> c_int {
    args![number].done(|| {
        let socket = socket(number)?;
        // SAFETY: an address of the program's.
        let peer = unsafe { address_of(address, len) }?;
        socket.connect_now(process().exs_context()?, peer, socket.may_wait(0)?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_send(number: c_int, buf: *const c_void, len: usize, flags: c_int) -> isize {
    let part = libc::iovec { iov_base: buf.cast_mut(), iov_len: len };
    // SAFETY: the program's buffer, which it does not change until the call returns.
    args![number, buf, len, flags].size(|| unsafe { send(number, &raw const part, 1, flags) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_recv(number: c_int, buf: *mut c_void, len: usize, flags: c_int) -> isize {
    let part = libc::iovec { iov_base: buf, iov_len: len };
    // SAFETY: the program's buffer, which is its own until the call returns.
    args![number, buf, len, flags].size(|| Ok(unsafe { receive(number, &raw const part, 1, flags) }?.0))
}

/// A socket has its peer already.
#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_sendto(
    number: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    address: *const libc::sockaddr,
    address_len: libc::socklen_t,
) -> isize {
    if !address.is_null() || address_len != 0 {
        return args![number, len, flags].size(|| {
            socket(number)?;
            Err(Errno::ISCONN)
        });
    }
    // SAFETY: as `exs_sync_send` wants it.
    unsafe { exs_sync_send(number, buf, len, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_recvfrom(
    number: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    address: *mut libc::sockaddr,
    address_len: *mut libc::socklen_t,
) -> isize {
    // SAFETY: as `exs_sync_recv` wants it.
    let received = unsafe { exs_sync_recv(number, buf, len, flags) };
    if received > 0 && !address.is_null() && !address_len.is_null() {
        let peer = socket(number).and_then(|socket| socket.peer_addr());
        // SAFETY: the program's places for an address and its length. The octets are received whatever these are.
        let _told = peer.and_then(|peer| unsafe { tell(peer, address, address_len) });
    }
    received
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_sendmsg(number: c_int, message: *const libc::msghdr, flags: c_int) -> isize {
    args![number, flags].size(|| {
        // SAFETY: a message of the program's, whose parts are where it says.
        unsafe {
            let told = read(message).map_err(|_| Errno::FAULT)?;
            check(&told)?;
            send(number, told.msg_iov, told.msg_iovlen, flags)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_recvmsg(number: c_int, message: *mut libc::msghdr, flags: c_int) -> isize {
    args![number, flags].size(|| {
        // SAFETY: a message of the program's, whose parts are where it says.
        unsafe {
            let mut told = read(message).map_err(|_| Errno::FAULT)?;
            let (received, is_truncated) = receive(number, told.msg_iov, told.msg_iovlen, flags)?;
            told.msg_namelen = 0;
            told.msg_controllen = 0;
            told.msg_flags = if is_truncated { libc::MSG_TRUNC } else { 0 };
            write(message, told)?;
            Ok(received)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_read(number: c_int, buf: *mut c_void, len: usize) -> isize {
    // SAFETY: as `exs_sync_recv` wants it.
    unsafe { exs_sync_recv(number, buf, len, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_write(number: c_int, buf: *const c_void, len: usize) -> isize {
    // SAFETY: as `exs_sync_send` wants it.
    unsafe { exs_sync_send(number, buf, len, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_readv(number: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    args![number, count].size(|| {
        let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
        // SAFETY: parts of the program's.
        Ok(unsafe { receive(number, parts, count, 0) }?.0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_writev(number: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    args![number, count].size(|| {
        let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
        // SAFETY: parts of the program's.
        unsafe { send(number, parts, count, 0) }
    })
}

/// As sendfile(2), with the socket first. Without an offset the file's own position moves.
#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_sendfile(
    number: c_int,
    file: c_int,
    offset: *mut libc::off_t,
    len: usize,
) -> isize {
    args![number, file, len].size(|| {
        let socket = socket(number)?;
        if file < 0 {
            return Err(Errno::BADF);
        }
        // SAFETY: a descriptor of the program's, of which the system says whether it is one.
        let fd = unsafe { BorrowedFd::borrow_raw(file) };
        // SAFETY: null, or the program's offset.
        let given = unsafe { read_optional(offset) };
        let start = match given {
            Some(offset) => u64::try_from(offset).map_err(|_| Errno::INVAL)?,
            None => rustix::fs::seek(fd, rustix::fs::SeekFrom::Current(0))?,
        };
        let mut octets = vec![0; FILE_CHUNK.min(len)];
        let mut sent = 0;
        while sent < len {
            let wanted = octets.len().min(len - sent);
            let room = octets.get_mut(..wanted).unwrap_or_default();
            let there = pread(fd, room, start + sent as u64)?;
            let part = IoSlice::new(octets.get(..there).unwrap_or_default());
            if there == 0 {
                break;
            }
            match socket.send_now(process().exs_context()?, &[part], socket.may_wait(0)?) {
                Ok(octets) => sent += octets,
                Err(errno) if sent == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        let end = start + sent as u64;
        match given {
            // SAFETY: the program's offset.
            Some(_) => unsafe { write(offset, libc::off_t::try_from(end).map_err(|_| Errno::OVERFLOW)?) }?,
            None => drop(rustix::fs::seek(fd, rustix::fs::SeekFrom::Start(end))?),
        }
        Ok(sent)
    })
}

#[unsafe(no_mangle)]
extern "C" fn exs_sync_shutdown(number: c_int, how: c_int) -> c_int {
    args![number, how].done(|| socket(number)?.shut_down(how, None))
}

/// Blocks until what was sent is with the peer, and closes in the background.
#[unsafe(no_mangle)]
extern "C" fn exs_sync_close(number: c_int) -> c_int {
    args![number].done(|| {
        socket(number)?.drain();
        process().close_exs_socket(number, None)
    })
}

/// # Safety
/// `parts` is null or points to `count` parts, whose octets do not change until the call returns.
pub(super) unsafe fn send(
    number: c_int,
    parts: *const libc::iovec,
    count: usize,
    flags: c_int,
) -> Outcome<usize> {
    let socket = socket(number)?;
    allow(flags, SEND_FLAGS)?;
    let may_wait = socket.may_wait(flags)?;
    let mut lent_parts = Vec::new();
    for index in 0..checked(count)? {
        // SAFETY: as the caller says.
        unsafe {
            let part = read(parts.wrapping_add(index)).map_err(|_| Errno::FAULT)?;
            if count == 1 && may_wait && part.iov_len >= LONG && u32::try_from(part.iov_len).is_ok() {
                // The registration ends with the call, as the send does.
                let memory = Arc::new(register(part.iov_base, part.iov_len)?);
                return socket.send_memory(&memory, 0..part.iov_len);
            }
            lent_parts.push(IoSlice::new(lent(part.iov_base.cast(), part.iov_len)?));
        }
    }
    socket.send_now(process().exs_context()?, &lent_parts, may_wait)
}

/// # Safety
/// `parts` is null or points to `count` parts, whose octets are the program's own until the call returns.
pub(super) unsafe fn receive(
    number: c_int,
    parts: *const libc::iovec,
    count: usize,
    flags: c_int,
) -> Outcome<(usize, bool)> {
    let socket = socket(number)?;
    let how = receiving(&socket, flags)?;
    let mut lent_parts = Vec::new();
    for index in 0..checked(count)? {
        // SAFETY: as the caller says.
        unsafe {
            let part = read(parts.wrapping_add(index)).map_err(|_| Errno::FAULT)?;
            let is_long = part.iov_len >= LONG && u32::try_from(part.iov_len).is_ok();
            if count == 1 && how.may_wait && !how.peeks && is_long {
                // The registration ends with the call, as the receive does.
                let memory = Arc::new(register(part.iov_base, part.iov_len)?);
                return socket.receive_memory(&memory, 0..part.iov_len, how.waits_for_all);
            }
            lent_parts.push(IoSliceMut::new(lent_mut(part.iov_base.cast(), part.iov_len)?));
        }
    }
    socket.receive_now(process().exs_context()?, &mut lent_parts, how)
}

pub(super) fn receiving(socket: &Socket, flags: c_int) -> Outcome<Receiving> {
    allow(flags, SEND_FLAGS | libc::MSG_WAITALL | libc::MSG_PEEK)?;
    Ok(Receiving {
        may_wait: socket.may_wait(flags)?,
        waits_for_all: flags & libc::MSG_WAITALL != 0,
        peeks: flags & libc::MSG_PEEK != 0,
    })
}

/// Checks the number of parts, as the system does.
const fn checked(count: usize) -> Outcome<usize> {
    if count > MAX_PARTS { Err(Errno::INVAL) } else { Ok(count) }
}

/// There is no ancillary data, and a socket has its peer.
const fn check(message: &libc::msghdr) -> Outcome<()> {
    if !message.msg_control.is_null() && message.msg_controllen > 0 {
        return Err(Errno::OPNOTSUPP);
    }
    if !message.msg_name.is_null() && message.msg_namelen > 0 { Err(Errno::ISCONN) } else { Ok(()) }
}

pub(super) const SEND_FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
/// `IOV_MAX`
const MAX_PARTS: usize = 1024;
/// From so many octets on, registering the program's buffer costs less than copying it.
const LONG: usize = 256 << 10;
const FILE_CHUNK: usize = 64 << 10;
