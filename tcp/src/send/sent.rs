//! Records of what is in flight.

use crate::{Micros, Seq, Token};

/// Octets in flight that went together, a place of the storage that a sender is lent. 32 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When they went last.
    pub(super) sent_at: Stamp,
    pub(super) seq: Seq,
    pub(super) token: Token,
    /// The record sent again before this one, or the own number. Of records in flight that were sent again only.
    pub(super) prev: Seq,
    /// The record sent again after this one, or the own number. Of a SACKed record: a number up to which all is SACKed.
    pub(super) next: Seq,
    /// How many numbers, a FIN counted.
    pub(super) len: u16,
    /// Where they begin in the payload of the frame.
    pub(super) offset: u16,
    /// The octets of each segment of a super-frame but the last.
    pub(super) segment: u16,
    pub(super) marks: u8,
    /// How often they went, at most 255.
    pub(super) times: u8,
}

/// The peer has them (RFC 2018).
pub(super) const SACKED: u8 = 0x01;
/// They are believed to be lost, and wait to be sent again (RFC 8985's `Segment.lost`).
pub(super) const LOST: u8 = 0x02;
/// In the queue of what was sent again and is in flight.
pub(super) const QUEUED: u8 = 0x04;
/// A FIN, without payload.
pub(super) const FIN: u8 = 0x08;
/// The frame's payload ends with them.
pub(super) const ENDS: u8 = 0x10;
/// Sent beyond the peer's window, to probe it.
pub(super) const PROBE: u8 = 0x20;

impl Sent {
    /// A place of the storage that holds nothing.
    pub const EMPTY: Self = Self {
        sent_at: Stamp(0),
        seq: Seq(0),
        token: Token(0),
        prev: Seq(0),
        next: Seq(0),
        len: 0,
        offset: 0,
        segment: 0,
        marks: 0,
        times: 0,
    };

    /// Returns the record of numbers that go for the first time.
    pub(super) const fn new(seq: Seq, len: u16, marks: u8, sent_at: Stamp) -> Self {
        Self { seq, prev: seq, next: seq, len, segment: len, marks, times: 1, sent_at, ..Self::EMPTY }
    }

    /// Returns the number behind the last one.
    pub(super) fn end(&self) -> Seq {
        self.seq + u32::from(self.len)
    }

    /// Whether one of these marks is set.
    pub(super) const fn is(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }

    /// Whether they count for the pipe (RFC 6675 section 2): neither known to have arrived nor believed to be lost.
    pub(super) const fn is_in_flight(&self) -> bool {
        !self.is(SACKED | LOST)
    }

    /// Whether they went more than once (RFC 8985's `Segment.retransmitted`).
    pub(super) const fn is_repeated(&self) -> bool {
        self.times > 1
    }

    /// Returns how many segments they are.
    pub(super) const fn segments(&self) -> u32 {
        if self.segment == 0 { 1 } else { self.len.div_ceil(self.segment) as u32 }
    }

    /// Cuts the octets from `at` on off. Returns them as a record of their own, with the same marks.
    pub(super) fn cut(&mut self, at: u16) -> Self {
        let mut rest = *self;
        rest.seq = self.seq + u32::from(at);
        rest.offset = self.offset.saturating_add(at);
        rest.len = self.len.saturating_sub(at);
        self.len = at;
        self.marks &= !ENDS;
        rest
    }
}

impl Default for Sent {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// When something went, and in which order within the microsecond. RACK compares numbers only where neither differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u64);

impl Stamp {
    /// Returns the stamp of what goes now, after all that has gone.
    pub(super) fn new(now: Micros) -> Self {
        Self(now.0 << 8)
    }

    /// Returns the stamp of what goes now after this one. `is_lower` says that its number is lower, so that numbers alone
    /// would say that it went before.
    pub(super) fn then(self, now: Micros, is_lower: bool) -> Self {
        let lower = if is_lower && self.0 & 0xff != 0xff { self.0 + 1 } else { self.0 };
        Self::new(now).max(Self(lower))
    }

    /// Returns the time.
    pub(super) const fn at(self) -> Micros {
        Micros(self.0 >> 8)
    }
}

const _: () = assert!(size_of::<Sent>() == 32);
