//! The clock of timestamps, and protection against wrapped sequence numbers.

use crate::{Micros, Seq, Timestamps};

/// The timestamps of one connection (RFC 7323 sections 4 and 5).
///
/// Ticks are milliseconds. Linux drops all segments of a peer with finer ticks after it was idle for 36 minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimestampClock {
    /// Is added to the time, so that the peer learns nothing of the machine's clock.
    offset: u32,
    /// TS.Recent, and when it was taken.
    recent: Option<(u32, Micros)>,
}

impl TimestampClock {
    pub(crate) const fn new(offset: u32) -> Self {
        Self { offset, recent: None }
    }

    /// Returns the option for a segment that goes now.
    pub(crate) fn stamp(&self, now: Micros) -> Timestamps {
        let echo = self.recent.map_or(0, |(value, _)| value);
        Timestamps { value: self.value(now), echo }
    }

    /// Returns TSval of now.
    pub(crate) const fn value(&self, now: Micros) -> u32 {
        ticks(now).wrapping_add(self.offset)
    }

    /// Returns when the peer's echo was sent, in ticks of the clock of `now`.
    pub(crate) const fn sent_at(&self, echo: u32) -> u32 {
        echo.wrapping_sub(self.offset)
    }

    /// Returns the time since an echo was sent, if that is less than a minute.
    pub(crate) fn age(&self, echo: u32, now: Micros) -> Option<Micros> {
        let millis = ticks(now).wrapping_sub(self.sent_at(echo));
        (millis < 60_000).then(|| Micros::from_millis(millis.into()))
    }

    /// RFC 7323 section 5.3, R1: whether a segment is not older than TS.Recent, which is void after 24 days.
    pub(crate) fn is_fresh(&self, value: u32, now: Micros) -> bool {
        self.recent.is_none_or(|(recent, taken_at)| {
            !is_before(value, recent) || now.since(taken_at) > Micros::from_secs(24 * 24 * 3600)
        })
    }

    /// RFC 7323 section 4.3 (2): takes TSval of a segment at or before the last ACK that was sent. The caller has checked
    /// that it is fresh.
    pub(crate) fn take(&mut self, value: u32, seq: Seq, last_ack: Seq, now: Micros) {
        if !last_ack.is_before(seq) {
            self.recent = Some((value, now));
        }
    }

    /// Takes TSval of a SYN.
    pub(crate) const fn start(&mut self, value: u32, now: Micros) {
        self.recent = Some((value, now));
    }

    /// Returns TS.Recent.
    pub(crate) fn recent(&self) -> u32 {
        self.recent.map_or(0, |(value, _)| value)
    }
}

/// Returns the time in ticks of timestamps.
#[expect(clippy::cast_possible_truncation, reason = "ticks wrap around")]
pub(crate) const fn ticks(now: Micros) -> u32 {
    (now.0 / 1000) as u32
}

/// Whether a timestamp is older than another one (RFC 7323 section 5.2).
pub(crate) const fn is_before(value: u32, other: u32) -> bool {
    Seq(value).is_before(Seq(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;

    // Covers 7323-5.5-1.
    #[test]
    fn old_timestamps_are_refused_until_ts_recent_is_void() {
        let mut clock = TimestampClock::new(7);
        assert!(clock.is_fresh(0, Micros(0)));
        clock.take(u32::MAX, Seq(9), Seq(10), Micros(0));
        assert!(clock.is_fresh(u32::MAX, Micros(0)) && clock.is_fresh(5, Micros(0)), "numbers wrap");
        assert!(!clock.is_fresh(u32::MAX - 1, Micros::from_secs(24 * DAY)));
        assert!(clock.is_fresh(u32::MAX - 1, Micros::from_secs(24 * DAY + 1)));
        clock.take(77, Seq(11), Seq(10), Micros(0));
        assert_eq!(clock.recent(), u32::MAX, "the segment is beyond the last ACK");
        clock.take(77, Seq(10), Seq(10), Micros(0));
        assert_eq!(clock.recent(), 77);
    }

    // Covers 7323-5.4-1, 7323-5.4-2.
    #[test]
    fn echoes_tell_the_age_of_a_segment() {
        let mut clock = TimestampClock::new(u32::MAX);
        clock.start(3, Micros(0));
        let stamp = clock.stamp(Micros::from_millis(1000));
        assert_eq!(stamp, Timestamps { value: 999, echo: 3 });
        assert_eq!(clock.sent_at(stamp.value), 1000);
        assert_eq!(clock.age(stamp.value, Micros::from_millis(1020)), Some(Micros::from_millis(20)));
        assert_eq!(
            clock.age(stamp.value + 1, Micros::from_millis(1000)),
            None,
            "an echo of what was not sent"
        );
    }
}
