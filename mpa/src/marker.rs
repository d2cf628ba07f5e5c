//! Markers (RFC 5044 4.3): their places in the stream, and how they get in and out. Only this file knows about them.
//!
//! Every FPDU is a multiple of 4 octets long, so a Marker never cuts a length field or a CRC. Within one FPDU, its
//! leading Marker included, the Markers start at `gap`, `gap + 512`, `gap + 1024` and so on.

use core::ops::Range;

use crate::Error;
use crate::fpdu::{CRC_LEN, LENGTH_LEN};

/// The Marker positions of one direction, seen from the start of its next FPDU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Markers {
    /// Stream position of the next FPDU, counted from the first Marker, modulo [`SPACING`].
    phase: usize,
}

impl Markers {
    /// The start of Full Operation: the very first octets are a Marker (5044-4.3-9).
    pub(crate) const fn new() -> Self {
        Self { phase: 0 }
    }

    /// The place at this position of the stream, counted from the first Marker.
    #[expect(clippy::cast_possible_truncation, reason = "it is below the spacing")]
    pub(crate) const fn at(position: u64) -> Self {
        Self { phase: (position % SPACING as u64) as usize }
    }

    /// Returns true if the octets directly before this place are a Marker.
    pub(crate) const fn follows_marker(self) -> bool {
        self.phase == MARKER_LEN
    }

    /// Returns FPDUPTR of the Marker that these octets begin with, in octets, or `None` if it is not whole.
    ///
    /// Ignores the reserved half and the two low bits of FPDUPTR (5044-4.2-3, 5044-4.2-6).
    pub(crate) fn distance(marker: &[u8]) -> Option<u16> {
        let [_, _, high, low] = *marker.first_chunk()?;
        Some(u16::from_be_bytes([high, low]) & !0x3)
    }

    /// Moves on to the FPDU behind one of `fpdu_len` octets.
    pub(crate) const fn advance(&mut self, fpdu_len: usize) {
        self.phase = (self.phase + fpdu_len) % SPACING;
    }

    /// Returns the octets of the Marker directly before the length field: 0 or 4. It belongs to this FPDU
    /// (5044-4.3-8).
    pub(crate) const fn lead(self) -> usize {
        if self.phase == 0 { MARKER_LEN } else { 0 }
    }

    /// Returns the octets, Markers included, of an FPDU that has `content` octets without them.
    pub(crate) const fn fpdu_len(self, content: usize) -> usize {
        content + MARKER_LEN * content.saturating_sub(self.gap()).div_ceil(SPACING - MARKER_LEN)
    }

    /// Returns the largest content whose FPDU fits into `available` octets, which is a multiple of 4.
    pub(crate) const fn content_len(self, available: usize) -> usize {
        let Some(beyond) = available.checked_sub(self.gap()) else { return available };
        let rest = (beyond % SPACING).saturating_sub(MARKER_LEN);
        self.gap() + beyond / SPACING * (SPACING - MARKER_LEN) + rest
    }

    /// Spreads the content that lies unbroken behind the leading Marker's place, and writes the Markers.
    ///
    /// `fpdu` is the whole FPDU; its last 4 octets, the CRC field, are not moved.
    pub(crate) fn insert(self, fpdu: &mut [u8]) {
        let end = fpdu.len() - CRC_LEN;
        // From the end, so that each octet is moved before its place is overwritten.
        for (index, marker) in self.positions(fpdu.len()).enumerate().rev() {
            let to = marker + MARKER_LEN;
            let from = self.lead() + marker - MARKER_LEN * index;
            let len = end.min(marker + SPACING) - to;
            if from != to {
                fpdu.copy_within(from..from + len, to);
            }
            let [high, low] = self.pointer(marker).to_be_bytes();
            fpdu[marker..to].copy_from_slice(&[0, 0, high, low]);
        }
    }

    /// Compares each Marker of a whole FPDU with the start of the FPDU by the length fields (5044-8-6).
    pub(crate) fn check(self, fpdu: &[u8]) -> Result<(), Error> {
        for marker in self.positions(fpdu.len()) {
            let expected = self.pointer(marker);
            let received = Self::distance(&fpdu[marker..]).unwrap_or(0);
            if expected != received {
                return Err(Error::Marker { expected, received });
            }
        }
        Ok(())
    }

    /// Returns the unbroken pieces of a ULPDU in an FPDU: ranges of the FPDU, in order, none of them empty.
    pub(crate) fn pieces(self, ulpdu_len: usize) -> impl Iterator<Item = Range<usize>> {
        let mut start = self.lead() + LENGTH_LEN;
        let mut left = ulpdu_len;
        let mut marker = if self.phase == 0 { SPACING } else { self.gap() };
        core::iter::from_fn(move || {
            if start == marker {
                start += MARKER_LEN;
                marker += SPACING;
            }
            let piece = start..start + left.min(marker - start);
            left -= piece.len();
            start = piece.end;
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Returns the octets from the start of the FPDU to its first Marker.
    const fn gap(self) -> usize {
        if self.phase == 0 { 0 } else { SPACING - self.phase }
    }

    /// Returns the offsets at which the Markers of an FPDU of `fpdu_len` octets start.
    pub(crate) fn positions(
        self,
        fpdu_len: usize,
    ) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator {
        (self.gap()..fpdu_len).step_by(SPACING)
    }

    /// Returns FPDUPTR of the Marker at this offset: the distance from the length field, 0 for the leading Marker.
    ///
    /// With a ULPDU over the limit of 64768 octets the distance can exceed 16 bits. The field then holds the low
    /// ones.
    #[expect(clippy::cast_possible_truncation, reason = "the field has 16 bits")]
    const fn pointer(self, marker: usize) -> u16 {
        marker.saturating_sub(self.lead()) as u16
    }
}

/// Octets from the start of one Marker to the start of the next (RFC 5044 4.3).
const SPACING: usize = 512;
pub(crate) const MARKER_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn at(phase: usize) -> Markers {
        Markers { phase }
    }

    #[test]
    fn fpdu_length_counts_a_marker_only_if_content_follows_it() {
        assert_eq!(at(0).fpdu_len(8), 12);
        assert_eq!(at(0).fpdu_len(508), 512);
        assert_eq!(at(0).fpdu_len(512), 520);
        assert_eq!(at(500).fpdu_len(12), 12);
        assert_eq!(at(500).fpdu_len(16), 20);
        assert_eq!(at(500).fpdu_len(12 + 508), 524);
        assert_eq!(at(500).fpdu_len(12 + 512), 532);
    }

    #[test]
    fn content_length_is_the_inverse_of_fpdu_length() {
        for phase in (0..SPACING).step_by(4) {
            for available in (0..2100).step_by(4) {
                let content = at(phase).content_len(available);
                assert!(content == 0 || at(phase).fpdu_len(content) <= available, "{phase} {available}");
                assert!(at(phase).fpdu_len(content + 4) > available, "{phase} {available}");
            }
        }
    }

    #[test]
    fn pieces_go_round_the_markers() {
        let pieces: Vec<_> = at(0).pieces(1000).collect();
        assert_eq!(pieces, [6..512, 516..1010]);
        let pieces: Vec<_> = at(492).pieces(42).collect();
        assert_eq!(pieces, [2..20, 24..48]);
        // The Marker follows the last octet of the ULPDU: one piece.
        let pieces: Vec<_> = at(500).pieces(10).collect();
        assert_eq!(pieces.as_slice(), core::slice::from_ref(&(2..12)));
        assert_eq!(at(0).pieces(0).count(), 0);
    }
}
