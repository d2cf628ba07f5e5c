//! The FPDU (RFC 5044 section 4), read from octets in the stream's order.

use weft_mpa::Crc32c;

use super::segment::{self, Kind};

/// The framing of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// The CRC field has a CRC.
    pub crc: bool,
    /// There is a Marker every 512 octets, the first one before the first FPDU.
    pub markers: bool,
}

/// One FPDU, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fpdu {
    /// The ULPDU without Markers.
    pub ulpdu: Vec<u8>,
    /// The verdict on its CRC.
    pub crc: Crc,
    /// All Markers in it point to its beginning.
    pub markers_fit: bool,
    /// Octets that it takes in the stream, Markers included.
    pub wire_len: usize,
}

/// The verdict on a CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crc {
    /// The CRC is right.
    Good,
    /// The CRC is wrong.
    Bad,
    /// No CRC is in use.
    Off,
}

impl Crc {
    /// Returns the verdict's word in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Off => "off",
        }
    }
}

impl Framing {
    /// Reads the FPDU at the beginning of `octets`, `position` octets behind the first FPDU's beginning. Returns `None`
    /// if octets are missing at the end.
    pub fn read(self, position: u64, octets: &[u8]) -> Option<Fpdu> {
        let ulpdu_len = self.ulpdu_len(position, octets)?;
        let mut whole = self.gather(position, octets, LENGTH_LEN + padded(ulpdu_len) + CRC_LEN)?;
        let (covered, field) = octets[..whole.wire_len].split_last_chunk::<CRC_LEN>()?;
        let crc = if !self.crc {
            Crc::Off
        } else if Crc32c::default().checksum(covered) == u32::from_le_bytes(*field) {
            Crc::Good
        } else {
            Crc::Bad
        };
        whole.octets.truncate(LENGTH_LEN + ulpdu_len);
        whole.octets.drain(..LENGTH_LEN);
        Some(Fpdu { ulpdu: whole.octets, crc, markers_fit: whole.markers_fit, wire_len: whole.wire_len })
    }

    /// Returns the length of the ULPDU, from the length field alone.
    pub fn ulpdu_len(self, position: u64, octets: &[u8]) -> Option<usize> {
        let field = self.gather(position, octets, LENGTH_LEN)?;
        field.octets.first_chunk().map(|&field| usize::from(u16::from_be_bytes(field)))
    }

    /// Returns how many octets of the stream an FPDU with this ULPDU takes.
    pub fn wire_len(self, position: u64, ulpdu_len: usize) -> usize {
        let len = LENGTH_LEN + padded(ulpdu_len) + CRC_LEN;
        let first = to_marker(position);
        if !self.markers || first >= len {
            return len;
        }
        // The Marker after the last octet belongs to the next FPDU.
        len + MARKER_LEN * (1 + (len - first - 1) / (MARKER_DISTANCE - MARKER_LEN))
    }

    /// Returns true if an FPDU with sensible headers begins here, and `None` if there are too few octets to tell.
    pub fn is_plausible(self, position: u64, octets: &[u8]) -> Option<bool> {
        let begin = self.gather(position, octets, SHORTEST_LEN)?.octets;
        let (length, ulpdu) = begin.split_first_chunk::<LENGTH_LEN>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let reserved = ulpdu[0] & 0x3c | ulpdu[1] & 0x30;
        let Ok((_, header)) = segment::header(&ulpdu[..length.min(ulpdu.len())]) else { return Some(false) };
        let flaw = header.flaw(Kind::from_opcode(header.opcode));
        Some(reserved == 0 && flaw.is_none() && length <= weft_mpa::MAX_ULPDU)
    }

    /// Returns the first `count` octets of an FPDU without the Markers before and in it.
    fn gather(self, position: u64, octets: &[u8], count: usize) -> Option<Gathered> {
        let mut out = Gathered { octets: Vec::with_capacity(count), wire_len: 0, markers_fit: true };
        let mut header_at = 0;
        while out.octets.len() < count {
            let at = out.wire_len;
            let run = to_marker(position + at as u64);
            if self.markers && run == 0 {
                let &[_, _, high, low] = octets.get(at..)?.first_chunk::<MARKER_LEN>()?;
                if out.octets.is_empty() {
                    header_at = at + MARKER_LEN;
                }
                let distance = at.saturating_sub(header_at);
                out.markers_fit &= usize::from(u16::from_be_bytes([high, low]) & !0b11) == distance;
                out.wire_len += MARKER_LEN;
                continue;
            }
            let missing = count - out.octets.len();
            let run = if self.markers { run.min(missing) } else { missing };
            out.octets.extend_from_slice(octets.get(at..at + run)?);
            out.wire_len += run;
        }
        Some(out)
    }
}

/// Octets without Markers, and how many octets of the stream they took.
struct Gathered {
    octets: Vec<u8>,
    wire_len: usize,
    markers_fit: bool,
}

/// Returns how many octets later the next Marker comes.
#[expect(clippy::cast_possible_truncation, reason = "a remainder of 512")]
const fn to_marker(position: u64) -> usize {
    (position.wrapping_neg() % MARKER_DISTANCE as u64) as usize
}

/// Returns the length of ULPDU and pad, which with the length field is a multiple of four.
const fn padded(ulpdu_len: usize) -> usize {
    (LENGTH_LEN + ulpdu_len).next_multiple_of(4) - LENGTH_LEN
}

const LENGTH_LEN: usize = 2;
const CRC_LEN: usize = 4;
const MARKER_LEN: usize = 4;
const MARKER_DISTANCE: usize = 512;

/// Length field, Tagged header, CRC field: no sensible FPDU is shorter.
const SHORTEST_LEN: usize = 20;
