//! Calls that move octets. While a direction is TCP they are the kernel's, and their octets are counted.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

use weft_sockets::end::{MORE, STUCK};
use weft_sockets::{Gate, Reason};

use crate::call::Call;
use crate::ends::{self, Stream};
use crate::first::{self, First, Side};
use crate::{anchor, drain, upgrade};

/// Runs a receive of the kernel's on a descriptor, and counts what it took. `flags` are those of `recv`. `ours` runs
/// instead if the direction is in this library's hands. `see` shows the first octets of the connection.
#[inline]
pub(crate) fn receive(
    descriptor: c_int,
    flags: c_int,
    kernel: impl FnOnce() -> isize,
    ours: impl FnOnce(&Call) -> isize,
    see: impl FnOnce(First),
) -> isize {
    receive_counted(descriptor, flags, kernel, ours, (|result| result, see))
}

/// As [`receive`], for a call whose octets follow from its result by `octets`.
#[inline]
pub(crate) fn receive_counted(
    descriptor: c_int,
    flags: c_int,
    kernel: impl FnOnce() -> isize,
    ours: impl FnOnce(&Call) -> isize,
    (octets, see): (impl FnOnce(isize) -> isize, impl FnOnce(First)),
) -> isize {
    let Some(stream) = ends::stream(descriptor) else { return kernel() };
    let is_beside = flags & (libc::MSG_OOB | libc::MSG_ERRQUEUE) != 0;
    let is_alone = stream.is_alone();
    let gate = Gate::new(&stream.end.inbound.inside, is_alone);
    if !gate.enter() {
        drain::obey_for(&stream);
        return if is_beside { kernel() } else { ours(&Call { descriptor, stream, flags }) };
    }
    let position = &stream.end.inbound.consumed;
    let result = kernel();
    if !stream.is_current() {
        return result;
    }
    let is_moved = result > 0 && !is_beside && flags & libc::MSG_PEEK == 0;
    if is_moved {
        let octets = octets(result).unsigned_abs();
        let at = add(&stream, position, octets, is_alone);
        // With `MSG_TRUNC` the kernel drops them.
        if at < first::LEN
            && flags & libc::MSG_TRUNC == 0
            && let Some(first) = First::new(&stream, Side::Received, at, octets)
        {
            see(first);
        }
    }
    gate.leave();
    if is_moved {
        upgrade::moved(&stream, descriptor);
        drain::obey();
    }
    if result < 0 { anchor::answer_behind_break(&stream, result) } else { result }
}

/// Runs a send of the kernel's on a descriptor, and counts what it took. `ours` runs instead if the direction is in this
/// library's hands. `see` shows the first octets of the connection.
#[inline]
pub(crate) fn send(
    descriptor: c_int,
    flags: c_int,
    kernel: impl FnOnce() -> isize,
    ours: impl FnOnce(&Call) -> isize,
    see: impl FnOnce(First),
) -> isize {
    send_counted(descriptor, flags, kernel, ours, (|result| result, see))
}

/// As [`send`], for a call whose octets follow from its result by `octets`.
#[inline]
pub(crate) fn send_counted(
    descriptor: c_int,
    flags: c_int,
    kernel: impl FnOnce() -> isize,
    ours: impl FnOnce(&Call) -> isize,
    (octets, see): (impl FnOnce(isize) -> isize, impl FnOnce(First)),
) -> isize {
    let Some(stream) = ends::stream(descriptor) else { return kernel() };
    let is_alone = stream.is_alone();
    let gate = Gate::new(&stream.end.outbound.inside, is_alone);
    if !gate.enter() {
        drain::obey_for(&stream);
        return ours(&Call { descriptor, stream, flags });
    }
    if flags & libc::MSG_OOB != 0 {
        stream.end.stay(Reason::Urgent);
        // The reader may take an urgent octet out of turn: its count would never come to the ring's start.
        stream.end.outbound.flags.fetch_or(STUCK, Ordering::Relaxed);
    }
    let position = &stream.end.outbound.written;
    let result = kernel();
    if !stream.is_current() {
        return result;
    }
    if result > 0 {
        note_more(&stream, flags);
        let octets = octets(result).unsigned_abs();
        let at = add(&stream, position, octets, is_alone);
        if at < first::LEN
            && let Some(first) = First::new(&stream, Side::Written, at, octets)
        {
            see(first);
        }
    }
    gate.leave();
    if result > 0 {
        upgrade::moved(&stream, descriptor);
        drain::obey();
    }
    result
}

/// Notes whether the kernel holds octets back for more.
#[inline]
fn note_more(stream: &Stream, flags: c_int) {
    let (word, is_more) = (&stream.end.outbound.flags, flags & libc::MSG_MORE != 0);
    if (word.load(Ordering::Relaxed) & MORE != 0) != is_more {
        word.fetch_xor(MORE, Ordering::Relaxed);
    }
}

/// Counts octets of a direction, and the call. Returns the position of the first of them.
#[inline]
fn add(stream: &Stream, position: &AtomicU64, octets: usize, is_alone: bool) -> u64 {
    let (calls, octets) = (&stream.end.identity.calls, octets as u64);
    if is_alone {
        let at = position.load(Ordering::Relaxed);
        position.store(at + octets, Ordering::Relaxed);
        calls.store(calls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        at
    } else {
        calls.fetch_add(1, Ordering::Relaxed);
        position.fetch_add(octets, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;
    use crate::{family, table};

    #[test]
    fn a_call_that_outlives_its_end_leaves_the_next_one_in_its_place_alone() {
        let _turn = family::turn();
        table::open();
        family::opened();
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        let descriptor = socket.as_raw_fd();
        for is_send in [false, true] {
            ends::enter_stream(descriptor, false);
            let before = ends::known(descriptor).expect("an end");
            // Another thread closes the socket meanwhile, and opens the next one.
            let reopen = || {
                ends::enter_stream(descriptor, false);
                7
            };
            let moved = if is_send {
                send(descriptor, 0, reopen, |_| -1, |_| ())
            } else {
                receive(descriptor, 0, reopen, |_| -1, |_| ())
            };
            assert_eq!(moved, 7);
            let Stream { handle, end } = ends::known(descriptor).expect("an end");
            assert!(handle.slot == before.handle.slot && handle != before.handle);
            for (inside, position) in
                [(&end.inbound.inside, &end.inbound.consumed), (&end.outbound.inside, &end.outbound.written)]
            {
                assert_eq!((inside.load(Ordering::Relaxed), position.load(Ordering::Relaxed)), (0, 0));
            }
        }
        ends::forget(descriptor);
    }
}
