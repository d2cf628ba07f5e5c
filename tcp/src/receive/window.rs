//! The window that the peer may fill.

use crate::{Micros, Options, Seq};

/// The receive window (RFC 9293 section 3.8.6, RFC 7323 section 2): a promise that is never taken back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// The number behind the last one that the peer may send, as it was told (RCV.NXT + RCV.WND).
    edge: Seq,
    /// The number behind the last octet that the user has taken.
    read: Seq,
    /// Octets that may be received and not taken yet.
    size: u32,
    max: u32,
    /// Rcv.Wind.Shift.
    shift: u8,
    is_frozen: bool,
    /// `read` when the measurement of a round began, and when that was.
    mark: Seq,
    marked_at: Micros,
}

impl Window {
    /// Returns a window for which the peer knows nothing yet. `next` is RCV.NXT. No window is larger than 1 GiB, so that
    /// numbers beyond it are told from old ones (RFC 7323 section 2.3).
    pub(crate) fn new(next: Seq, (size, max): (u32, u32), now: Micros) -> Self {
        let (size, max) = (size.min(MAX), max.min(MAX));
        let edge = next;
        Self { edge, read: next, size, max, shift: 0, is_frozen: false, mark: next, marked_at: now }
    }

    /// Returns the shift to offer, with which a field of 16 bits can tell the largest window (RFC 7323 section 2.2).
    pub(crate) fn shift_for(max: u32) -> u8 {
        let shift = (u32::BITS - max.leading_zeros()).saturating_sub(16);
        u8::try_from(shift).map_or(Options::MAX_WINDOW_SCALE, |shift| shift.min(Options::MAX_WINDOW_SCALE))
    }

    /// Has the field scaled from now on (RFC 7323 section 2.2: never in a segment with SYN).
    pub(crate) const fn scale(&mut self, shift: u8) {
        self.shift = shift;
    }

    pub(crate) const fn edge(&self) -> Seq {
        self.edge
    }

    /// Returns the field for a segment that acknowledges `next`, and the right edge that it tells.
    ///
    /// The edge moves on only by at least the lower of a segment and half the window (RFC 9293 section 3.8.6.2.2). It
    /// never moves back, and so the field is rounded up if rounding down would take back what was promised (RFC 7323
    /// section 2.4).
    pub(crate) fn field(&self, next: Seq, mss: u32) -> (u16, Seq) {
        let wanted = self.read + self.size;
        let is_worth_it = self.edge.is_before(wanted) && wanted.since(self.edge) >= mss.min(self.size / 2);
        let aim = if is_worth_it && !self.is_frozen { wanted } else { self.edge };
        let unit = |field: u32| (field << self.shift, field);
        let (octets, field) = unit((aim.since(next) >> self.shift).min(u32::from(u16::MAX)));
        let (octets, field) = if (next + octets).is_before(self.edge) {
            unit(self.edge.since(next).div_ceil(1 << self.shift).min(u32::from(u16::MAX)))
        } else {
            (octets, field)
        };
        (u16::try_from(field).unwrap_or(u16::MAX), (next + octets).max(self.edge))
    }

    /// Notes that a segment with this field has gone.
    pub(crate) fn told(&mut self, next: Seq, field: u16) {
        self.edge = self.edge.max(next + (u32::from(field) << self.shift));
    }

    /// Whether a segment has to tell of the window, although nothing else has to be told.
    ///
    /// The edge can move by half the window, or the window was closed for a segment and can be opened.
    pub(crate) fn has_news(&self, next: Seq, mss: u32) -> bool {
        let (_, edge) = self.field(next, mss);
        let gain = edge.since(self.edge);
        let (segment, half) = (mss.min(self.size / 2).max(1), self.size / 2);
        gain >= half.max(1) || gain >= segment && self.edge.since(next) < segment
    }

    /// Notes that the user has taken octets. `rtt` is the peer's distance, if it is known.
    ///
    /// The window doubles if more than half of it was taken within a round trip. If the round trip is not known, one
    /// window's time counts as one.
    pub(crate) fn consume(&mut self, octets: u32, rtt: Option<Micros>, now: Micros) {
        self.read = self.read + octets;
        let taken = self.read.since(self.mark);
        let is_round_over = rtt.map_or(taken >= self.size, |rtt| now.since(self.marked_at) >= rtt);
        if !is_round_over {
            return;
        }
        if taken > self.size / 2 && !self.is_frozen {
            self.size = self.size.saturating_mul(2).min(self.max);
        }
        (self.mark, self.marked_at) = (self.read, now);
    }

    /// Keeps the right edge where it is, or lets it go on.
    pub(crate) const fn freeze(&mut self, is_frozen: bool) {
        self.is_frozen = is_frozen;
    }
}

const MAX: u32 = 1 << 30;
