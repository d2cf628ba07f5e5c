//! FPDUs whose very beginning TCP cuts off: tshark needs 8 octets to recognize one.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::Path;

use weft_cli::decode::packet;
use weft_cli::decode::pcap::Capture;
use weft_cli::decode::reassembly::{Next, Piece, Reassembly};

/// Returns true if a TCP segment ends within the first octets of an FPDU. The capture must have no holes and no
/// Markers.
pub(crate) fn is_torn(path: &Path) -> Result<bool, String> {
    let failed = |error: &dyn core::fmt::Display| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| failed(&error))?;
    let mut capture = Capture::open(BufReader::new(file)).map_err(|error| failed(&error))?;
    let mut directions: HashMap<(SocketAddr, SocketAddr), Direction> = HashMap::new();
    while let Some(captured) = capture.next().map_err(|error| failed(&error))? {
        let Ok(segment) = packet::parse(capture.link(), &captured.data) else { continue };
        let direction = directions.entry((segment.src, segment.dst)).or_default();
        if segment.syn {
            *direction = Direction::default();
            direction.order.handle_syn(segment.sequence);
        }
        let piece = Piece { data: segment.payload, stamp: captured.stamp };
        direction.order.handle_segment(segment.sequence, piece, segment.checksum);
        if direction.take() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The octets of one direction.
#[derive(Debug, Default)]
struct Direction {
    order: Reassembly,
    has_startup: bool,
    /// The beginning of a frame that is not complete yet.
    rest: Vec<u8>,
}

impl Direction {
    /// Takes the frames that are in order now. Returns true if a segment ended within the first octets of an FPDU.
    fn take(&mut self) -> bool {
        while let Some(Next::Piece(piece)) = self.order.next() {
            self.rest.extend_from_slice(&piece.data);
            let mut taken = 0;
            while let Some(len) = self.frame_len(taken).filter(|len| taken + len <= self.rest.len()) {
                taken += len;
                self.has_startup = true;
            }
            self.rest.drain(..taken);
            if self.has_startup && (1..SEEN).contains(&self.rest.len()) {
                return true;
            }
        }
        false
    }

    /// Returns the length of the frame that begins at `at`, if it is known yet.
    fn frame_len(&self, at: usize) -> Option<usize> {
        let field = if self.has_startup { at } else { at + STARTUP_LEN - 2 };
        let len = usize::from(u16::from_be_bytes(self.rest.get(field..field + 2)?.try_into().ok()?));
        Some(if self.has_startup { (2 + len).next_multiple_of(4) + 4 } else { STARTUP_LEN + len })
    }
}

/// The octets of a Request or Reply without private data.
const STARTUP_LEN: usize = 20;
/// The octets from which tshark recognizes an FPDU.
const SEEN: usize = 8;

#[cfg(test)]
mod tests {
    use weft_cli::decode::packet::Checksum;
    use weft_cli::decode::pcap::Stamp;

    use super::*;

    /// Returns true if a segment ends within the first octets of an FPDU, if the stream is cut at `cuts`.
    fn is_torn_at(cuts: &[usize]) -> bool {
        let startup = [&[0; 18][..], &[0, 3], b"abc"].concat();
        let fpdu = [&[0, 21][..], &[7; 26]].concat();
        let stream = [&startup[..], &fpdu, &fpdu].concat();
        let mut direction = Direction::default();
        let mut begin = 0;
        let mut is_torn = false;
        for end in cuts.iter().copied().chain([stream.len()]) {
            let data = stream[begin..end].to_vec().into();
            let piece = Piece { data, stamp: Stamp::default() };
            direction.order.handle_segment(u32::try_from(begin).unwrap(), piece, Checksum::Plausible);
            is_torn |= direction.take();
            begin = end;
        }
        is_torn
    }

    #[test]
    fn only_less_than_eight_octets_count() {
        let second = 23 + 28;
        for cuts in [&[][..], &[10], &[23, second], &[second + 8], &[second - 1], &[23 + 8, second + 27]] {
            assert!(!is_torn_at(cuts), "{cuts:?}");
        }
        for cuts in [&[second + 1][..], &[second + 7], &[23 + 4, second]] {
            assert!(is_torn_at(cuts), "{cuts:?}");
        }
    }
}
