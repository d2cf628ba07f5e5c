//! rsocket: sends and receives. The buffers are the program's, and lent during a call.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};

use rustix::io::Errno;
use weft_rnic::{Access, Region};

use super::boundary::{Outcome, lent, lent_mut, read, write};
use super::memory::probe;
use super::rsocket::{socket, tell};
use super::trace::args;
use crate::rsocket::Flags;

#[unsafe(no_mangle)]
unsafe extern "C" fn rrecv(number: c_int, buffer: *mut c_void, len: usize, flags: c_int) -> isize {
    args![number, buffer, len, flags].size(|| {
        let socket = socket(number)?;
        // SAFETY: the program's buffer, which is its own until the call returns.
        let parts = &mut [IoSliceMut::new(unsafe { lent_mut(buffer.cast(), len) }?)];
        socket.receive(parts, Flags::of(flags)?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rrecvfrom(
    number: c_int,
    buffer: *mut c_void,
    len: usize,
    flags: c_int,
    address: *mut libc::sockaddr,
    address_len: *mut libc::socklen_t,
) -> isize {
    // SAFETY: as `rrecv` wants it.
    let received = unsafe { rrecv(number, buffer, len, flags) };
    if received > 0 && !address.is_null() {
        let peer = socket(number).and_then(|socket| socket.peer_addr());
        // SAFETY: the program's places for an address and its length. The octets are received whether or not there are
        // such places.
        let _no_place = peer.and_then(|peer| unsafe { tell(peer, address, address_len) });
    }
    received
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rrecvmsg(number: c_int, message: *mut libc::msghdr, flags: c_int) -> isize {
    args![number, flags].size(|| {
        // SAFETY: a message of the program's.
        let mut told = unsafe { read(message) }?;
        check_message(&told)?;
        // SAFETY: its parts are where it says.
        let received = unsafe { receive(number, told.msg_iov, told.msg_iovlen, flags) }?;
        told.msg_flags = 0;
        // SAFETY: as above.
        unsafe { write(message, told) }?;
        Ok(received)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rread(number: c_int, buffer: *mut c_void, count: usize) -> isize {
    // SAFETY: as `rrecv` wants it.
    unsafe { rrecv(number, buffer, count, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rreadv(number: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: parts of the program's.
    args![number, count]
        .size(|| unsafe { receive(number, parts, usize::try_from(count).map_err(|_| Errno::INVAL)?, 0) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rsend(number: c_int, buffer: *const c_void, len: usize, flags: c_int) -> isize {
    args![number, buffer, len, flags].size(|| {
        let socket = socket(number)?;
        // SAFETY: the program's buffer, which it does not change until the call returns.
        let parts = &[IoSlice::new(unsafe { lent(buffer.cast(), len) }?)];
        socket.send(parts, Flags::of(flags)?)
    })
}

/// A stream has its peer already.
#[unsafe(no_mangle)]
unsafe extern "C" fn rsendto(
    number: c_int,
    buffer: *const c_void,
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
    // SAFETY: as `rsend` wants it.
    unsafe { rsend(number, buffer, len, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rsendmsg(number: c_int, message: *const libc::msghdr, flags: c_int) -> isize {
    args![number, flags].size(|| {
        // SAFETY: a message of the program's, whose parts are where it says.
        unsafe {
            let told = read(message)?;
            check_message(&told)?;
            send(number, told.msg_iov, told.msg_iovlen, flags)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rwrite(number: c_int, buffer: *const c_void, count: usize) -> isize {
    // SAFETY: as `rsend` wants it.
    unsafe { rsend(number, buffer, count, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rwritev(number: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: parts of the program's.
    args![number, count]
        .size(|| unsafe { send(number, parts, usize::try_from(count).map_err(|_| Errno::INVAL)?, 0) })
}

/// Returns the offset, or -1 and `errno`. For an offset of -1 the library chooses one.
#[unsafe(no_mangle)]
unsafe extern "C" fn riomap(
    number: c_int,
    buffer: *mut c_void,
    len: usize,
    protection: c_int,
    _flags: c_int,
    offset: libc::off_t,
) -> libc::off_t {
    let mapped = args![number, buffer, len, protection, offset].size(|| {
        let socket = socket(number)?;
        if protection & !libc::PROT_WRITE != 0 {
            return Err(Errno::INVAL);
        }
        socket.stand()?;
        // SAFETY: memory that is mapped stays so until it is unmapped here.
        let region: Region = unsafe { probe(buffer, len, Access::LOCAL_WRITE) }?;
        let offset = if offset == -1 { None } else { Some(offset.cast_unsigned()) };
        let offset = socket.map(region, protection & libc::PROT_WRITE != 0, offset)?;
        usize::try_from(offset).map_err(|_| Errno::INVAL)
    });
    mapped as libc::off_t
}

#[unsafe(no_mangle)]
extern "C" fn riounmap(number: c_int, buffer: *mut c_void, len: usize) -> c_int {
    args![number, buffer, len].done(|| socket(number)?.unmap(buffer.addr() as u64, len))
}

/// Returns how many octets were written, or -1 as a `size_t` and `errno`.
#[unsafe(no_mangle)]
unsafe extern "C" fn riowrite(
    number: c_int,
    buffer: *const c_void,
    count: usize,
    offset: libc::off_t,
    flags: c_int,
) -> usize {
    let written = args![number, buffer, count, offset].size(|| {
        let socket = socket(number)?;
        // SAFETY: the program's buffer, which it does not change until the call returns.
        let octets = unsafe { lent(buffer.cast(), count) }?;
        socket.write_mapped(octets, offset.cast_unsigned(), Flags::of(flags)?)
    });
    written.cast_unsigned()
}

/// # Safety
/// `parts` is null or points to `count` parts, whose octets are the program's own until the call returns.
unsafe fn receive(number: c_int, parts: *const libc::iovec, count: usize, flags: c_int) -> Outcome<usize> {
    let socket = socket(number)?;
    let mut lent_parts = Vec::new();
    for index in 0..checked(count)? {
        // SAFETY: as the caller says.
        unsafe {
            let part = read(parts.wrapping_add(index))?;
            lent_parts.push(IoSliceMut::new(lent_mut(part.iov_base.cast(), part.iov_len)?));
        }
    }
    socket.receive(&mut lent_parts, Flags::of(flags)?)
}

/// # Safety
/// `parts` is null or points to `count` parts, whose octets do not change until the call returns.
unsafe fn send(number: c_int, parts: *const libc::iovec, count: usize, flags: c_int) -> Outcome<usize> {
    let socket = socket(number)?;
    let mut lent_parts = Vec::new();
    for index in 0..checked(count)? {
        // SAFETY: as the caller says.
        unsafe {
            let part = read(parts.wrapping_add(index))?;
            lent_parts.push(IoSlice::new(lent(part.iov_base.cast(), part.iov_len)?));
        }
    }
    socket.send(&lent_parts, Flags::of(flags)?)
}

/// Checks the number of parts, as the system does.
const fn checked(count: usize) -> Outcome<usize> {
    if count > MAX_PARTS { Err(Errno::INVAL) } else { Ok(count) }
}

/// Streams carry no control data.
const fn check_message(message: &libc::msghdr) -> Outcome<()> {
    let has_control = !message.msg_control.is_null() && message.msg_controllen > 0;
    if has_control { Err(Errno::OPNOTSUPP) } else { Ok(()) }
}

/// `IOV_MAX`.
const MAX_PARTS: usize = 1024;
