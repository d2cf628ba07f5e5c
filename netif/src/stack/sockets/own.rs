//! The header of a TCP segment that this stack sends.

use super::sequence::find_tcp;

/// A TCP segment in a frame of our own. Its header is read once for all three users: the mark of sent octets, the
/// keeper of whole segments, and the tally.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnSegment {
    /// Where the TCP header begins in the frame.
    pub(crate) tcp: usize,
    /// Octets of the TCP header.
    pub(crate) header: usize,
    pub(crate) sequence: u32,
    /// Octets of payload.
    pub(crate) len: usize,
    flags: u8,
    /// Acknowledgement and window.
    pub(crate) news: [u8; 6],
}

impl OwnSegment {
    /// Returns `None` for a frame that has no whole TCP header.
    #[inline]
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let tcp = find_tcp(frame)?;
        let segment = &frame[tcp..];
        let octets = segment.first_chunk::<20>()?;
        let header = usize::from(octets[12] >> 4) * 4;
        let len = segment.len().checked_sub(header).filter(|_| header >= octets.len())?;
        let [_, _, _, _, s, e, q, u, a, b, c, d, _, flags, w, i, ..] = *octets;
        let (sequence, news) = (u32::from_be_bytes([s, e, q, u]), [a, b, c, d, w, i]);
        Some(Self { tcp, header, sequence, len, flags, news })
    }

    pub(crate) const fn has_fin(&self) -> bool {
        self.flags & FIN != 0
    }

    pub(crate) const fn has_syn(&self) -> bool {
        self.flags & SYN != 0
    }

    pub(crate) const fn has_rst(&self) -> bool {
        self.flags & RST != 0
    }

    /// Returns true if the segment takes no sequence number: it only acknowledges or resets.
    pub(crate) const fn is_pure(&self) -> bool {
        self.len == 0 && self.control() == 0 && self.flags & ACK != 0
    }

    /// Returns the sequence numbers that SYN and FIN take.
    pub(crate) const fn control(&self) -> u32 {
        (self.flags & SYN != 0) as u32 + (self.flags & FIN != 0) as u32
    }

    /// Returns the octets of payload, as a difference of sequence numbers.
    pub(crate) fn octets(&self) -> u32 {
        u32::try_from(self.len).unwrap_or(0)
    }
}

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

#[cfg(test)]
mod tests {
    use smoltcp::wire::TcpPacket;

    use super::*;

    #[test]
    fn smoltcps_segments_are_read_back() {
        for (offset, kind) in [(34, [0x08, 0x00]), (54, [0x86, 0xDD])] {
            let mut frame = vec![0; offset + 24 + 7];
            frame[12..14].copy_from_slice(&kind);
            frame[if offset == 34 { 23 } else { 20 }] = 6;
            let mut tcp = TcpPacket::new_unchecked(&mut frame[offset..]);
            tcp.set_header_len(24);
            tcp.set_fin(true);
            tcp.set_ack(true);
            tcp.set_window_len(0x0102);
            frame[offset + 4..offset + 12].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
            let own = OwnSegment::of(&frame).unwrap();
            assert_eq!((own.tcp, own.header, own.sequence, own.len), (offset, 24, 0x0102_0304, 7));
            assert_eq!((own.news, own.octets(), own.control()), ([5, 6, 7, 8, 1, 2], 7, 1));
            assert!(own.has_fin() && !own.has_syn() && !own.has_rst() && !own.is_pure());
            for len in 0..offset + 24 {
                assert!(OwnSegment::of(&frame[..len]).is_none(), "{len}");
            }
            frame[offset + 12] = 0x40;
            assert!(OwnSegment::of(&frame).is_none(), "a header of 16 octets");
        }
    }
}
