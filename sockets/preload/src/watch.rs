//! Looks after what far ends have under way, so that no octet waits for a lane or a daemon that does not come back.
//!
//! Octets in a ring to another host are the daemon's to carry. Its heartbeat stands in the link. An end that has octets under
//! way and sees no heartbeat for five seconds goes back to TCP by itself, behind a record. There is no thread of ours: the
//! program's own waits look.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use weft_sockets::end::FAR;
use weft_sockets::{Outbound, Reason, Sink};

use crate::ends::{self, Stream};
use crate::pulse::{self, PATIENCE};
use crate::section::Section;
use crate::trace::trace;
use crate::{anchor, backlog, channel, port, wake};

/// There is a far end from now on.
pub(crate) fn begin() {
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// Looks at all far ends of this process, if that is due.
#[inline]
pub(crate) fn look() {
    if IS_WANTED.load(Ordering::Relaxed) {
        look_if_due();
    }
}

/// Returns how many nanoseconds a thread may sleep until it has to [look](look) again.
#[inline]
pub(crate) fn left() -> u64 {
    if IS_WANTED.load(Ordering::Relaxed) { u64::from(pause()) * MILLISECOND } else { u64::MAX }
}

/// Returns the milliseconds from the last look to the next one.
fn pause() -> u32 {
    match STATE.load(Ordering::Relaxed) {
        OWING => 10,
        QUIET if !IS_MISSED.load(Ordering::Relaxed) => u32::MAX,
        _ => PAUSE,
    }
}

#[cold]
fn look_if_due() {
    let (now, last) = (ends::milliseconds(), LAST.load(Ordering::Relaxed));
    let is_due = now.wrapping_sub(last) >= pause().min(PAUSE);
    // Of several threads one looks.
    if !is_due || LAST.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        IS_MISSED.store(true, Ordering::Relaxed);
        return;
    }
    IS_MISSED.store(false, Ordering::Relaxed);
    let far = ends::all().filter(|(_, stream)| stream.end.has(FAR));
    let state = far.map(|(descriptor, stream)| look_at(descriptor, &stream, now)).max();
    STATE.store(state.unwrap_or(QUIET), Ordering::Relaxed);
}

/// An end has something to send by the kernel's socket, which that does not take now.
pub(crate) fn owe() {
    STATE.store(OWING, Ordering::Relaxed);
}

/// Looks at an end. Returns what it has to send.
pub(crate) fn look_at(descriptor: c_int, stream: &Stream, now: u32) -> u32 {
    backlog::obey(descriptor, stream);
    let Some(outbound) = channel::outbound(stream) else { return QUIET };
    if outbound.sink() == Sink::Tcp {
        return if backlog::owes(&outbound) { OWING } else { QUIET };
    }
    if outbound.unread() == Ok(0) {
        pulse::forget(stream);
        return QUIET;
    }
    let silence = pulse::silence(stream, now);
    if silence >= if port::has_daemon() { PATIENCE } else { GRACE } {
        // A stream that has ended stays where it is: the kernel takes nothing behind its end.
        return if depart(descriptor, stream, &outbound) { OWING } else { QUIET };
    }
    // A daemon that sleeps has to show that it is alive.
    wake::tell_reader(stream, &outbound);
    UNDER_WAY
}

/// Takes a direction back to TCP whose daemon does not carry it any more. Returns false if it stays.
fn depart(descriptor: c_int, stream: &Stream, outbound: &Outbound<'_>) -> bool {
    let Some(section) = Section::of_outbound(stream, outbound) else { return false };
    let departed = outbound.depart();
    if departed == Ok(true) {
        stream.end.stay(Reason::Lane);
        let _is_out = backlog::send(descriptor, stream, outbound);
        trace!("{descriptor}: sends by TCP again, its daemon is silent");
    }
    section.leave();
    if departed.is_err() {
        anchor::break_off(descriptor, stream);
    }
    departed == Ok(true)
}

static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// When the last look was, in milliseconds.
static LAST: AtomicU32 = AtomicU32::new(0);
/// A wait has begun since the last look. Its program may have sent something before it.
static IS_MISSED: AtomicBool = AtomicBool::new(false);
/// What the last look has found, of all ends that of the largest number.
static STATE: AtomicU32 = AtomicU32::new(QUIET);
/// No end has anything to send.
pub(crate) const QUIET: u32 = 0;
/// A daemon carries octets of some end.
pub(crate) const UNDER_WAY: u32 = 1;
/// An end has to send by the kernel's socket what that did not take at once.
const OWING: u32 = 2;
/// The time between two looks, in milliseconds.
const PAUSE: u32 = 500;
/// How long a daemon that is dead may be silent, in milliseconds. Another one asks for the way back at once.
const GRACE: u32 = 1000;
/// In nanoseconds.
const MILLISECOND: u64 = 1_000_000;
