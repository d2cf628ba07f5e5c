//! The way back to TCP at the daemon's word: its operator drains this process, or another daemon takes its place.

use core::sync::atomic::Ordering;

use weft_sockets::Reason;
use weft_sockets::end::DRAIN;

use crate::clock::{self, Limit};
use crate::ends::Stream;
use crate::{ends, family, guest, lower, section};

/// Takes the connections back to TCP that the daemon has marked, if it has told this process so.
#[inline]
pub(crate) fn obey() {
    if is_told() {
        drain();
    }
}

/// As [`obey`], before a call on a connection in a ring, which need not hear of the daemon's word otherwise.
#[inline]
pub(crate) fn obey_for(stream: &Stream) {
    if stream.end.has(DRAIN) {
        drain();
    }
}

#[inline]
fn is_told() -> bool {
    let word = || Some(&family::family()?.slab.header().members.get(usize::from(family::member()?))?.drain);
    word().is_some_and(|word| word.load(Ordering::Relaxed) != 0)
}

/// Waits until the other ends have come along, for a while in all. An end that has not come by then stays in its ring.
#[cold]
fn drain() {
    // A signal handler cannot change what its thread is in the middle of: that thread drains at its next call.
    if guest::is_guest() || section::is_inside() {
        return;
    }
    let Some((family, member)) = family::family().zip(family::member()) else { return };
    if let Some(words) = family.slab.header().members.get(usize::from(member)) {
        // Before the look at the marks: of those that come behind it the process is told again.
        words.drain.swap(0, Ordering::SeqCst);
    }
    let until = Limit::behind(Some(clock::span(PATIENCE)));
    for (descriptor, stream) in ends::all() {
        if stream.end.has(DRAIN) {
            lower::try_lower(descriptor, &stream, Reason::Drained, until);
            stream.end.identity.flags.fetch_and(!DRAIN, Ordering::Release);
        }
    }
}

/// How long the other ends have, in nanoseconds.
const PATIENCE: u64 = 5_000_000_000;
