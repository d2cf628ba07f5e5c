//! Calls that move octets: the kernel's while a direction is TCP, whose octets are counted.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

use weft_sockets::{Gate, Reason};

use crate::ends::{self, Stream};

/// Runs a receive of the kernel's on a descriptor, and counts what it took. `flags` are those of `recv`.
#[inline]
pub(crate) fn receive(descriptor: c_int, flags: c_int, kernel: impl FnOnce() -> isize) -> isize {
    receive_counted(descriptor, flags, kernel, |result| result)
}

/// As [`receive`], for a call whose octets follow from its result by `octets`.
#[inline]
pub(crate) fn receive_counted(
    descriptor: c_int,
    flags: c_int,
    kernel: impl FnOnce() -> isize,
    octets: impl FnOnce(isize) -> isize,
) -> isize {
    let Some(stream) = ends::stream(descriptor) else { return kernel() };
    let is_alone = stream.is_alone();
    let gate = Gate::new(&stream.end.inbound.inside, is_alone);
    if !gate.enter() {
        return kernel();
    }
    let result = kernel();
    if result > 0 && flags & (libc::MSG_PEEK | libc::MSG_OOB | libc::MSG_ERRQUEUE) == 0 {
        add(&stream, &stream.end.inbound.consumed, octets(result), is_alone);
    }
    gate.leave();
    result
}

/// Runs a send of the kernel's on a descriptor, and counts what it took.
#[inline]
pub(crate) fn send(descriptor: c_int, flags: c_int, kernel: impl FnOnce() -> isize) -> isize {
    send_counted(descriptor, flags, kernel, |result| result)
}

/// As [`send`], for a call whose octets follow from its result by `octets`.
#[inline]
pub(crate) fn send_counted(
    descriptor: c_int,
    flags: c_int,
    kernel: impl FnOnce() -> isize,
    octets: impl FnOnce(isize) -> isize,
) -> isize {
    let Some(stream) = ends::stream(descriptor) else { return kernel() };
    let is_alone = stream.is_alone();
    let gate = Gate::new(&stream.end.outbound.inside, is_alone);
    if !gate.enter() {
        return kernel();
    }
    let result = kernel();
    if flags & libc::MSG_OOB != 0 {
        stream.end.stay(Reason::Urgent);
    }
    if result > 0 {
        add(&stream, &stream.end.outbound.written, octets(result), is_alone);
    }
    gate.leave();
    result
}

/// Counts octets of a direction, and the call.
#[inline]
fn add(stream: &Stream, position: &AtomicU64, octets: isize, is_alone: bool) {
    let (calls, octets) = (&stream.end.identity.calls, octets.unsigned_abs() as u64);
    if is_alone {
        position.store(position.load(Ordering::Relaxed) + octets, Ordering::Relaxed);
        calls.store(calls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    } else {
        position.fetch_add(octets, Ordering::Relaxed);
        calls.fetch_add(1, Ordering::Relaxed);
    }
}
