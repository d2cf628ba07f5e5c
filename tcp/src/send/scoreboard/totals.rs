//! Sums over the records.

use crate::send::sent::{LOST, SACKED, Sent};

/// Sums over the records that are not acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::send) struct Totals {
    /// Octets in flight (RFC 6675's pipe, but that octets sent again count once).
    pub(in crate::send) pipe: u32,
    /// Octets that are lost and not sent again.
    pub(in crate::send) lost: u32,
    /// Octets that are SACKed.
    pub(in crate::send) sacked: u32,
    /// Segments that are SACKed (RFC 8985's `RACK.segs_sacked`).
    pub(in crate::send) sacked_segments: u32,
    /// Octets in flight that were sent again.
    pub(in crate::send) repeated: u32,
}

impl Totals {
    pub(super) fn add(&mut self, sent: &Sent) {
        let len = u32::from(sent.len);
        if sent.is(SACKED) {
            self.sacked += len;
            self.sacked_segments += sent.segments();
        } else if sent.is(LOST) {
            self.lost += len;
        } else {
            self.pipe += len;
            self.repeated += if sent.is_repeated() { len } else { 0 };
        }
    }

    pub(super) fn remove(&mut self, sent: &Sent) {
        let mut one = Self::default();
        one.add(sent);
        self.pipe -= one.pipe;
        self.lost -= one.lost;
        self.sacked -= one.sacked;
        self.sacked_segments -= one.sacked_segments;
        self.repeated -= one.repeated;
    }
}
