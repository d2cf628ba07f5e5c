//! FPDUs on their way out (RFC 5044 4.1): lengths, padding, and the sealing of a ULPDU that was built in place.

use crate::Crc32c;
use crate::marker::Markers;

/// The largest ULPDU that DDP may post, in octets (RFC 5044 3).
pub const MAX_ULPDU: usize = 64768;

/// Returns MULPDU: the largest ULPDU, in octets, whose FPDU fits into a TCP segment of `emss` octets (RFC 5044 4.5).
///
/// `markers` is true if this direction carries Markers. The result is never below 128 nor above [`MAX_ULPDU`].
pub const fn mulpdu(emss: usize, markers: bool) -> usize {
    let markers = if markers { 4 * emss.div_ceil(512) } else { 0 };
    let ulpdu = emss.saturating_sub(6 + markers + emss % 4);
    if ulpdu < MIN_MULPDU {
        MIN_MULPDU
    } else if ulpdu > MAX_ULPDU {
        MAX_ULPDU
    } else {
        ulpdu
    }
}

/// One sending direction in Full Operation. It knows where its next Marker falls.
///
/// For each FPDU, the caller takes three steps. [`Framer::room`] tells how large the ULPDU may be. The caller builds
/// it in the slice that [`Framer::ulpdu_mut`] returns. [`Framer::seal`] then closes the FPDU. Without Markers it does
/// not move the ULPDU.
#[derive(Debug, Clone)]
pub struct Framer {
    crc: Option<Crc32c>,
    markers: Option<Markers>,
}

impl Framer {
    /// The start of Full Operation. Without a CRC its field is sent as zero. `markers` is true if the peer asked for
    /// Markers.
    pub const fn new(crc: Option<Crc32c>, markers: bool) -> Self {
        Self { crc, markers: if markers { Some(Markers::new()) } else { None } }
    }

    /// Closes the FPDU whose ULPDU of `len` octets was built in [`Framer::ulpdu_mut`] of the same `out`.
    ///
    /// Writes length field, pad, Markers and CRC. To make place for the Markers it spreads the ULPDU. Returns the
    /// number of octets of the FPDU, which are the first ones of `out`.
    ///
    /// # Panics
    /// If `out` is shorter than [`Framer::fpdu_len`], or `len` is above [`MAX_ULPDU`].
    #[inline(always)]
    pub fn seal(&mut self, out: &mut [u8], len: usize) -> usize {
        if self.markers.is_some() {
            return self.seal_with_markers(out, len);
        }
        let fpdu_len = content_len(len);
        let (covered, field) = out[..fpdu_len].split_at_mut(fpdu_len - CRC_LEN);
        covered[..LENGTH_LEN].copy_from_slice(&length_field(len));
        let pad = &mut covered[LENGTH_LEN + len..];
        if !pad.is_empty() {
            pad.fill(0);
        }
        let crc = self.crc.map_or(0, |crc| crc.checksum(covered));
        // The least significant octet goes first, unlike in all other fields (RFC 3720 digest order, 5044-4.4-13).
        field.copy_from_slice(&crc.to_le_bytes());
        fpdu_len
    }

    /// Begins an FPDU of a ULPDU of `len` octets. Its first `head` octets are in [`Framer::ulpdu_mut`] of the same
    /// `out`. Writes the length field, and returns the CRC up to the end of the head. The caller continues the CRC
    /// over the rest of the ULPDU, in the same pass that copies the rest. Then it closes the FPDU by
    /// [`Framer::seal_with_crc`].
    ///
    /// Returns `None` if that saves nothing: there is no CRC, or it covers Markers, which are not in their places
    /// yet. Then [`Framer::seal`] does all of it.
    ///
    /// # Panics
    /// If `out` is shorter than the head, or `len` is above [`MAX_ULPDU`].
    #[inline]
    pub fn begin(&self, out: &mut [u8], len: usize, head: usize) -> Option<u32> {
        let crc = self.crc.filter(|_| self.markers.is_none())?;
        let head = &mut out[..LENGTH_LEN + head];
        head[..LENGTH_LEN].copy_from_slice(&length_field(len));
        Some(crc.checksum(head))
    }

    /// Closes the FPDU that [`Framer::begin`] has begun. `crc` is that of the length field and the whole ULPDU of
    /// `len` octets. Writes pad and CRC, and returns the number of octets of the FPDU.
    ///
    /// # Panics
    /// As [`Framer::seal`].
    #[inline]
    pub fn seal_with_crc(&mut self, out: &mut [u8], len: usize, crc: u32) -> usize {
        let Some(append) = self.crc.filter(|_| self.markers.is_none()) else { return self.seal(out, len) };
        let fpdu_len = content_len(len);
        let (pad, field) =
            out[LENGTH_LEN + len..fpdu_len].split_at_mut(fpdu_len - CRC_LEN - LENGTH_LEN - len);
        pad.fill(0);
        let crc = if pad.is_empty() { crc } else { append.update(crc, pad) };
        field.copy_from_slice(&crc.to_le_bytes());
        fpdu_len
    }

    /// Returns true if an FPDU may be sent from several places: neither CRC nor Markers need a pass over the ULPDU.
    pub const fn is_plain(&self) -> bool {
        self.crc.is_none() && self.markers.is_none()
    }

    /// Closes an FPDU of which `out` holds only the first `head` octets of the ULPDU, behind the place of the length
    /// field. The caller sends the rest of the ULPDU's `len` octets from elsewhere. Writes the length field and,
    /// right behind the head, pad and a CRC field of zero. Returns how many octets of `out` go out before the rest of
    /// the ULPDU, and how many in all.
    ///
    /// Only for an [`Framer::is_plain`] direction.
    ///
    /// # Panics
    /// If `out` does not hold these octets, or `len` is above [`MAX_ULPDU`].
    pub fn seal_around(&self, out: &mut [u8], len: usize, head: usize) -> (usize, usize) {
        let tail = content_len(len) - LENGTH_LEN - len;
        let (begin, end) = (LENGTH_LEN + head, LENGTH_LEN + head + tail);
        out[..LENGTH_LEN].copy_from_slice(&length_field(len));
        out[begin..end].fill(0);
        (begin, end)
    }

    /// Returns true if this direction carries Markers.
    #[inline]
    pub const fn markers(&self) -> bool {
        self.markers.is_some()
    }

    /// Returns the largest ULPDU, in octets, whose whole FPDU with its Markers fits into `available` octets now. The
    /// result is at most [`MAX_ULPDU`], and 0 if not even an empty ULPDU fits.
    #[inline]
    pub fn room(&self, available: usize) -> usize {
        let available = available & !0x3;
        let content = self.markers.map_or(available, |markers| markers.content_len(available));
        content.saturating_sub(LENGTH_LEN + CRC_LEN).min(MAX_ULPDU)
    }

    /// Returns the octets that the next FPDU takes, Markers included, if its ULPDU has `ulpdu_len` octets.
    #[inline]
    pub fn fpdu_len(&self, ulpdu_len: usize) -> usize {
        let content = content_len(ulpdu_len);
        self.markers.map_or(content, |markers| markers.fpdu_len(content))
    }

    /// Returns the place for a ULPDU of `len` octets, unbroken, in the FPDU that will start at `out[0]`.
    ///
    /// # Panics
    /// If `out` is shorter than [`Framer::fpdu_len`] octets.
    #[inline]
    pub fn ulpdu_mut<'o>(&self, out: &'o mut [u8], len: usize) -> &'o mut [u8] {
        let start = self.lead() + LENGTH_LEN;
        &mut out[..self.fpdu_len(len)][start..start + len]
    }

    fn seal_with_markers(&mut self, out: &mut [u8], len: usize) -> usize {
        let start = self.lead();
        let fpdu_len = self.fpdu_len(len);
        let fpdu = &mut out[..fpdu_len];
        fpdu[start..start + LENGTH_LEN].copy_from_slice(&length_field(len));
        let ulpdu_end = start + LENGTH_LEN + len;
        fpdu[ulpdu_end..start + content_len(len) - CRC_LEN].fill(0);
        if let Some(markers) = &mut self.markers {
            markers.insert(fpdu);
            markers.advance(fpdu_len);
        }
        let (covered, field) = fpdu.split_at_mut(fpdu_len - CRC_LEN);
        let crc = self.crc.map_or(0, |crc| crc.checksum(covered));
        field.copy_from_slice(&crc.to_le_bytes());
        fpdu_len
    }

    fn lead(&self) -> usize {
        self.markers.map_or(0, Markers::lead)
    }
}

/// Returns the length field of a ULPDU of `len` octets.
///
/// # Panics
/// If that is above [`MAX_ULPDU`].
#[inline]
fn length_field(len: usize) -> [u8; LENGTH_LEN] {
    assert!(len <= MAX_ULPDU, "a ULPDU of {len} octets is over the limit of {MAX_ULPDU}");
    #[expect(clippy::cast_possible_truncation, reason = "MAX_ULPDU fits into 16 bits")]
    let length = len as u16;
    length.to_be_bytes()
}

/// Returns the octets of an FPDU without its Markers: length field, ULPDU, pad to a multiple of 4, CRC.
pub(crate) const fn content_len(ulpdu_len: usize) -> usize {
    (LENGTH_LEN + ulpdu_len).next_multiple_of(4) + CRC_LEN
}

pub(crate) const LENGTH_LEN: usize = 2;
pub(crate) const CRC_LEN: usize = 4;
const MIN_MULPDU: usize = 128;
