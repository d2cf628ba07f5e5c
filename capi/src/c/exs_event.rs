//! Extended Sockets: takes events out of queues. Here octets and addresses reach the program's memory.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::{null_mut, with_exposed_provenance_mut};

use rustix::io::Errno;
use weft_exs::{Mode, Outcome as Moving, Ready};

use super::boundary::{Outcome, read, read_optional, write};
use super::fork::process;
use super::sets::duration;
use super::trace::args;
use crate::abi;
use crate::cm::storage;
use crate::exs::{Detail, Event, Kind, Lent, Moved, Peer, Places, Socket};

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_qdequeue(
    queue: c_int,
    events: *mut abi::ExsEvent,
    count: c_int,
    timeout: *mut libc::timeval,
) -> c_int {
    args![queue, count].number(|| {
        let queue = process().exs.queue(queue)?;
        // SAFETY: null, or a time of the program's.
        let timeout = unsafe { read_optional(timeout) }.map(duration).transpose()?;
        if count == 0 {
            return Ok(0);
        }
        if events.is_null() {
            return Err(Errno::FAULT);
        }
        let at_most = count.unsigned_abs() as usize;
        let taken = queue.take(if count < 0 { at_most } else { 1 }, at_most, timeout)?;
        let number = c_int::try_from(taken.len()).map_err(|_| Errno::OVERFLOW)?;
        for (index, event) in taken.into_iter().enumerate() {
            // SAFETY: the program's places for as many events. The memory of an operation is as it was when the
            // operation was started, until its event is taken.
            unsafe { write(events.wrapping_add(index), tell(event)) }?;
        }
        Ok(number)
    })
}

/// Returns what the program sees of an event.
///
/// # Safety
/// The memory of its operation is still there.
unsafe fn tell(event: Event) -> abi::ExsEvent {
    let Event { kind, socket, handle, error, detail } = event;
    let mut told = abi::ExsEvent {
        kind: kind.number(),
        fd: socket,
        ahandle: handle,
        error,
        flags: 0,
        u: abi::ExsDetail { xfer: NO_TRANSFER },
    };
    match detail {
        Detail::None => {}
        Detail::Poll(ready) => told.u = abi::ExsDetail { poll: abi::ExsPolled { revents: revents(ready) } },
        Detail::Transfer { moved: Moved { outcome, in_place }, places, lent } => {
            told.flags = flags(&outcome);
            // SAFETY: as the caller says.
            let mut xfer = unsafe { transferred(kind, &outcome, &places, lent) };
            if let Some(message) = in_place {
                told.flags |= abi::EXS_IN_PLACE;
                xfer.buf = process().exs.keep(socket, message).cast_mut().cast();
            }
            told.u = abi::ExsDetail { xfer };
        }
        Detail::Accept { peer, room } => {
            if let Some(peer) = peer {
                // SAFETY: as the caller says.
                match unsafe { accepted(peer, room) } {
                    Ok(accept) => told.u = abi::ExsDetail { accept },
                    Err(errno) => told.error = errno.raw_os_error(),
                }
            }
        }
    }
    told
}

/// Hands the octets of a receive over, if they are not there already.
///
/// # Safety
/// The memory of the operation is still there, and nobody else accesses it.
unsafe fn transferred(kind: Kind, outcome: &Moving, places: &Places, lent: Lent) -> abi::ExsTransfer {
    let len = outcome.octets as usize;
    if let Lent::Copy(buf) = lent {
        let is_to_copy = !matches!(outcome.mode, Mode::InPlace { .. });
        if is_to_copy && matches!(kind, Kind::Receive | Kind::ReceiveMessage) {
            let mut left = buf.get(..len).unwrap_or_default();
            for &(address, room) in &places.0 {
                let (now, later) = left.split_at(room.min(left.len()));
                let to: *mut u8 = with_exposed_provenance_mut(address);
                // SAFETY: as the caller says, and there is room for as many octets.
                unsafe { now.as_ptr().copy_to_nonoverlapping(to, now.len()) };
                left = later;
            }
        }
        process().exs.recycle(buf);
    }
    let first = places.0.first().map_or(0, |&(address, _)| address);
    abi::ExsTransfer {
        buf: with_exposed_provenance_mut::<c_void>(first),
        len,
        message_len: outcome.message_len as usize,
        is_end: (outcome.mode == Mode::End).into(),
    }
}

/// Makes a socket of a connection.
///
/// # Safety
/// `room` is 0, or the program's place for an address is there.
unsafe fn accepted(peer: Peer, room: usize) -> Outcome<abi::ExsAccepted> {
    let Some([own, theirs]) = peer.addresses() else { return Err(Errno::CONNABORTED) };
    let socket = Socket::around(peer, own.is_ipv6())?;
    let (storage, len) = storage(theirs);
    if room != 0 {
        let room: *mut abi::ExsAcceptAddr = with_exposed_provenance_mut(room);
        // SAFETY: as the caller says; the storage is longer than an address.
        unsafe {
            let place = read(room)?;
            if !place.addr.is_null() {
                storage.0.as_ptr().copy_to_nonoverlapping(place.addr.cast(), place.len.min(len) as usize);
            }
            write(room, abi::ExsAcceptAddr { addr: place.addr, len })?;
        }
    }
    Ok(abi::ExsAccepted { fd: process().exs.add_socket(&socket), peer: storage })
}

const fn flags(outcome: &Moving) -> c_int {
    let truncated = if outcome.is_truncated() { libc::MSG_TRUNC } else { 0 };
    truncated | if matches!(outcome.mode, Mode::Read | Mode::Direct) { abi::EXS_DIRECT } else { 0 }
}

/// Returns what poll(2) would tell.
const fn revents(ready: Ready) -> i16 {
    (if ready.readable { libc::POLLIN } else { 0 })
        | (if ready.writable { libc::POLLOUT } else { 0 })
        | (if ready.ended { libc::POLLHUP } else { 0 })
}

const NO_TRANSFER: abi::ExsTransfer = abi::ExsTransfer { buf: null_mut(), len: 0, message_len: 0, is_end: 0 };
