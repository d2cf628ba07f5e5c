//! Whether the daemon that carries a far end's octets is alive, by the heartbeat in the link.

use core::sync::atomic::Ordering;

use crate::ends::{self, Stream};
use crate::links;

/// Notes that an end has octets under way. Returns for how many milliseconds its daemon has been silent since then.
pub(crate) fn silence(stream: &Stream, now: u32) -> u32 {
    let (beat, word) = (beat(stream), stream.end.counts.pulse.load(Ordering::Relaxed));
    let [since, seen] = [word, word >> 32].map(low_half);
    if word == 0 || seen != beat {
        note(stream, beat, now);
        return 0;
    }
    now.wrapping_sub(since)
}

/// Notes that an end has no octets under way.
pub(crate) fn forget(stream: &Stream) {
    stream.end.counts.pulse.store(0, Ordering::Relaxed);
}

/// The other end has lost its lane, or does without. If this end's daemon shows no heartbeat from now on, it has been silent
/// for long enough.
pub(crate) fn suspect(stream: &Stream) {
    note(stream, beat(stream), ends::milliseconds().wrapping_sub(PATIENCE));
}

fn note(stream: &Stream, beat: u32, since: u32) {
    let word = u64::from(beat) << 32 | u64::from(since.max(1));
    stream.end.counts.pulse.store(word, Ordering::Relaxed);
}

/// The low half of the heartbeat.
fn beat(stream: &Stream) -> u32 {
    let link = links::of(ends::place(stream.end).0, stream.handle.slot);
    link.map_or(0, |link| low_half(link.header().heartbeat.load(Ordering::Relaxed)))
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
pub(crate) const fn low_half(number: u64) -> u32 {
    number as u32
}

/// How long a daemon may be silent while octets are under way, in milliseconds.
pub(crate) const PATIENCE: u32 = 5000;
