//! Extended Sockets: starts transfers. Their memory is the program's, and theirs until the program takes their events.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_short, c_void};
use core::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::{Errno, pread};
use weft_exs::{Buf, Ready};

use super::boundary::{Outcome, lent, read};
use super::exs::{register, socket};
use super::fork::process;
use super::trace::args;
use crate::abi;
use crate::exs::{Kind, Lent, Memory, Places, SHORT, Socket, Start};

/// Memory for a transfer.
enum Given {
    Memory(Arc<Memory>, Range<usize>),
    /// A buffer of the library, and how many octets of it count.
    Copy(Buf, usize),
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_send(
    number: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    queue: c_int,
    handle: isize,
    memory: c_int,
) -> c_int {
    args![number, len, flags, queue, handle, memory].done(|| {
        let socket = socket(number)?;
        allow(flags, SEND_FLAGS)?;
        socket.peer()?;
        let start = process().start(Kind::Send, queue, handle)?;
        // SAFETY: the program's memory, which is the operation's until its event is taken.
        let given = unsafe { given(buf.cast_mut(), len, memory, true) }?;
        send(&socket, given, start, Places::one(buf.expose_provenance(), len))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_recv(
    number: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    queue: c_int,
    handle: isize,
    memory: c_int,
) -> c_int {
    args![number, len, flags, queue, handle, memory].done(|| {
        let socket = socket(number)?;
        allow(flags, RECEIVE_FLAGS | abi::EXS_IN_PLACE)?;
        socket.peer()?;
        let start = process().start(Kind::Receive, queue, handle)?;
        // SAFETY: the program's memory, which is the operation's until its event is taken.
        let given = unsafe { given(buf, len, memory, false) }?;
        receive(&socket, given, flags, start, Places::one(buf.expose_provenance(), len))
    })
}

#[unsafe(no_mangle)]
extern "C" fn exs_recycle_rcv_buffer(number: c_int, buf: *mut c_void) -> c_int {
    args![number].done(|| {
        socket(number)?;
        if buf.is_null() {
            return Err(Errno::FAULT);
        }
        process().exs.give_back(number, buf.addr())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sendmsg(
    number: c_int,
    message: *const abi::ExsMessage,
    flags: c_int,
    queue: c_int,
    handle: isize,
) -> c_int {
    args![number, flags, queue, handle].done(|| {
        let socket = socket(number)?;
        allow(flags, SEND_FLAGS)?;
        socket.peer()?;
        // SAFETY: the program's message.
        let parts = unsafe { parts(message) }?;
        let start = process().start(Kind::SendMessage, queue, handle)?;
        if let Some(pieces) = registered(&parts)? {
            let shared = pieces.iter().map(|(memory, range)| (memory.shared(), range.clone())).collect();
            let kept = pieces.into_iter().map(|(memory, _)| memory).collect();
            let op = socket.peer()?.send_pieces(shared);
            return socket.follow(op, start, places(&parts), |_| Lent::Pieces(kept));
        }
        // SAFETY: the program's memory, which is the operation's until its event is taken.
        let given = unsafe { given_parts(&parts, true) }?;
        send(&socket, given, start, places(&parts))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_recvmsg(
    number: c_int,
    message: *mut abi::ExsMessage,
    flags: c_int,
    queue: c_int,
    handle: isize,
) -> c_int {
    args![number, flags, queue, handle].done(|| {
        let socket = socket(number)?;
        allow(flags, RECEIVE_FLAGS)?;
        socket.peer()?;
        // SAFETY: the program's message.
        let parts = unsafe { parts(message) }?;
        let start = process().start(Kind::ReceiveMessage, queue, handle)?;
        // SAFETY: the program's memory, which is the operation's until its event is taken.
        let given = unsafe { given_parts(&parts, false) }?;
        receive(&socket, given, flags, start, places(&parts))
    })
}

/// Gathers the parts, and the octets of files, in a buffer, and sends that. A file that is shorter sends what it has.
#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sendfile(
    number: c_int,
    parts: *const abi::ExsFilePart,
    count: c_int,
    flags: c_int,
    queue: c_int,
    handle: isize,
) -> c_int {
    args![number, count, flags, queue, handle].done(|| {
        let socket = socket(number)?;
        allow(flags, SEND_FLAGS)?;
        socket.peer()?;
        let count = usize::try_from(count).ok().filter(|count| (1..=MAX_PARTS).contains(count));
        let mut wanted = Vec::new();
        for index in 0..count.ok_or(Errno::INVAL)? {
            // SAFETY: the program's array has as many.
            wanted.push(unsafe { read(parts.wrapping_add(index)) }.map_err(|_| Errno::FAULT)?);
        }
        let len = |part: &abi::ExsFilePart| match part.kind {
            // SAFETY: the part is what its type says.
            MEMORY => Ok(unsafe { part.u.memory.len }),
            // SAFETY: as above.
            FILE => Ok(unsafe { part.u.file.len }),
            _ => Err(Errno::INVAL),
        };
        let lens: Vec<usize> = wanted.iter().map(len).collect::<Result<_, _>>()?;
        let all = sum(lens.into_iter())?;
        if all > MAX_FILE {
            return Err(Errno::MSGSIZE);
        }
        let start = process().start(Kind::SendFile, queue, handle)?;
        let mut buf = process().exs_context()?.buffer(all.max(1)).map_err(|error| error.errno())?;
        let mut filled = 0;
        for part in &wanted {
            let room = buf.get_mut(filled..).unwrap_or_default();
            // SAFETY: the part is what its type says, and its memory is the operation's.
            filled += unsafe { fill(room, part) }?;
        }
        send(&socket, Given::Copy(buf, filled), start, Places::one(0, 0))
    })
}

#[unsafe(no_mangle)]
extern "C" fn exs_poll(number: c_int, events: c_short, queue: c_int, handle: isize) -> c_int {
    args![number, queue, handle].done(|| {
        let socket = socket(number)?;
        if events & !(libc::POLLIN | libc::POLLOUT) != 0 || events == 0 {
            return Err(Errno::INVAL);
        }
        let wanted = Ready {
            readable: events & libc::POLLIN != 0,
            writable: events & libc::POLLOUT != 0,
            ended: false,
        };
        socket.poll(wanted, process().start(Kind::Poll, queue, handle)?)
    })
}

fn send(socket: &Socket, given: Given, start: Start, places: Places) -> Outcome<()> {
    let peer = socket.peer()?;
    match given {
        Given::Memory(memory, range) => {
            let op = peer.send(memory.shared(), range);
            socket.follow(op, start, places, |_| Lent::Memory(memory))
        }
        Given::Copy(buf, len) => socket.follow(peer.send(buf, 0..len), start, places, Lent::Copy),
    }
}

fn receive(socket: &Socket, given: Given, flags: c_int, start: Start, places: Places) -> Outcome<()> {
    let peer = socket.peer()?;
    let waits_for_all = flags & libc::MSG_WAITALL != 0;
    match given {
        Given::Memory(memory, range) if flags & abi::EXS_IN_PLACE != 0 => {
            let op = peer.receive_in_place(memory.shared(), range)?;
            socket.follow(op, start, places, |_| Lent::Memory(memory))
        }
        Given::Copy(buf, len) if flags & abi::EXS_IN_PLACE != 0 => {
            socket.follow(peer.receive_in_place(buf, 0..len)?, start, places, Lent::Copy)
        }
        Given::Memory(memory, range) => {
            let op = peer.receive(memory.shared(), range, waits_for_all);
            socket.follow(op, start, places, |_| Lent::Memory(memory))
        }
        Given::Copy(buf, len) => {
            let op = peer.receive(buf, 0..len, waits_for_all);
            socket.follow(op, start, places, Lent::Copy)
        }
    }
}

/// Returns the memory for a transfer of octets of the program: registered memory, a copy, or memory that is registered
/// for the transfer.
///
/// # Safety
/// `address` points to `len` octets, or is null. They are the operation's until its event is taken.
unsafe fn given(address: *mut c_void, len: usize, memory: c_int, is_sent: bool) -> Outcome<Given> {
    if u32::try_from(len).is_err() {
        return Err(Errno::MSGSIZE);
    }
    if memory != abi::EXS_UNREGISTERED {
        let memory = process().exs.memory(memory)?;
        let range = memory.place(address.addr(), len).ok_or(Errno::INVAL)?;
        return Ok(Given::Memory(memory, range));
    }
    if address.is_null() && len > 0 {
        return Err(Errno::FAULT);
    }
    if len > SHORT {
        // SAFETY: as the caller says. It is deregistered when the event is taken.
        return Ok(Given::Memory(Arc::new(unsafe { register(address, len) }?), 0..len));
    }
    let mut buf = process().exs.short(process().exs_context()?)?;
    if is_sent {
        // SAFETY: as the caller says.
        let octets = unsafe { lent(address.cast(), len) }?;
        buf.get_mut(..len).ok_or(Errno::MSGSIZE)?.copy_from_slice(octets);
    }
    Ok(Given::Copy(buf, len))
}

/// Returns several pieces of memory, if all of them are registered, and a request can gather as many.
#[expect(clippy::type_complexity, reason = "a piece is memory and a range")]
fn registered(parts: &[abi::ExsIovec]) -> Outcome<Option<Vec<(Arc<Memory>, Range<usize>)>>> {
    let is_registered = parts.iter().all(|part| part.mhandle != abi::EXS_UNREGISTERED);
    if !is_registered || !(2..=GATHERED).contains(&parts.len()) {
        return Ok(None);
    }
    sum(parts.iter().map(|part| part.len))?;
    let piece = |part: &abi::ExsIovec| {
        let memory = process().exs.memory(part.mhandle)?;
        let range = memory.place(part.base.addr(), part.len).ok_or(Errno::INVAL)?;
        Ok((memory, range))
    };
    parts.iter().map(piece).collect::<Outcome<_>>().map(Some)
}

/// As [`given`], for several pieces of memory: of more than one a copy.
///
/// # Safety
/// As [`given`].
unsafe fn given_parts(parts: &[abi::ExsIovec], is_sent: bool) -> Outcome<Given> {
    if let [only] = parts {
        // SAFETY: as the caller says.
        return unsafe { given(only.base, only.len, only.mhandle, is_sent) };
    }
    let all = sum(parts.iter().map(|part| part.len))?;
    let mut buf = process().exs_context()?.buffer(all.max(1)).map_err(|error| error.errno())?;
    let mut filled = 0;
    for part in parts {
        check(part)?;
        if is_sent {
            let room = buf.get_mut(filled..filled + part.len).ok_or(Errno::MSGSIZE)?;
            // SAFETY: as the caller says.
            room.copy_from_slice(unsafe { lent(part.base.cast(), part.len) }?);
        }
        filled += part.len;
    }
    Ok(Given::Copy(buf, all))
}

/// Checks that a piece of memory is where its handle says.
pub(super) fn check(part: &abi::ExsIovec) -> Outcome<()> {
    if part.mhandle != abi::EXS_UNREGISTERED {
        let memory = process().exs.memory(part.mhandle)?;
        memory.place(part.base.addr(), part.len).ok_or(Errno::INVAL)?;
    }
    if part.base.is_null() && part.len > 0 { Err(Errno::FAULT) } else { Ok(()) }
}

/// Reads the pieces of a message.
///
/// # Safety
/// `message` is null, or a message of the program, whose pieces are where it says.
pub(super) unsafe fn parts(message: *const abi::ExsMessage) -> Outcome<Vec<abi::ExsIovec>> {
    // SAFETY: as the caller says.
    let told = unsafe { read(message) }.map_err(|_| Errno::FAULT)?;
    if !told.control.is_null() && told.controllen > 0 {
        return Err(Errno::OPNOTSUPP);
    }
    if !told.name.is_null() && told.namelen > 0 {
        return Err(Errno::ISCONN);
    }
    let count = usize::try_from(told.iovlen).ok().filter(|count| *count <= MAX_PARTS);
    let piece = |index| {
        // SAFETY: as the caller says.
        unsafe { read(told.iov.wrapping_add(index)) }.map_err(|_| Errno::FAULT)
    };
    (0..count.ok_or(Errno::INVAL)?).map(piece).collect()
}

fn places(parts: &[abi::ExsIovec]) -> Places {
    Places(parts.iter().map(|part| (part.base.expose_provenance(), part.len)).collect())
}

/// Copies a part of `exs_sendfile` to a buffer. Returns how many octets it had.
///
/// # Safety
/// The part is what its type says, and its memory is there.
unsafe fn fill(room: &mut [u8], part: &abi::ExsFilePart) -> Outcome<usize> {
    // SAFETY: as the caller says.
    unsafe {
        match part.kind {
            MEMORY => {
                let memory = part.u.memory;
                check(&memory)?;
                let room = room.get_mut(..memory.len).ok_or(Errno::MSGSIZE)?;
                room.copy_from_slice(lent(memory.base.cast(), memory.len)?);
                Ok(memory.len)
            }
            FILE => {
                let file = part.u.file;
                let offset = u64::try_from(file.offset).map_err(|_| Errno::INVAL)?;
                if file.fd < 0 {
                    return Err(Errno::BADF);
                }
                let mut room = room.get_mut(..file.len).ok_or(Errno::MSGSIZE)?;
                let mut filled = 0;
                while !room.is_empty() {
                    let octets = pread(BorrowedFd::borrow_raw(file.fd), &mut *room, offset + filled as u64)?;
                    if octets == 0 {
                        break;
                    }
                    filled += octets;
                    room = room.get_mut(octets..).unwrap_or_default();
                }
                Ok(filled)
            }
            _ => Err(Errno::INVAL),
        }
    }
}

/// # Errors
/// `EMSGSIZE` if that is more than an operation has.
fn sum(mut lens: impl Iterator<Item = usize>) -> Outcome<usize> {
    let all = lens.try_fold(0_usize, usize::checked_add);
    all.filter(|all| u32::try_from(*all).is_ok()).ok_or(Errno::MSGSIZE)
}

/// Streams of iWARP have no urgent data, and nothing looks into a receive before it has ended.
pub(super) const fn allow(flags: c_int, known: c_int) -> Outcome<()> {
    if flags & !known == 0 { Ok(()) } else { Err(Errno::OPNOTSUPP) }
}

const SEND_FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
const RECEIVE_FLAGS: c_int = SEND_FLAGS | libc::MSG_WAITALL;
/// `IOV_MAX`
const MAX_PARTS: usize = 1024;
/// Pieces that a request gathers.
const GATHERED: usize = 31;
/// Octets of a start of `exs_sendfile`.
const MAX_FILE: usize = 1 << 30;
/// `EXS_IOVEC`
const MEMORY: c_int = 1;
/// `EXS_FDVEC`
const FILE: c_int = 2;
