//! The headers of segments that go.

use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket,
};

use crate::{Ecn, Options, Segment, Tuple};

/// Ethernet, IP and TCP header of one connection. Each segment gets a copy in which its fields are patched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    octets: [u8; ETHERNET + IPV6 + TCP],
    /// Octets of the IP header.
    ip: usize,
}

impl Template {
    /// The longest header that is written.
    pub const MAX_LEN: usize = ETHERNET + IPV6 + TCP + Options::MAX_LEN;

    /// Returns the headers from the first Ethernet address to the second one, or nothing if the ends have addresses of
    /// different families.
    pub fn new((own, next_hop): ([u8; 6], [u8; 6]), tuple: &Tuple) -> Option<Self> {
        let mut octets = [0; ETHERNET + IPV6 + TCP];
        let mut ethernet = EthernetFrame::new_unchecked(&mut octets[..]);
        ethernet.set_src_addr(EthernetAddress(own));
        ethernet.set_dst_addr(EthernetAddress(next_hop));
        let ip = match (tuple.local, tuple.remote) {
            (SocketAddr::V4(local), SocketAddr::V4(remote)) => {
                ethernet.set_ethertype(EthernetProtocol::Ipv4);
                let mut packet = Ipv4Packet::new_unchecked(octets.get_mut(ETHERNET..)?);
                packet.set_version(4);
                packet.set_header_len(20);
                packet.set_dont_frag(true);
                packet.set_hop_limit(HOP_LIMIT);
                packet.set_next_header(IpProtocol::Tcp);
                packet.set_src_addr(*local.ip());
                packet.set_dst_addr(*remote.ip());
                IPV4
            }
            (SocketAddr::V6(local), SocketAddr::V6(remote)) => {
                ethernet.set_ethertype(EthernetProtocol::Ipv6);
                let mut packet = Ipv6Packet::new_unchecked(octets.get_mut(ETHERNET..)?);
                packet.set_version(6);
                packet.set_hop_limit(HOP_LIMIT);
                packet.set_next_header(IpProtocol::Tcp);
                packet.set_src_addr(*local.ip());
                packet.set_dst_addr(*remote.ip());
                IPV6
            }
            _ => return None,
        };
        let mut tcp = TcpPacket::new_unchecked(octets.get_mut(ETHERNET + ip..)?);
        tcp.set_src_port(tuple.local.port());
        tcp.set_dst_port(tuple.remote.port());
        Some(Self { octets, ip })
    }

    /// Has later segments go to another Ethernet address.
    pub fn set_next_hop(&mut self, next_hop: [u8; 6]) {
        EthernetFrame::new_unchecked(&mut self.octets[..]).set_dst_addr(EthernetAddress(next_hop));
    }

    /// Returns the octets of a segment's headers.
    pub fn len(&self, options: &Options) -> usize {
        ETHERNET + self.ip + TCP + options.len()
    }

    /// Writes the headers of a segment to the beginning of `out`, and returns their length.
    ///
    /// The checksums stay 0: the wire fills them in, or leaves that to a device. Returns nothing if `out` is too short,
    /// or headers and payload are too long for an IP packet.
    pub fn write(&self, segment: &Segment, out: &mut [u8]) -> Option<usize> {
        let fixed = ETHERNET + self.ip + TCP;
        let len = self.len(&segment.options);
        let out = out.get_mut(..len)?;
        let (headers, options) = out.split_at_mut_checked(fixed)?;
        headers.copy_from_slice(self.octets.get(..fixed)?);
        segment.options.emit(options)?;
        let options_len = u8::try_from(segment.options.len()).ok()?;
        self.patch_ip(headers, segment, len)?;
        let tcp = headers.get_mut(ETHERNET + self.ip..)?.first_chunk_mut::<TCP>()?;
        let ack = segment.ack.map_or(0, |ack| ack.0);
        tcp[4..8].copy_from_slice(&segment.seq.0.to_be_bytes());
        tcp[8..12].copy_from_slice(&ack.to_be_bytes());
        tcp[12] = (20 + options_len) << 2;
        tcp[13] = segment.flags.octet() | if segment.ack.is_some() { ACK } else { 0 };
        tcp[14..16].copy_from_slice(&segment.window.to_be_bytes());
        Some(len)
    }

    /// Writes length and ECN into the IP header.
    fn patch_ip(&self, headers: &mut [u8], segment: &Segment, len: usize) -> Option<()> {
        let ip = headers.get_mut(ETHERNET..)?.first_chunk_mut::<IPV4>()?;
        let before = if self.ip == IPV4 { ETHERNET } else { ETHERNET + IPV6 };
        let behind = len.checked_sub(before)?.checked_add(usize::try_from(segment.len).ok()?)?;
        let behind = u16::try_from(behind).ok()?.to_be_bytes();
        if self.ip == IPV4 {
            ip[1] = segment.ecn as u8;
            ip[2..4].copy_from_slice(&behind);
        } else {
            ip[1] = (segment.ecn as u8) << 4;
            ip[4..6].copy_from_slice(&behind);
        }
        Some(())
    }
}

impl Segment {
    /// Reads an IP packet with a TCP segment. Checksums are not looked at, and octets behind the packet not either.
    /// Returns nothing for a fragment, another protocol, extension headers, and what is cut off.
    pub fn from_ip(packet: &[u8]) -> Option<(Tuple, Self)> {
        let (ends, ecn, tcp): ((IpAddr, IpAddr), Ecn, &[u8]) = match packet.first()? >> 4 {
            4 => {
                let ip = Ipv4Packet::new_checked(packet).ok()?;
                if ip.more_frags() || ip.frag_offset() != 0 || ip.next_header() != IpProtocol::Tcp {
                    return None;
                }
                let ecn = Ecn::of(*packet.get(1)?);
                ((ip.dst_addr().into(), ip.src_addr().into()), ecn, ip.payload())
            }
            6 => {
                let ip = Ipv6Packet::new_checked(packet).ok()?;
                if ip.next_header() != IpProtocol::Tcp {
                    return None;
                }
                let ecn = Ecn::of(*packet.get(1)? >> 4);
                ((ip.dst_addr().into(), ip.src_addr().into()), ecn, ip.payload())
            }
            _ => return None,
        };
        let segment = Self::parse(tcp, ecn).ok()?;
        let ports = TcpPacket::new_unchecked(tcp);
        let local = SocketAddr::new(ends.0, ports.dst_port());
        let remote = SocketAddr::new(ends.1, ports.src_port());
        Some((Tuple { local, remote }, segment))
    }
}

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const TCP: usize = 20;
const HOP_LIMIT: u8 = 64;
const ACK: u8 = 0x10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Flags, Interval, Seq, Timestamps};

    fn tuple(is_v6: bool) -> Tuple {
        let text = if is_v6 { ["[fd00::1]:700", "[fd00::2]:80"] } else { ["10.0.0.1:700", "10.0.0.2:80"] };
        let [local, remote] = text.map(|end| end.parse().unwrap());
        Tuple { local, remote }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            is_v6: bool, seq: u32, ack: Option<u32>, bits: u8, window: u16, len in 0_u32..1000,
            times: Option<(u32, u32)>, block: Option<(u32, u32)>,
        ) {
            let set = |flag: Flags| if bits & flag.octet() != 0 { flag } else { Flags::NONE };
            let flags = [Flags::FIN, Flags::SYN, Flags::RST, Flags::PSH, Flags::ECE, Flags::CWR];
            let flags = flags.into_iter().fold(Flags::NONE, |all, flag| all | set(flag));
            let mut segment =
                Segment { flags, window, len, ecn: Ecn::of(bits), ..Segment::new(Seq(seq), ack.map(Seq)) };
            segment.options.timestamps = times.map(|(value, echo)| Timestamps { value, echo });
            if let Some((start, end)) = block {
                segment.options.sack.push(Interval::new(Seq(start), Seq(end)));
            }
            let ends = tuple(is_v6);
            let template = Template::new(([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]), &ends).unwrap();
            let mut frame = [0xAA; 1500];
            let headers = template.write(&segment, &mut frame).unwrap();
            prop_assert_eq!(headers, template.len(&segment.options));
            prop_assert_eq!(&frame[..14], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1].iter().copied()
                .chain(if is_v6 { [0x86, 0xDD] } else { [8, 0] }).collect::<std::vec::Vec<u8>>());
            let read = Segment::from_ip(&frame[14..]).unwrap();
            let mirrored = Tuple { local: ends.remote, remote: ends.local };
            prop_assert_eq!(read, (mirrored, segment));
            prop_assert!(frame[headers..].iter().all(|&octet| octet == 0xAA), "payload is not touched");
            prop_assert_eq!(template.write(&segment, &mut frame[..headers - 1]), None);
        }

        #[test]
        fn any_packet_is_read_or_refused(packet in proptest::collection::vec(any::<u8>(), 0..100), first in 0_usize..3) {
            let mut packet = packet;
            if let (Some(octet), 1..) = (packet.first_mut(), first) {
                *octet = [0, 0x45, 0x60][first];
            }
            if let Some((_, segment)) = Segment::from_ip(&packet) {
                prop_assert!(segment.len < 100);
            }
        }
    }

    /// RFC 9293 section 3.9.2.1 (MUST-50).
    // Covers 9293-MUST-50.
    #[test]
    fn options_of_ip_are_ignored() {
        let template = Template::new(([0; 6], [0; 6]), &tuple(false)).unwrap();
        let mut frame = [0; 54];
        template.write(&Segment::new(Seq(7), None), &mut frame).unwrap();
        let plain = Segment::from_ip(&frame[14..]);
        let record_route = [7, 7, 4, 0, 0, 0, 0, 0];
        let mut packet = [&frame[14..34], &record_route, &frame[34..]].concat();
        (packet[0], packet[3]) = (0x47, packet[3] + 8);
        assert!(plain.is_some());
        assert_eq!(Segment::from_ip(&packet), plain);
    }

    #[test]
    fn families_do_not_mix_and_lengths_fit() {
        let mixed = Tuple { local: tuple(true).local, remote: tuple(false).remote };
        assert_eq!(Template::new(([0; 6], [0; 6]), &mixed), None);
        let template = Template::new(([0; 6], [0; 6]), &tuple(false)).unwrap();
        let longest = Segment { len: 65_495, ..Segment::new(Seq(0), None) };
        assert_eq!(template.write(&longest, &mut [0; 100]), Some(54));
        assert_eq!(template.write(&Segment { len: 65_496, ..longest }, &mut [0; 100]), None);
    }
}
