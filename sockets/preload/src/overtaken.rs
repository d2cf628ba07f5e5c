//! What the kernel's socket tells of a [far](weft_sockets::end::FAR) end before its link does.
//!
//! Between hosts the octets of a ring take another way than the kernel's stream. So the end of that stream may come before
//! the last octets of the ring, and octets by TCP may come before the word that a leg by TCP has begun. Such news count once
//! the link has told the end of the stream, a reset, or that leg. If it tells nothing for a while, they count as they are.

use core::ffi::{c_int, c_short};
use core::sync::atomic::Ordering;

use libc::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLRDHUP, POLLRDNORM};
use weft_sockets::Carrier;
use weft_sockets::end::FAR;

use crate::ends::{self, Stream};
use crate::record::{self, Sifted};
use crate::{anchor, calls, channel};

/// Returns those of the kernel's news that count now. They are bits of `poll`.
#[inline]
pub(crate) fn counted(stream: &Stream, descriptor: c_int, news: c_short) -> c_short {
    if hides(stream, descriptor, news) { news & !HIDDEN } else { news }
}

/// As [`counted`], with the bits of `epoll`, which are the same.
#[inline]
pub(crate) fn counted_events(stream: &Stream, descriptor: c_int, events: u32) -> u32 {
    let [low, high, ..] = events.to_le_bytes();
    if hides(stream, descriptor, c_short::from_le_bytes([low, high])) {
        events & !u32::from(HIDDEN.cast_unsigned())
    } else {
        events
    }
}

/// True if the kernel's news are an end of the stream, or octets, that the reader must not see yet.
#[inline]
pub(crate) fn hides(stream: &Stream, descriptor: c_int, news: c_short) -> bool {
    stream.end.has(FAR) && hides_from_far(stream, descriptor, news)
}

/// As [`hides`], of what the kernel's socket tells now.
#[inline]
pub(crate) fn hides_now(stream: &Stream, descriptor: c_int) -> bool {
    stream.end.has(FAR) && hides_from_far(stream, descriptor, anchor::news(descriptor))
}

#[cold]
fn hides_from_far(stream: &Stream, descriptor: c_int, news: c_short) -> bool {
    match record::sift(descriptor, stream, news) {
        Sifted::Same => {}
        Sifted::Nothing => return true,
        Sifted::Broken => return false,
    }
    let leg = stream.end.inbound.leg();
    let is_ring = leg.carrier != Carrier::Tcp;
    let is_end = news & (POLLRDHUP | POLLHUP) != 0;
    let is_ahead = is_end || is_ring && news & (POLLIN | POLLRDNORM) != 0;
    if news & (POLLERR | POLLNVAL) != 0 || !is_ahead || !is_early(stream) {
        return false;
    }
    // A sender that has gone back to TCP stays there. Before the first ring, the octets of TCP come first.
    let may_be_ring = || channel::inbound(stream).is_some_and(|inbound| inbound.may_miss_ring());
    is_ring || may_be_ring() && calls::queued(descriptor, libc::FIONREAD) == Ok(0)
}

/// True if the kernel's word that the other end is done with the connection, which it has just told, does not count yet.
pub(crate) fn is_early(stream: &Stream) -> bool {
    if !stream.end.has(FAR) {
        return false;
    }
    let now = ends::milliseconds().max(1);
    let _told_before =
        stream.end.inbound.early.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    left(stream).is_some()
}

/// Returns the nanoseconds until earlier news of the kernel's count. `None`: there are none that do not count.
#[inline]
pub(crate) fn left(stream: &Stream) -> Option<u64> {
    match stream.end.inbound.early.load(Ordering::Relaxed) {
        0 => None,
        since => left_since(stream, since),
    }
}

#[cold]
fn left_since(stream: &Stream, since: u32) -> Option<u64> {
    let left = PATIENCE.checked_sub(ends::milliseconds().wrapping_sub(since)).filter(|left| *left > 0)?;
    (!is_told(stream)).then_some(u64::from(left) * MILLISECOND)
}

/// True if the kernel's socket is at its end, and the link has not told of one for too long: octets may be lost.
pub(crate) fn is_late(stream: &Stream) -> bool {
    stream.end.has(FAR) && stream.end.inbound.early.load(Ordering::Relaxed) != 0 && !is_told(stream)
}

/// True if the link tells of a reset that this host's kernel does not know: the daemons have ended the connection, or the
/// kernel's word of the other end is still on its way.
pub(crate) fn is_broken(stream: &Stream, descriptor: c_int) -> bool {
    stream.end.has(FAR)
        && channel::inbound(stream).is_some_and(|inbound| inbound.is_reset() && inbound.end().is_none())
        && anchor::news(descriptor) & (POLLERR | POLLHUP | POLLRDHUP) == 0
}

/// True if the link tells that the other end is done with the connection, or with the ring, or if it tells nothing more behind
/// a record.
fn is_told(stream: &Stream) -> bool {
    channel::offered_inbound(stream).is_none_or(|inbound| {
        let is_done = inbound.is_end_expected() || inbound.is_reset() || inbound.is_closed();
        is_done || inbound.is_before_tcp() == Ok(true)
    })
}

/// The news of an end of the stream.
const HIDDEN: c_short = POLLIN | POLLRDNORM | POLLRDHUP | POLLHUP;
/// How long the link may take behind the kernel's socket, in milliseconds.
const PATIENCE: u32 = 2000;
/// In nanoseconds.
const MILLISECOND: u64 = 1_000_000;

#[cfg(test)]
#[path = "overtaken_tests.rs"]
pub(crate) mod tests;
