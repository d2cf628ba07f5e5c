//! The header that virtio puts before a frame (virtio 1.2, section 5.1.6), as TAP and AF_PACKET use it. Its fields
//! are in the machine's order: flags, GSO type, header length, segment size, start and offset of the checksum.

use crate::checksum::{self, FIELD, NEEDS_CHECKSUM};
use crate::ethernet::VNET_HEADER;
use crate::frame::Frame;

/// Returns the header for a frame to be sent. It tells the device what to do with the frame.
pub(crate) fn header_for(frame: &mut Frame) -> [u8; VNET_HEADER] {
    let mut header = [0; VNET_HEADER];
    let Some(start) = (if frame.is_trusted { checksum::begin(frame) } else { None }) else { return header };
    let number = |value: usize| u16::try_from(value).unwrap_or_default().to_ne_bytes();
    header[0] = NEEDS_CHECKSUM;
    header[6..8].copy_from_slice(&number(start));
    header[8..10].copy_from_slice(&number(FIELD));
    if frame.segment > 0 {
        header[1] = if frame[12] == IPV4[0] { GSO_TCPV4 } else { GSO_TCPV6 };
        header[2..4].copy_from_slice(&number(start + usize::from(frame[start + 12] >> 4) * 4));
        header[4..6].copy_from_slice(&frame.segment.to_ne_bytes());
    }
    header
}

/// Gives a received frame the form that it has on a wire, except for TCP's checksum. Returns `None` if its header is
/// wrong.
pub(crate) fn accept(frame: &mut Frame, header: &[u8; VNET_HEADER]) -> Option<()> {
    frame.is_trusted = checksum::complete(frame, header)?;
    Some(())
}

const IPV4: [u8; 2] = [0x08, 0x00];
/// VIRTIO_NET_HDR_GSO_TCPV4 and _TCPV6.
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The segments of a large frame each get the headers in front of its payload, TCP's options included.
    #[test]
    fn the_header_of_a_large_frame_tells_how_to_cut_it() {
        let mut octets = vec![0; 34 + 32 + 5000];
        octets[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        octets[16..18].copy_from_slice(&5052_u16.to_be_bytes());
        octets[23] = 6;
        octets[34 + 12] = 0x80;
        let mut frame = Frame::copy_of(&octets);
        assert_eq!(header_for(&mut frame), [0; VNET_HEADER]);
        (frame.is_trusted, frame.segment) = (true, 1460);
        let header = header_for(&mut frame);
        let number = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        assert_eq!(header[..2], [NEEDS_CHECKSUM, GSO_TCPV4]);
        assert_eq!([2, 4, 6, 8].map(number), [34 + 32, 1460, 34, 16]);
    }
}
