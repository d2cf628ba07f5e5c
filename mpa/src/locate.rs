//! FPDUs ahead of their turn (RFC 5044 section 6): octets behind a gap in the stream, in which Markers tell where
//! FPDUs begin.

use crate::deframe::Checks;
use crate::fpdu::MAX_ULPDU;
use crate::marker::{MARKER_LEN, Markers};
use crate::{Crc32c, Error};

/// Finds whole FPDUs in octets of a stream with Markers and CRCs, whatever is missing before them.
///
/// An FPDU begins where a Marker says so, or where the FPDU before it ends (RFC 5044 section 6). Each one is handed out
/// only if its length, its CRC and all of its Markers agree. The search ends at the first FPDU that breaks a rule or
/// is not whole: the octets from there on have to be judged in their turn.
#[derive(Debug, Clone)]
pub struct Locator<'o> {
    crc: Crc32c,
    octets: &'o [u8],
    /// The position of the octets in the stream.
    position: u64,
    /// Where the next FPDU begins in the octets.
    next: Option<usize>,
}

/// A whole and good FPDU, as [`Locator`] finds it.
#[derive(Debug, Clone, Copy)]
pub struct Located<'o> {
    /// The position of its first octet in the stream: that of its leading Marker, if it has one.
    pub position: u64,
    /// Its octets, Markers included.
    pub fpdu: &'o [u8],
    /// The length of its ULPDU in octets.
    pub ulpdu_len: usize,
    markers: Markers,
}

impl<'o> Locator<'o> {
    /// `position` is that of the first of the octets, counted from the first Marker of the stream. `begins` is true if
    /// an FPDU is known to begin there, since a search over the octets before them says so
    /// ([`Locator::begins_behind`]).
    #[must_use]
    pub const fn new(crc: Crc32c, position: u64, octets: &'o [u8], begins: bool) -> Self {
        Self { crc, octets, position, next: if begins { Some(0) } else { None } }
    }

    /// Returns the position behind the octets, if the search has come there, so that an FPDU begins there.
    #[must_use]
    pub fn begins_behind(&self) -> Option<u64> {
        self.next.filter(|next| *next == self.octets.len()).map(|next| self.position + next as u64)
    }

    /// Returns where the first FPDU begins of which a Marker tells, and which begins in these octets.
    fn first(&self) -> Option<usize> {
        let markers = Markers::at(self.position);
        markers.positions(self.octets.len()).find_map(|marker| {
            let distance = Markers::distance(self.octets.get(marker..)?)?;
            if distance == 0 {
                return Some(marker);
            }
            let field = marker.checked_sub(distance.into())?;
            // A Marker in front of the length field belongs to the FPDU. It may lie before these octets.
            let is_led = Markers::at(self.position + field as u64).follows_marker();
            if is_led { field.checked_sub(MARKER_LEN) } else { Some(field) }
        })
    }

    /// # Errors
    /// [`Error`], if the FPDU breaks a rule. Returns `None` if it is not whole.
    fn judge(&self, begin: usize) -> Result<Option<Located<'o>>, Error> {
        let Some(octets) = self.octets.get(begin..) else { return Ok(None) };
        let position = self.position + begin as u64;
        let markers = Markers::at(position);
        let checks = Checks { crc: Some(self.crc), markers: Some(markers) };
        let Some(ulpdu_len) = checks.ulpdu_len(octets).filter(|len| *len <= MAX_ULPDU) else {
            return Ok(None);
        };
        let Some(fpdu) = octets.get(..checks.fpdu_len(ulpdu_len)) else { return Ok(None) };
        checks.verify(fpdu, false)?;
        Ok(Some(Located { position, fpdu, ulpdu_len, markers }))
    }
}

impl<'o> Iterator for Locator<'o> {
    type Item = Located<'o>;

    fn next(&mut self) -> Option<Located<'o>> {
        let begin = self.next.or_else(|| self.first()).filter(|begin| *begin < self.octets.len())?;
        // What breaks a rule is found again in its turn, where it has consequences.
        let Ok(Some(located)) = self.judge(begin) else {
            self.octets = &[];
            self.next = None;
            return None;
        };
        self.next = Some(begin + located.fpdu.len());
        Some(located)
    }
}

impl<'o> Located<'o> {
    /// Returns the first `N` octets of the ULPDU, and the pieces of the rest. `None` if the ULPDU is shorter.
    pub fn split<const N: usize>(&self) -> Option<([u8; N], impl Iterator<Item = &'o [u8]> + use<'o, N>)> {
        let mut octets = self.pieces().flatten();
        let head = core::array::from_fn(|_| octets.next().copied().unwrap_or_default());
        let mut missing = N;
        let rest = self.pieces().filter_map(move |piece| {
            let rest = piece.get(missing..).filter(|rest| !rest.is_empty());
            missing = missing.saturating_sub(piece.len());
            rest
        });
        (self.ulpdu_len >= N).then_some((head, rest))
    }

    /// Returns the octets of the ULPDU, in pieces between Markers.
    pub fn pieces(&self) -> impl Iterator<Item = &'o [u8]> + use<'o> {
        let fpdu = self.fpdu;
        self.markers.pieces(self.ulpdu_len).filter_map(move |piece| fpdu.get(piece))
    }
}
