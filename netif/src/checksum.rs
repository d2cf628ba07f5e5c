//! The checksums of TCP (RFC 9293 section 3.1, RFC 1071) and of the IPv4 header, which smoltcp leaves to the wire.

use crate::ethernet::VNET_HEADER;

/// The place of TCP in a frame, and the sum over its pseudo-header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    start: usize,
    end: usize,
    pseudo: u64,
}

/// Fills in the checksums of IPv4 and TCP; other frames stay as they are.
pub(crate) fn fill(frame: &mut [u8]) {
    fill_ip(frame);
    let Some(place) = find(frame) else { return };
    let field = place.start + FIELD;
    frame[field..field + 2].fill(0);
    let sum = !fold(place.pseudo + sum(&frame[place.start..place.end]));
    frame[field..field + 2].copy_from_slice(&sum.to_ne_bytes());
}

/// Prepares a frame for a device that computes TCP's checksum. Fills in the checksum of IPv4, puts the sum over the
/// pseudo-header into TCP's field, and returns where TCP begins.
pub(crate) fn begin(frame: &mut [u8]) -> Option<usize> {
    fill_ip(frame);
    let place = find(frame)?;
    let field = place.start + FIELD;
    frame[field..field + 2].copy_from_slice(&fold(place.pseudo).to_ne_bytes());
    Some(place.start)
}

/// Returns true if the frame has no wrong checksum of IPv4 or TCP.
pub(crate) fn is_good(frame: &[u8]) -> bool {
    let is_ip_good = ipv4(frame).is_none_or(|header| fold(sum(header)) == u16::MAX);
    is_ip_good
        && find(frame)
            .is_none_or(|place| fold(place.pseudo + sum(&frame[place.start..place.end])) == u16::MAX)
}

/// Fills in the checksum that the sender left to its hardware, as virtio's header says (virtio 1.2, section 5.1.6).
/// That header has flags, GSO type, header length, segment size, start and offset of the checksum, in the machine's
/// order. TCP's checksum stays unfilled, since the stack need not verify it.
///
/// Returns true if TCP's checksum counts as good, and `None` if the header names a place outside the frame.
pub(crate) fn complete(frame: &mut [u8], header: &[u8; VNET_HEADER]) -> Option<bool> {
    let [flags, _, _, _, _, _, start @ .., offset0, offset1] = *header;
    if flags & NEEDS_CHECKSUM == 0 {
        return Some(flags & IS_VALID != 0);
    }
    let start = usize::from(u16::from_ne_bytes(start));
    let place = start + usize::from(u16::from_ne_bytes([offset0, offset1]));
    if frame.len() < place + 2 {
        return None;
    }
    if find(frame).is_some_and(|tcp| tcp.start == start && place == start + FIELD) {
        return Some(true);
    }
    // The field holds the sum over the pseudo-header, which is part of the sum.
    let sum = !fold(sum(&frame[start..]));
    let sum = if sum == 0 { u16::MAX } else { sum };
    frame[place..place + 2].copy_from_slice(&sum.to_ne_bytes());
    Some(false)
}

fn fill_ip(frame: &mut [u8]) {
    if ipv4(frame).is_some() {
        frame[IP_FIELD..IP_FIELD + 2].fill(0);
        let sum = !fold(ipv4(frame).map_or(0, sum));
        frame[IP_FIELD..IP_FIELD + 2].copy_from_slice(&sum.to_ne_bytes());
    }
}

/// Returns the IPv4 header with its options.
fn ipv4(frame: &[u8]) -> Option<&[u8]> {
    let len = usize::from(frame.get(IP)? & 0x0F) * 4;
    if len >= 20 && frame[12..14] == [0x08, 0x00] { frame.get(IP..IP + len) } else { None }
}

fn find(frame: &[u8]) -> Option<Place> {
    let packet = frame.get(IP..)?;
    let (addresses, start, end) = match frame.get(12..14)? {
        [0x08, 0x00] => {
            let header = packet.first_chunk::<20>()?;
            let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3FFF != 0;
            if header[9] != TCP || is_fragment {
                return None;
            }
            let end = usize::from(u16::from_be_bytes([header[2], header[3]]));
            (&packet[12..20], usize::from(header[0] & 0x0F) * 4, end)
        }
        [0x86, 0xDD] => {
            let header = packet.first_chunk::<40>()?;
            let (mut next, mut start) = (header[6], 40);
            if next == HOP_BY_HOP {
                next = *packet.get(40)?;
                start += (usize::from(*packet.get(41)?) + 1) * 8;
            }
            if next != TCP {
                return None;
            }
            let end = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
            (&packet[8..40], start, end)
        }
        _ => return None,
    };
    if start + TCP_HEADER > end || end > packet.len() {
        return None;
    }
    let len = u32::try_from(end - start).ok()?;
    let pseudo = sum(addresses) + sum(&len.to_be_bytes()) + sum(&[0, TCP]);
    Some(Place { start: IP + start, end: IP + end, pseudo })
}

/// Returns the ones' complement sum (RFC 1071) in 64 bits, which no frame overflows. It adds words in the machine's
/// order. Another order would only swap the octets of the result.
fn sum(octets: &[u8]) -> u64 {
    let words = octets.chunks_exact(4);
    let rest = words.remainder();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let add = |sum: u64, word: &[u8]| {
        let word = word.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
        sum + u64::from(word)
    };
    add(words.fold(0, add), &last)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}

/// VIRTIO_NET_HDR_F_NEEDS_CSUM.
pub(crate) const NEEDS_CHECKSUM: u8 = 0x01;
/// VIRTIO_NET_HDR_F_DATA_VALID.
pub(crate) const IS_VALID: u8 = 0x02;
/// The offset of the checksum in the TCP header.
pub(crate) const FIELD: usize = 16;
const IP: usize = 14;
const IP_FIELD: usize = 24;
const TCP: u8 = 0x06;
const TCP_HEADER: usize = 20;
const HOP_BY_HOP: u8 = 0x00;

#[cfg(test)]
mod tests {
    use smoltcp::wire::{IpAddress, Ipv4Packet, TcpPacket};

    use super::*;

    fn header(flags: u8, start: u16, offset: u16) -> [u8; VNET_HEADER] {
        let mut header = [0; VNET_HEADER];
        header[0] = flags;
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..].copy_from_slice(&offset.to_ne_bytes());
        header
    }

    /// The example of RFC 1071 section 3: 00 01 f2 03 f4 f5 f6 f7 sum up to ddf2.
    #[test]
    fn the_sum_covers_what_lies_behind_the_start() {
        let mut frame = [0xFF, 0xFF, 0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7, 0, 0];
        assert_eq!(complete(&mut frame, &header(NEEDS_CHECKSUM, 2, 8)), Some(false));
        assert_eq!(frame[10..], [0x22, 0x0D]);
        assert_eq!(fold(sum(&frame[2..])), 0xFFFF, "what a receiver checks");
    }

    #[test]
    fn an_odd_end_counts_as_if_a_zero_followed() {
        for len in 1..9 {
            let octets: Vec<u8> = (1..=len).collect();
            let padded = [&octets[..], &[0; 3]].concat();
            assert_eq!(fold(sum(&octets)), fold(sum(&padded[..octets.len().next_multiple_of(2)])));
        }
    }

    #[test]
    fn a_whole_checksum_stays_and_a_place_outside_is_refused() {
        let mut frame = [7; 8];
        assert_eq!((complete(&mut frame, &header(0, 2, 0)), frame), (Some(false), [7; 8]));
        assert_eq!(complete(&mut frame, &header(IS_VALID, 0, 0)), Some(true));
        for (start, offset) in [(9, 0), (8, 0), (2, 5), (u16::MAX, u16::MAX)] {
            assert_eq!(complete(&mut frame, &header(NEEDS_CHECKSUM, start, offset)), None);
        }
    }

    /// A frame with a TCP segment of `len` octets in all, and `padding` behind it.
    fn segment(is_v4: bool, len: u16, padding: usize) -> (Vec<u8>, IpAddress, IpAddress) {
        let header: usize = if is_v4 { 34 } else { 54 };
        let octet = |index: usize| u8::try_from(index * 37 % 251).unwrap();
        let mut frame: Vec<u8> = (0..header + usize::from(len) + padding).map(octet).collect();
        if is_v4 {
            frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
            frame[16..18].copy_from_slice(&(20 + len).to_be_bytes());
            frame[20..24].copy_from_slice(&[0x40, 0, 64, TCP]);
            let address = |at: usize| IpAddress::v4(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
            (frame.clone(), address(26), address(30))
        } else {
            frame[12..15].copy_from_slice(&[0x86, 0xDD, 0x60]);
            frame[18..20].copy_from_slice(&len.to_be_bytes());
            frame[20] = TCP;
            let address = |at: usize| {
                let octets: [u8; 16] = frame[at..at + 16].try_into().unwrap();
                core::net::Ipv6Addr::from(octets).into()
            };
            (frame.clone(), address(22), address(38))
        }
    }

    #[test]
    fn smoltcp_accepts_the_checksums_that_are_filled_in() {
        for is_v4 in [true, false] {
            for (len, padding) in [(20, 6), (21, 5), (1460, 0), (9001, 0)] {
                let (mut frame, source, destination) = segment(is_v4, len, padding);
                let start = if is_v4 { 34 } else { 54 };
                let end = start + usize::from(len);
                frame[start + 12] = 0x50;
                assert!(!is_good(&frame), "whatever was in the field");
                fill(&mut frame);
                let packet = TcpPacket::new_checked(&frame[start..end]).unwrap();
                assert!(packet.verify_checksum(&source, &destination) && is_good(&frame));
                assert!(!is_v4 || Ipv4Packet::new_unchecked(&frame[IP..]).verify_checksum());
                let whole = frame.clone();
                // A device adds the octets behind the start to the value of the field.
                assert_eq!(begin(&mut frame), Some(start));
                let sum = !fold(sum(&frame[start..end]));
                frame[start + FIELD..start + FIELD + 2].copy_from_slice(&sum.to_ne_bytes());
                assert_eq!(frame, whole);
                for place in [start + 3, 22] {
                    frame[place] ^= 0x10;
                    assert!(!is_good(&frame));
                    frame[place] ^= 0x10;
                }
            }
        }
    }

    #[test]
    fn options_from_hop_to_hop_stand_before_tcp() {
        for words in 1..4 {
            let (mut frame, source, destination) = segment(false, 21, 5);
            let mut options = vec![0; usize::from(words) * 8];
            options[..2].copy_from_slice(&[TCP, words - 1]);
            frame[18..20].copy_from_slice(&(21 + u16::from(words) * 8).to_be_bytes());
            frame[20] = HOP_BY_HOP;
            frame.splice(54..54, options);
            let start = 54 + usize::from(words) * 8;
            frame[start + 12] = 0x50;
            fill(&mut frame);
            let packet = TcpPacket::new_checked(&frame[start..start + 21]).unwrap();
            assert!(packet.verify_checksum(&source, &destination) && is_good(&frame));
            assert_eq!(begin(&mut frame), Some(start));
        }
    }

    #[test]
    fn an_unfinished_checksum_of_tcp_is_left_to_the_stack() {
        let (mut frame, ..) = segment(true, 40, 0);
        let before = frame.clone();
        assert_eq!(complete(&mut frame, &header(NEEDS_CHECKSUM, 34, 16)), Some(true));
        assert_eq!(frame, before);
    }

    #[test]
    fn no_frame_causes_a_panic() {
        for is_v4 in [true, false] {
            let (whole, ..) = segment(is_v4, 20, 0);
            for len in 0..whole.len() {
                let mut short = whole[..len].to_vec();
                assert!(find(&short).is_none() && begin(&mut short).is_none());
                fill(&mut short);
                assert!(is_good(&short), "it has only an IP header");
            }
        }
    }
}
