//! When an ACK goes.

use crate::{Micros, Seq};

/// Decides when received octets are acknowledged (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelayedAck {
    /// How long an ACK may wait.
    delay: Micros,
    due: Due,
    /// Last.ACK.sent.
    last: Seq,
    /// The peer's segment: the longest payload up to now, at least what a peer without options sends, or its MSS if that
    /// is less, and at most the MSS that it was told.
    segment: u16,
    mss: u16,
    /// ACKs that go besides the next one.
    more: u8,
    /// When octets came last.
    heard_at: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    No,
    By(Micros),
    Now,
}

impl DelayedAck {
    pub(crate) const fn new(next: Seq, mss: u16, delay: Micros, now: Micros) -> Self {
        let delay = if delay.0 > LONGEST.0 { LONGEST } else { delay };
        Self { delay, due: Due::No, last: next, segment: mss, mss, more: 0, heard_at: now }
    }

    pub(crate) const fn synchronize(&mut self, next: Seq, now: Micros) {
        (self.last, self.heard_at, self.due) = (next, now, Due::No);
    }

    /// Returns the last ACK that was sent.
    pub(crate) const fn last(&self) -> Seq {
        self.last
    }

    /// Notes the MSS that both sides have agreed on. Short messages say nothing of the peer's segments.
    pub(crate) fn established(&mut self, mss: u16) {
        self.segment = mss.min(DEFAULT_MSS);
    }

    /// Returns the length of the peer's segments.
    pub(crate) const fn segment(&self) -> u32 {
        self.segment as u32
    }

    /// Notes octets that came in order, up to `next`. Two segments' octets are acknowledged without delay (SHLD-19 in
    /// octets, as merged segments count as what they were), and so is the end of a burst after silence.
    pub(crate) fn arrived(&mut self, len: u32, next: Seq, is_pushed: bool, now: Micros) {
        self.segment = self.segment.max(u16::try_from(len).unwrap_or(u16::MAX).min(self.mss));
        let is_first = is_pushed && now.since(self.heard_at) >= SILENCE;
        self.heard_at = now;
        if is_first || next.since(self.last) >= 2 * self.segment() {
            self.due = Due::Now;
        } else if self.due == Due::No {
            self.due = Due::By(now + self.delay);
        }
    }

    /// Has an ACK go at once.
    pub(crate) const fn at_once(&mut self) {
        self.due = Due::Now;
    }

    /// Has an ACK go at once, and one more if another one is due already: a sender without SACK counts them
    /// (RFC 5681 section 3.2).
    pub(crate) const fn one_more(&mut self) {
        if matches!(self.due, Due::Now) {
            self.more = self.more.saturating_add(1);
        }
        self.due = Due::Now;
    }

    /// Notes that a segment acknowledges `next`. It has told everything, or an ACK is still due.
    pub(crate) const fn sent(&mut self, next: Seq, has_told: bool) {
        self.last = next;
        if has_told {
            self.due = if self.more > 0 { Due::Now } else { Due::No };
            self.more = self.more.saturating_sub(1);
        }
    }

    /// Whether an ACK has to go now.
    pub(crate) fn is_due(&self, now: Micros) -> bool {
        match self.due {
            Due::No => false,
            Due::By(deadline) => deadline <= now,
            Due::Now => true,
        }
    }

    /// Returns when an ACK has to go, if one waits. 0 is at once.
    pub(crate) const fn next_timeout(&self) -> Option<Micros> {
        match self.due {
            Due::No => None,
            Due::By(deadline) => Some(deadline),
            Due::Now => Some(Micros(0)),
        }
    }
}

/// The delay is less than half a second (RFC 9293 section 3.8.6.3, MUST-40).
const LONGEST: Micros = Micros::from_millis(499);
/// A peer that was silent for so long may have a congestion window of few segments, which delayed ACKs would slow down.
const SILENCE: Micros = Micros::from_millis(200);
/// The MSS of a peer that sends no option (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;
