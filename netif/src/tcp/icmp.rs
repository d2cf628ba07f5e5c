//! What ICMP says of TCP segments that were sent.

use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, Icmpv6DstUnreachable,
    Icmpv6Message, Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv6Packet,
};
use weft_tcp::{Seq, Unreachable};

use crate::demux::Tuple;

/// An error that ICMP reports (RFC 792, RFC 4443) of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    /// The ends of the segment, the local one first.
    pub(crate) tuple: Tuple,
    /// The number of the segment.
    pub(crate) seq: Seq,
    pub(crate) what: Unreachable,
}

impl Report {
    /// Reads a frame with an error of ICMP about a TCP segment of the station `own`. Its checksum is verified.
    pub(crate) fn read(frame: &[u8], own: IpAddr) -> Option<Self> {
        let ethernet = EthernetFrame::new_checked(frame).ok()?;
        let report = match ethernet.ethertype() {
            EthernetProtocol::Ipv4 => read_v4(ethernet.payload()),
            EthernetProtocol::Ipv6 => read_v6(ethernet.payload()),
            _ => None,
        };
        report.filter(|report| report.tuple.local.ip() == own)
    }
}

fn read_v4(packet: &[u8]) -> Option<Report> {
    let ip = Ipv4Packet::new_checked(packet).ok()?;
    if ip.next_header() != IpProtocol::Icmp {
        return None;
    }
    let icmp = Icmpv4Packet::new_checked(ip.payload()).ok().filter(Icmpv4Packet::verify_checksum)?;
    let what = match (icmp.msg_type(), Icmpv4DstUnreachable::from(icmp.msg_code())) {
        (
            Icmpv4Message::DstUnreachable,
            Icmpv4DstUnreachable::ProtoUnreachable | Icmpv4DstUnreachable::PortUnreachable,
        ) => Unreachable::Hard,
        (Icmpv4Message::DstUnreachable, Icmpv4DstUnreachable::FragRequired) => {
            // RFC 1191 section 4.
            let mtu = u16::from_be_bytes(*ip.payload().get(6..8)?.first_chunk()?);
            Unreachable::TooBig(mtu.saturating_sub(40))
        }
        (Icmpv4Message::DstUnreachable | Icmpv4Message::TimeExceeded, _) => Unreachable::Soft,
        _ => return None,
    };
    let quoted = icmp.data();
    let header = quoted.first_chunk::<20>()?;
    let tcp = quoted.get(usize::from(header[0] & 0x0F) * 4..)?;
    if header[0] >> 4 != 4 || header[9] != TCP {
        return None;
    }
    let address = |at: usize| quoted.get(at..)?.first_chunk::<4>().map(|octets| IpAddr::from(*octets));
    report([address(12)?, address(16)?], tcp, what)
}

fn read_v6(packet: &[u8]) -> Option<Report> {
    let ip = Ipv6Packet::new_checked(packet).ok()?;
    if ip.next_header() != IpProtocol::Icmpv6 {
        return None;
    }
    let icmp = Icmpv6Packet::new_checked(ip.payload()).ok()?;
    if !icmp.verify_checksum(&ip.src_addr(), &ip.dst_addr()) {
        return None;
    }
    let what = match (icmp.msg_type(), Icmpv6DstUnreachable::from(icmp.msg_code())) {
        (Icmpv6Message::DstUnreachable, Icmpv6DstUnreachable::PortUnreachable) => Unreachable::Hard,
        (Icmpv6Message::PktTooBig, _) => {
            let mtu = icmp.pkt_too_big_mtu().min(u32::from(u16::MAX));
            Unreachable::TooBig(u16::try_from(mtu).unwrap_or(u16::MAX).saturating_sub(60))
        }
        (Icmpv6Message::DstUnreachable | Icmpv6Message::TimeExceeded, _) => Unreachable::Soft,
        _ => return None,
    };
    let quoted = ip.payload().get(8..)?;
    let header = quoted.first_chunk::<40>()?;
    if header[0] >> 4 != 6 || header[6] != TCP {
        return None;
    }
    let address = |at: usize| quoted.get(at..)?.first_chunk::<16>().map(|octets| IpAddr::from(*octets));
    report([address(8)?, address(24)?], quoted.get(40..)?, what)
}

fn report([local, remote]: [IpAddr; 2], tcp: &[u8], what: Unreachable) -> Option<Report> {
    let [a, b, c, d, seq @ ..] = *tcp.first_chunk::<8>()?;
    let tuple = Tuple {
        local: SocketAddr::new(local, u16::from_be_bytes([a, b])),
        remote: SocketAddr::new(remote, u16::from_be_bytes([c, d])),
    };
    Some(Report { tuple, seq: Seq(u32::from_be_bytes(seq)), what })
}

const TCP: u8 = 6;

#[cfg(test)]
mod tests {
    use smoltcp::wire::{Icmpv4Packet, Icmpv6Packet, Ipv4Packet};

    use super::*;

    /// The IP header and the first octets of a segment with the number 0x01020304.
    fn quoted(is_v6: bool) -> Vec<u8> {
        let ports = [0x1F, 0x90, 0x12, 0xB7, 1, 2, 3, 4];
        let mut packet = if is_v6 {
            vec![0x60, 0, 0, 0, 0, 20, 6, 64]
        } else {
            vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]
        };
        for end in ends(is_v6) {
            match end.ip() {
                IpAddr::V4(ip) => packet.extend(ip.octets()),
                IpAddr::V6(ip) => packet.extend(ip.octets()),
            }
        }
        packet.extend(ports);
        packet
    }

    fn ends(is_v6: bool) -> [SocketAddr; 2] {
        let text =
            if is_v6 { ["[fd00::1]:8080", "[fd00::2]:4791"] } else { ["10.0.0.1:8080", "10.0.0.2:4791"] };
        text.map(|end| end.parse().unwrap())
    }

    fn frame(is_v6: bool, [kind, code]: [u8; 2], rest: [u8; 4]) -> Vec<u8> {
        let icmp = [&[kind, code, 0, 0][..], &rest, &quoted(is_v6)].concat();
        let mut frame = vec![0; 12];
        if is_v6 {
            frame.extend([0x86, 0xDD, 0x60, 0, 0, 0, 0, u8::try_from(icmp.len()).unwrap(), 0x3A, 64]);
            let (router, own) = ("fd00::9".parse().unwrap(), "fd00::1".parse().unwrap());
            frame.extend(core::net::Ipv6Addr::octets(&router));
            frame.extend(core::net::Ipv6Addr::octets(&own));
            frame.extend(icmp);
            Icmpv6Packet::new_unchecked(&mut frame[54..]).fill_checksum(&router, &own);
        } else {
            frame.extend([8, 0, 0x45, 0, 0, u8::try_from(20 + icmp.len()).unwrap(), 0, 0, 0, 0, 64, 1, 0, 0]);
            frame.extend([10, 0, 0, 9, 10, 0, 0, 1]);
            Ipv4Packet::new_unchecked(&mut frame[14..34]).fill_checksum();
            frame.extend(icmp);
            Icmpv4Packet::new_unchecked(&mut frame[34..]).fill_checksum();
        }
        frame
    }

    #[test]
    fn errors_name_the_segment_and_say_whether_they_pass() {
        let table = [
            (false, [3, 2], [0; 4], Some(Unreachable::Hard)),
            (false, [3, 3], [0; 4], Some(Unreachable::Hard)),
            (false, [3, 1], [0; 4], Some(Unreachable::Soft)),
            (false, [11, 0], [0; 4], Some(Unreachable::Soft)),
            (false, [3, 4], [0, 0, 5, 0], Some(Unreachable::TooBig(1240))),
            (false, [3, 4], [0; 4], Some(Unreachable::TooBig(0))),
            (false, [8, 0], [0; 4], None),
            (true, [1, 4], [0; 4], Some(Unreachable::Hard)),
            (true, [1, 0], [0; 4], Some(Unreachable::Soft)),
            (true, [2, 0], [0, 0, 5, 120], Some(Unreachable::TooBig(1340))),
            (true, [2, 0], [0xFF; 4], Some(Unreachable::TooBig(65_475))),
        ];
        for (is_v6, kind, rest, what) in table {
            let [local, remote] = ends(is_v6);
            let mut frame = frame(is_v6, kind, rest);
            let expected =
                what.map(|what| Report { tuple: Tuple { local, remote }, seq: Seq(0x0102_0304), what });
            assert_eq!(Report::read(&frame, local.ip()), expected, "{kind:?} {rest:?}");
            assert_eq!(Report::read(&frame, remote.ip()), None, "not of this station");
            *frame.last_mut().unwrap() ^= 1;
            assert_eq!(Report::read(&frame, local.ip()), None, "damaged");
        }
    }
}
