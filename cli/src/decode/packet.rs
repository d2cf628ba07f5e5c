//! The TCP segment in a captured packet, behind Ethernet, VLAN, IPv4 or IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use nom::bytes::complete::take;
use nom::number::complete::{be_u8, be_u16, be_u32, be_u128};
use nom::{IResult, Parser};

use super::pcap::Link;

/// A TCP segment with the captured part of its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpSegment {
    /// The sender.
    pub src: SocketAddr,
    /// The receiver.
    pub dst: SocketAddr,
    /// The sequence number of the SYN if there is one, else of the first payload octet.
    pub sequence: u32,
    /// The acknowledgement number, if the ACK flag is set.
    pub acknowledged: Option<u32>,
    /// The SYN flag.
    pub syn: bool,
    /// The payload, as far as it was captured.
    pub payload: Bytes,
    /// The verdict on the checksum.
    pub checksum: Checksum,
}

/// The verdict on a TCP checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// The checksum is right, or cannot be judged: the sender leaves it to its network card, or the packet was cut.
    Plausible,
    /// The checksum is wrong: a receiver throws this segment away.
    Bad,
}

/// The reason why a packet has no TCP segment for the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// ARP, UDP, ICMP and the like.
    NotTcp,
    /// A fragment of an IP datagram. The decoder does not reassemble fragments, which TCP avoids.
    Fragment,
    /// A header that contradicts itself or ends too early.
    Malformed,
}

/// Returns the TCP segment in a packet. The payload shares the packet's memory.
pub fn parse(link: Link, packet: &Bytes) -> Result<TcpSegment, Skipped> {
    let datagram = match link {
        Link::RawIp => &packet[..],
        Link::Ethernet => {
            let (rest, ether_type) = ethernet(packet).map_err(|_| Skipped::Malformed)?;
            if !matches!(ether_type, IPV4 | IPV6) {
                return Err(Skipped::NotTcp);
            }
            rest
        }
    };
    let ip = match datagram.first().map(|first| first >> 4) {
        Some(4) => ipv4(datagram)?,
        Some(6) => ipv6(datagram)?,
        _ => return Err(Skipped::Malformed),
    };
    let (payload, header) = tcp(ip.segment).map_err(|_| Skipped::Malformed)?;
    Ok(TcpSegment {
        src: SocketAddr::new(ip.src, header.src_port),
        dst: SocketAddr::new(ip.dst, header.dst_port),
        sequence: header.sequence,
        acknowledged: (header.flags & ACK != 0).then_some(header.acknowledged),
        syn: header.flags & SYN != 0,
        payload: packet.slice_ref(payload),
        checksum: ip.judge(header.checksum),
    })
}

/// The contents of the IP header, and the octets behind it without the padding of the link layer.
struct Datagram<'a> {
    src: IpAddr,
    dst: IpAddr,
    segment: &'a [u8],
    whole: bool,
}

impl Datagram<'_> {
    /// Judges the checksum. One of zero, or over the pseudo header only, is of a sender whose card fills it in behind
    /// the capture.
    fn judge(&self, field: u16) -> Checksum {
        let pseudo_header = self.pseudo_header();
        let full = fold(sum(self.segment) + pseudo_header);
        if !self.whole || field == 0 || full == 0xffff || fold(pseudo_header) == field {
            Checksum::Plausible
        } else {
            Checksum::Bad
        }
    }

    fn pseudo_header(&self) -> u64 {
        let addresses = |address: IpAddr| match address {
            IpAddr::V4(address) => sum(&address.octets()),
            IpAddr::V6(address) => sum(&address.octets()),
        };
        addresses(self.src) + addresses(self.dst) + u64::from(TCP) + self.segment.len() as u64
    }
}

/// The fields of a TCP header that the decoder reads.
struct TcpHeader {
    src_port: u16,
    dst_port: u16,
    sequence: u32,
    acknowledged: u32,
    flags: u8,
    checksum: u16,
}

/// Returns the EtherType behind all VLAN tags.
fn ethernet(input: &[u8]) -> IResult<&[u8], u16> {
    let (mut rest, (_addresses, mut ether_type)) = (take(12_usize), be_u16).parse(input)?;
    while matches!(ether_type, VLAN | SERVICE_VLAN | OLD_SERVICE_VLAN) {
        (rest, (_, ether_type)) = (be_u16, be_u16).parse(rest)?;
    }
    Ok((rest, ether_type))
}

fn ipv4(input: &[u8]) -> Result<Datagram<'_>, Skipped> {
    let (rest, header) = ipv4_header(input).map_err(|_| Skipped::Malformed)?;
    let Ipv4Header { header_len, total, fragment, protocol, src, dst } = header;
    if fragment & 0x3fff != 0 {
        return Err(Skipped::Fragment);
    }
    if protocol != TCP {
        return Err(Skipped::NotTcp);
    }
    let options = header_len.checked_sub(IPV4_HEADER_LEN).ok_or(Skipped::Malformed)?;
    let rest = rest.get(options..).ok_or(Skipped::Malformed)?;
    // A total length of zero is that of a large segment, which the card cuts later.
    let len =
        if total == 0 { rest.len() } else { total.checked_sub(header_len).ok_or(Skipped::Malformed)? };
    let segment = &rest[..len.min(rest.len())];
    Ok(Datagram { src: src.into(), dst: dst.into(), segment, whole: segment.len() == len })
}

/// The fields of an IPv4 header that the decoder reads.
struct Ipv4Header {
    header_len: usize,
    total: usize,
    /// Flags and fragment offset.
    fragment: u16,
    protocol: u8,
    src: Ipv4Addr,
    dst: Ipv4Addr,
}

fn ipv4_header(input: &[u8]) -> IResult<&[u8], Ipv4Header> {
    let (rest, (version, _service, total)) = (be_u8, be_u8, be_u16).parse(input)?;
    let (rest, (_id, fragment, _ttl, protocol)) = (be_u16, be_u16, be_u8, be_u8).parse(rest)?;
    let (rest, (_checksum, src, dst)) = (be_u16, be_u32, be_u32).parse(rest)?;
    let (header_len, total) = (usize::from(version & 0x0f) * 4, usize::from(total));
    let (src, dst) = (src.into(), dst.into());
    Ok((rest, Ipv4Header { header_len, total, fragment, protocol, src, dst }))
}

fn ipv6(input: &[u8]) -> Result<Datagram<'_>, Skipped> {
    let (rest, (len, next_header, src, dst)) = ipv6_header(input).map_err(|_| Skipped::Malformed)?;
    let len = if len == 0 { rest.len() } else { len };
    let whole = rest.len() >= len;
    let mut rest = &rest[..len.min(rest.len())];
    let mut next_header = next_header;
    while matches!(next_header, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS) {
        (rest, next_header) = extension(rest).map_err(|_| Skipped::Malformed)?;
    }
    match next_header {
        TCP => {
            let (src, dst) = (Ipv6Addr::from(src), Ipv6Addr::from(dst));
            Ok(Datagram { src: src.into(), dst: dst.into(), segment: rest, whole })
        }
        FRAGMENT => Err(Skipped::Fragment),
        _ => Err(Skipped::NotTcp),
    }
}

/// Returns payload length, next header, source and destination.
fn ipv6_header(input: &[u8]) -> IResult<&[u8], (usize, u8, u128, u128)> {
    let (rest, (_version, len, next_header, _hops)) = (be_u32, be_u16, be_u8, be_u8).parse(input)?;
    let (rest, (src, dst)) = (be_u128, be_u128).parse(rest)?;
    Ok((rest, (usize::from(len), next_header, src, dst)))
}

/// Skips one extension header.
fn extension(input: &[u8]) -> IResult<&[u8], u8> {
    let (rest, (next_header, units)) = (be_u8, be_u8).parse(input)?;
    let (rest, _) = take(usize::from(units) * 8 + 6).parse(rest)?;
    Ok((rest, next_header))
}

/// Returns the header, and the octets behind it.
fn tcp(input: &[u8]) -> IResult<&[u8], TcpHeader> {
    let (rest, (src_port, dst_port)) = (be_u16, be_u16).parse(input)?;
    let (rest, (sequence, acknowledged)) = (be_u32, be_u32).parse(rest)?;
    let (rest, (offset, flags, _window)) = (be_u8, be_u8, be_u16).parse(rest)?;
    let (rest, (checksum, _urgent)) = (be_u16, be_u16).parse(rest)?;
    // An offset below 5 points into the header itself. It is read as a header without options.
    let options = (usize::from(offset >> 4) * 4).saturating_sub(TCP_HEADER_LEN);
    let (rest, _) = take(options).parse(rest)?;
    Ok((rest, TcpHeader { src_port, dst_port, sequence, acknowledged, flags, checksum }))
}

/// Returns the sum of 16-bit words, not yet folded.
fn sum(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<2>();
    let last = rest.first().map_or(0, |&octet| u64::from(octet) << 8);
    words.iter().map(|&word| u64::from(u16::from_be_bytes(word))).sum::<u64>() + last
}

/// Folds a sum to 16 bits with the carries added.
#[expect(clippy::cast_possible_truncation, reason = "the loop ends when the value fits")]
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
const OLD_SERVICE_VLAN: u16 = 0x9100;

const TCP: u8 = 0x06;
const HOP_BY_HOP: u8 = 0x00;
const ROUTING: u8 = 0x2b;
const FRAGMENT: u8 = 0x2c;
const DESTINATION_OPTIONS: u8 = 0x3c;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

const IPV4_HEADER_LEN: usize = 20;
const TCP_HEADER_LEN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 datagram with a TCP header, the payload `hi` and this checksum field.
    fn datagram(checksum: u16) -> Vec<u8> {
        let mut out = vec![0x45, 0, 0, 42, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        out.extend([0, 80, 1, 0, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x10, 0, 0]);
        out.extend(checksum.to_be_bytes());
        out.extend(*b"\0\0hi");
        out
    }

    fn read(octets: &[u8]) -> Result<TcpSegment, Skipped> {
        parse(Link::RawIp, &Bytes::copy_from_slice(octets))
    }

    #[test]
    fn the_checksum_is_judged() {
        // Addresses, protocol and length: 0a00 + 0001 + 0a00 + 0002 + 0006 + 0016.
        let pseudo_header = 0x141f;
        let right = !(pseudo_header + 0x0050 + 0x0100 + 0x0007 + 0x0009 + 0x5010 + 0x6869);
        for (field, verdict) in [
            (right, Checksum::Plausible),
            (pseudo_header, Checksum::Plausible),
            (0, Checksum::Plausible),
            (right ^ 1, Checksum::Bad),
        ] {
            let segment = read(&datagram(field)).unwrap();
            assert_eq!((segment.checksum, &segment.payload[..]), (verdict, &b"hi"[..]), "{field:#x}");
            assert_eq!((segment.sequence, segment.acknowledged, segment.syn), (7, Some(9), false));
        }
    }

    #[test]
    fn packets_without_a_tcp_segment_are_left_out() {
        let skipped = |at: usize, value: u8| {
            let mut octets = datagram(0);
            octets[at] = value;
            read(&octets).err()
        };
        assert_eq!(skipped(9, 17), Some(Skipped::NotTcp), "UDP");
        assert_eq!(skipped(6, 0x20), Some(Skipped::Fragment), "more fragments");
        assert_eq!(skipped(7, 1), Some(Skipped::Fragment), "an offset");
        assert_eq!(skipped(0, 0x44), Some(Skipped::Malformed), "IP header too short");
        assert_eq!(skipped(0, 0x4f), Some(Skipped::Malformed), "IP options beyond the end");
        assert_eq!(skipped(0, 0x55), Some(Skipped::Malformed), "IP version");
        assert_eq!(skipped(3, 19), Some(Skipped::Malformed), "total length below the header");
        assert_eq!(skipped(32, 0xf0), Some(Skipped::Malformed), "TCP options beyond the end");
        let arp = [&[0; 12][..], &[0x08, 0x06], &[0; 40]].concat();
        assert_eq!(parse(Link::Ethernet, &arp.into()), Err(Skipped::NotTcp));
    }

    #[test]
    fn a_cut_packet_is_read_as_far_as_it_goes() {
        let whole = datagram(0x1234);
        for cut in 0..40 {
            assert_eq!(read(&whole[..cut]), Err(Skipped::Malformed), "cut at {cut}");
        }
        let segment = read(&whole[..41]).unwrap();
        assert_eq!((&segment.payload[..], segment.checksum), (&b"h"[..], Checksum::Plausible));
    }
}
