//! Checksums of TCP that a sender on the same machine left to its hardware.

use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv6Packet, checksum};

/// Fills in the checksum of TCP that a sender on the same machine left to its hardware, as a veth peer does.
///
/// AF_XDP does not tell which frames these are. But the field of such a frame holds the sum over the pseudo-header,
/// as Linux has prepared it. A frame from a real wire has that sum by chance once in 65,536 times, and its checksum
/// is filled in with the value that was there. If such a frame is damaged, too, it passes for whole. That is as rare
/// as a damaged frame whose TCP checksum is right by chance.
pub(super) fn complete(frame: &mut [u8]) {
    let Some((kind, packet)) = frame.split_at_mut_checked(14) else { return };
    match kind[12..] {
        [0x08, 0x00] => {
            let Ok(packet) = Ipv4Packet::new_checked(packet) else { return };
            if packet.next_header() != IpProtocol::Tcp || packet.frag_offset() != 0 || packet.more_frags() {
                return;
            }
            let (begin, end) = (usize::from(packet.header_len()), usize::from(packet.total_len()));
            let (source, destination) = (packet.src_addr(), packet.dst_addr());
            let sum = |len| checksum::pseudo_header_v4(&source, &destination, IpProtocol::Tcp, len);
            complete_segment(&mut packet.into_inner()[begin..end], sum);
        }
        [0x86, 0xDD] => {
            let Ok(packet) = Ipv6Packet::new_checked(packet) else { return };
            if packet.next_header() != IpProtocol::Tcp {
                return;
            }
            let end = packet.total_len();
            let (source, destination) = (packet.src_addr(), packet.dst_addr());
            let sum = |len| checksum::pseudo_header_v6(&source, &destination, IpProtocol::Tcp, len);
            complete_segment(&mut packet.into_inner()[IPV6_HEADER..end], sum);
        }
        _ => {}
    }
}

fn complete_segment(segment: &mut [u8], pseudo_header: impl FnOnce(u32) -> u16) {
    let sum = u32::try_from(segment.len()).map(pseudo_header);
    let Some(field) = segment.get_mut(CHECKSUM..CHECKSUM + 2) else { return };
    if sum.is_ok_and(|sum| field == sum.to_be_bytes()) {
        // The sum over the pseudo-header is part of the summed octets.
        let sum = !checksum::data(segment);
        segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The offset of the checksum in the TCP header.
const CHECKSUM: usize = 16;
const IPV6_HEADER: usize = 40;

#[cfg(test)]
mod tests {
    use smoltcp::wire::{IpAddress, TcpPacket};

    use super::*;

    /// Returns a frame with TCP of 21 octets, whose checksum is still to be filled in, and padding that does not
    /// count.
    fn frame(is_v6: bool) -> (Vec<u8>, [IpAddress; 2], usize) {
        let segment =
            [&[0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0][..], b"x"].concat();
        let (mut frame, addresses): (_, [IpAddress; 2]) = if is_v6 {
            let addresses = ["fd00::1", "fd00::2"].map(|text| text.parse::<core::net::Ipv6Addr>().unwrap());
            let header =
                [&[0x60, 0, 0, 0, 0, 21, 6, 64][..], &addresses.map(|address| address.octets()).concat()];
            ([&[0; 12], &[0x86, 0xDD][..], &header.concat()].concat(), addresses.map(Into::into))
        } else {
            let header = [0x46, 0, 0, 45, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 0];
            let addresses = [[10, 0, 0, 1], [10, 0, 0, 2]].map(core::net::Ipv4Addr::from);
            ([&[0; 12], &[0x08, 0x00][..], &header].concat(), addresses.map(Into::into))
        };
        let begin = frame.len();
        frame.extend(segment);
        frame.extend([0xEE; 3]);
        (frame, addresses, begin)
    }

    fn sum_of([source, destination]: [IpAddress; 2]) -> u16 {
        checksum::pseudo_header(&source, &destination, IpProtocol::Tcp, 21)
    }

    #[test]
    fn a_checksum_left_to_hardware_is_filled_in() {
        for is_v6 in [false, true] {
            let (mut frame, addresses, begin) = frame(is_v6);
            frame[begin + 16..][..2].copy_from_slice(&sum_of(addresses).to_be_bytes());
            complete(&mut frame);
            let segment = TcpPacket::new_checked(&frame[begin..begin + 21]).unwrap();
            assert!(segment.verify_checksum(&addresses[0], &addresses[1]));
        }
    }

    #[test]
    fn every_other_checksum_stays_right_or_wrong() {
        for is_v6 in [false, true] {
            let (whole, addresses, begin) = frame(is_v6);
            for field in [0, 1, sum_of(addresses) ^ 1, !sum_of(addresses)] {
                let mut frame = whole.clone();
                frame[begin + 16..][..2].copy_from_slice(&field.to_be_bytes());
                let before = frame.clone();
                complete(&mut frame);
                assert_eq!(frame, before);
            }
            for len in 0..whole.len() {
                complete(&mut whole[..len].to_vec());
            }
        }
    }
}
