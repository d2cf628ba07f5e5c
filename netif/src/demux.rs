//! The kind of a frame, and the connection that it is for.

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, SocketAddr};

/// Both ends of a connection, which identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tuple {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

impl Hash for Tuple {
    /// Each frame needs one look-up. So one word (IPv6: three) is hashed instead of each field. All tuples have the
    /// own address in common.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ports = u64::from(self.local.port()) << 16 | u64::from(self.remote.port());
        match self.remote.ip() {
            IpAddr::V4(ip) => state.write_u64(u64::from(ip.to_bits()) << 32 | ports),
            IpAddr::V6(ip) => {
                state.write_u128(ip.to_bits());
                state.write_u64(ports);
            }
        }
    }
}

/// The kind of a frame, so that a socket set can be chosen. Nothing is verified here; the stack does that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peek {
    /// TCP to the own address.
    Tcp(Segment),
    /// ARP or NDP. Afterwards the neighbor cache may know more about these two addresses, which may be the same.
    Neighbor([IpAddr; 2]),
    /// Another frame that the stack may answer, such as an echo request.
    Other,
    /// A frame that is not for this stack, or that the stack must not process.
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) tuple: Tuple,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    /// The acknowledged sequence number, if the segment has one.
    pub(crate) acknowledged: Option<u32>,
    /// The octets of the frame from the TCP header on.
    pub(crate) len: usize,
    /// The MSS option, which is read in a SYN only.
    pub(crate) mss: Option<u16>,
    /// A SYN with the option of window scale.
    pub(crate) scales: bool,
}

impl Segment {
    pub(crate) const fn is_first_syn(&self) -> bool {
        self.flags & (FIN | SYN | RST | ACK) == SYN
    }

    pub(crate) const fn has_syn(&self) -> bool {
        self.flags & SYN != 0
    }

    pub(crate) const fn has_fin(&self) -> bool {
        self.flags & FIN != 0
    }

    pub(crate) const fn is_reset(&self) -> bool {
        self.flags & RST != 0
    }
}

/// Reads the headers of frames for a stack with one MAC and one IP address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demux {
    mac: [u8; 6],
    address: IpAddr,
}

impl Demux {
    pub(crate) const fn new(mac: [u8; 6], address: IpAddr) -> Self {
        Self { mac, address }
    }

    /// Returns the kind of a received frame. `looped` is true if it never was on the wire. A frame from the wire must
    /// not come from this station's addresses or from the loopback. It could put a wrong entry into the neighbor
    /// cache, or pass for a local peer.
    pub(crate) fn peek(&self, frame: &[u8], looped: bool) -> Peek {
        let Some((header, payload)) = frame.split_first_chunk::<14>() else { return Peek::Refused };
        let to_group = header[0] & 1 != 0;
        if !to_group && header[..6] != self.mac {
            return Peek::Refused;
        }
        let peeked = match (self.address, &header[12..14]) {
            (IpAddr::V4(_), [0x08, 0x06]) => self.peek_arp(payload, looped),
            (IpAddr::V4(_), [0x08, 0x00]) => self.peek_ipv4(payload, looped),
            (IpAddr::V6(_), [0x86, 0xDD]) => self.peek_ipv6(payload, looped),
            _ => None,
        };
        match peeked {
            // RFC 9293, MUST-57: no TCP to a group, whatever the IP header says.
            None | Some(Peek::Tcp(_)) if to_group => Peek::Refused,
            peeked => peeked.unwrap_or(Peek::Refused),
        }
    }

    /// Returns true if a frame that this stack sends is for itself: to its own MAC address, or a question for that.
    pub(crate) fn turns_round(&self, frame: &[u8]) -> bool {
        let Some((header, payload)) = frame.split_first_chunk::<14>() else { return false };
        if header[..6] == self.mac {
            return true;
        }
        match (self.address, &header[12..14]) {
            (IpAddr::V4(own), [0x08, 0x06]) => {
                payload.get(24..28).is_some_and(|target| target == own.octets())
            }
            (IpAddr::V6(own), [0x86, 0xDD]) => {
                let is_solicitation =
                    payload.get(6) == Some(&ICMPV6) && payload.get(40) == Some(&NEIGHBOR_SOLICITATION);
                is_solicitation && payload.get(48..64).is_some_and(|target| target == own.octets())
            }
            _ => false,
        }
    }

    fn peek_arp(&self, payload: &[u8], looped: bool) -> Option<Peek> {
        let IpAddr::V4(own) = self.address else { return None };
        let (sender_mac, sender) = (payload.get(8..14)?, payload.get(14..18)?);
        let forged = sender == own.octets() || sender_mac == self.mac;
        let told = IpAddr::from(*sender.first_chunk::<4>()?);
        (looped || !forged).then_some(Peek::Neighbor([told; 2]))
    }

    fn peek_ipv4(&self, packet: &[u8], looped: bool) -> Option<Peek> {
        let header = packet.first_chunk::<20>()?;
        let header_len = usize::from(header[0] & 0x0F) * 4;
        // Flags and fragment offset. The stack reassembles nothing, and must not take a fragment for a packet.
        let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3FFF != 0;
        if header[0] >> 4 != 4 || header_len < 20 || is_fragment {
            return None;
        }
        let source = IpAddr::from(*packet[12..].first_chunk::<4>()?);
        let destination = IpAddr::from(*packet[16..].first_chunk::<4>()?);
        self.peek_transport((source, destination), header[9], packet.get(header_len..)?, looped)
    }

    fn peek_ipv6(&self, packet: &[u8], looped: bool) -> Option<Peek> {
        let header = packet.first_chunk::<40>()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let source = IpAddr::from(*packet[8..].first_chunk::<16>()?);
        let destination = IpAddr::from(*packet[24..].first_chunk::<16>()?);
        let (mut next_header, mut payload) = (header[6], &packet[40..]);
        // The stack skips no other extension header.
        if next_header == HOP_BY_HOP {
            next_header = *payload.first()?;
            payload = payload.get((usize::from(*payload.get(1)?) + 1) * 8..)?;
        }
        self.peek_transport((source, destination), next_header, payload, looped)
    }

    fn peek_transport(
        &self,
        (source, destination): (IpAddr, IpAddr),
        protocol: u8,
        payload: &[u8],
        looped: bool,
    ) -> Option<Peek> {
        let forged = source == self.address && !looped;
        if forged || source.is_loopback() || destination.is_loopback() {
            return None;
        }
        match protocol {
            TCP if destination == self.address => peek_tcp((source, destination), payload).map(Peek::Tcp),
            TCP => None,
            ICMPV6 if source.is_ipv6() && is_neighbor_discovery(payload) => {
                // An advertisement tells about its target, other messages about their source only.
                let advertised =
                    payload.get(8..24).filter(|_| payload.first() == Some(&NEIGHBOR_ADVERTISEMENT));
                let target = advertised.and_then(|target| target.first_chunk::<16>());
                Some(Peek::Neighbor([source, target.map_or(source, |target| IpAddr::from(*target))]))
            }
            _ => Some(Peek::Other),
        }
    }
}

/// Returns true if a frame of our own asks for a neighbor. smoltcp sends it instead of the frame that it had for that
/// neighbor.
pub(crate) fn asks_for_neighbor(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([0x08, 0x06]) => true,
        Some([0x86, 0xDD]) => frame.get(20) == Some(&ICMPV6),
        _ => false,
    }
}

/// Returns true if a frame about neighbors answers a question. All others ask one.
pub(crate) fn answers_for_neighbor(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([0x08, 0x06]) => frame.get(20..22) == Some(&[0, 2]),
        _ => frame.get(54) == Some(&NEIGHBOR_ADVERTISEMENT),
    }
}

fn is_neighbor_discovery(icmp: &[u8]) -> bool {
    icmp.first().is_some_and(|kind| (0x85..=0x89).contains(kind))
}

fn peek_tcp((source, destination): (IpAddr, IpAddr), segment: &[u8]) -> Option<Segment> {
    let header = segment.first_chunk::<20>()?;
    let remote = SocketAddr::new(source, u16::from_be_bytes([header[0], header[1]]));
    let local = SocketAddr::new(destination, u16::from_be_bytes([header[2], header[3]]));
    let flags = header[13];
    let options = segment.get(20..usize::from(header[12] >> 4) * 4)?;
    let (mss, scales) = if flags & SYN != 0 { read_options(options) } else { (None, false) };
    let window = u16::from_be_bytes([header[14], header[15]]);
    let number = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    let acknowledged = (flags & ACK != 0).then_some(number);
    Some(Segment {
        tuple: Tuple { local, remote },
        flags,
        window,
        acknowledged,
        len: segment.len(),
        mss,
        scales,
    })
}

/// Returns the MSS, if there is one, and whether the peer scales windows.
fn read_options(mut options: &[u8]) -> (Option<u16>, bool) {
    let (mut mss, mut scales) = (None, false);
    loop {
        match *options {
            [OPTION_NOP, ref rest @ ..] => options = rest,
            [kind, len, ..] if kind != OPTION_END && len >= 2 => {
                let Some((option, rest)) = options.split_at_checked(usize::from(len)) else {
                    return (mss, scales);
                };
                match *option {
                    [OPTION_MSS, 4, high, low] => mss = Some(u16::from_be_bytes([high, low])),
                    [OPTION_SCALE, 3, _] => scales = true,
                    _ => {}
                }
                options = rest;
            }
            _ => return (mss, scales),
        }
    }
}

/// The MSS of a peer that names none (RFC 9293, MUST-15 and 3.7.1).
pub(crate) const fn default_mss(address: IpAddr) -> u16 {
    if address.is_ipv4() { 536 } else { 1220 }
}

const HOP_BY_HOP: u8 = 0x00;
const TCP: u8 = 0x06;
const ICMPV6: u8 = 0x3A;
const NEIGHBOR_SOLICITATION: u8 = 0x87;
const NEIGHBOR_ADVERTISEMENT: u8 = 0x88;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_MSS: u8 = 2;
const OPTION_SCALE: u8 = 3;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn demux(address: &str) -> Demux {
        Demux::new(MAC, address.parse().unwrap())
    }

    /// A SYN with `options` in IPv6 behind `extension`.
    fn syn_v6(next_header: u8, extension: &[u8], options: &[u8]) -> Vec<u8> {
        let mut frame =
            [&MAC[..], &[2, 0, 0, 0, 0, 2, 0x86, 0xDD, 0x60, 0, 0, 0, 0, 0, next_header, 64]].concat();
        for last in [2, 1] {
            frame.extend_from_slice(&[0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        frame.extend_from_slice(extension);
        let data_offset = u8::try_from((20 + options.len()) / 4 * 16).unwrap();
        frame.extend_from_slice(&[
            0x04,
            0x00,
            0x12,
            0xB7,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            data_offset,
            SYN,
            1,
            2,
            0,
            0,
            0,
            0,
        ]);
        frame.extend_from_slice(options);
        frame
    }

    #[test]
    fn a_syn_tells_its_ends_and_its_mss() {
        let own = demux("fd00::1");
        let segment = Segment {
            tuple: Tuple {
                local: "[fd00::1]:4791".parse().unwrap(),
                remote: "[fd00::2]:1024".parse().unwrap(),
            },
            flags: SYN,
            window: 0x0102,
            acknowledged: None,
            len: 28,
            mss: Some(1440),
            scales: true,
        };
        assert!(segment.is_first_syn() && !segment.is_reset());
        let options = [1, 3, 3, 7, 2, 4, 0x05, 0xA0];
        assert_eq!(own.peek(&syn_v6(TCP, &[], &options), false), Peek::Tcp(segment));
        let padding = [TCP, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(own.peek(&syn_v6(HOP_BY_HOP, &padding, &options), false), Peek::Tcp(segment));
        assert_eq!(demux("fd00::3").peek(&syn_v6(TCP, &[], &options), false), Peek::Refused);
    }

    /// A question tells its sender's address, and nothing about the wanted station. An answer tells both.
    #[test]
    fn neighbor_frames_name_the_stations_that_they_make_known() {
        let address = |last: u8| IpAddr::from([0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        for (kind, told) in [(NEIGHBOR_SOLICITATION, [2, 2]), (NEIGHBOR_ADVERTISEMENT, [2, 3])] {
            let mut frame = syn_v6(ICMPV6, &[], &[0; 4]);
            frame[54] = kind;
            frame[62..78].copy_from_slice(&[0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
            let told = told.map(address);
            assert_eq!(demux("fd00::1").peek(&frame, false), Peek::Neighbor(told));
        }
        let arp =
            [0, 1, 0x08, 0x00, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1];
        let frame = [&MAC[..], &[2, 0, 0, 0, 0, 2, 0x08, 0x06], &arp].concat();
        let told = IpAddr::from([10, 0, 0, 2]);
        assert_eq!(demux("10.0.0.1").peek(&frame, false), Peek::Neighbor([told; 2]));
    }

    #[test]
    fn options_are_read_up_to_the_first_invalid_one() {
        let table: [(&[u8], Option<u16>, bool); 12] = [
            (&[], None, false),
            (&[2, 4, 1, 2], Some(0x0102), false),
            (&[1, 1, 1, 2, 4, 1, 2, 0], Some(0x0102), false),
            (&[2, 4, 1, 2, 1, 3, 3, 7], Some(0x0102), true),
            (&[3, 3, 0, 8, 0, 2, 4, 1], None, true),
            (&[3, 4, 0, 0], None, false),
            (&[0, 2, 4, 1, 2, 3, 3, 0], None, false),
            (&[2, 3, 1, 2], None, false),
            (&[8, 0, 2, 4], None, false),
            (&[8, 200, 2, 4], None, false),
            (&[2, 4, 1], None, false),
            (&[1, 1, 1, 2], None, false),
        ];
        for (options, mss, scales) in table {
            assert_eq!(read_options(options), (mss, scales), "{options:?}");
        }
    }

    proptest! {
        #[test]
        fn no_octets_cause_a_panic(mut frame in prop::collection::vec(any::<u8>(), 0..120), kind in 0..4) {
            if frame.len() >= 15 {
                frame[..6].copy_from_slice(&MAC);
                let (ethertype, first) = match kind {
                    0 => ([0x08, 0x00], 0x45),
                    1 => ([0x86, 0xDD], 0x60),
                    2 => ([0x08, 0x06], 0),
                    _ => ([0x99, 0x99], 0),
                };
                frame[12..14].copy_from_slice(&ethertype);
                frame[14] = first;
            }
            for demux in [demux("10.0.0.1"), demux("fd00::1")] {
                demux.peek(&frame, false);
                demux.peek(&frame, true);
                demux.turns_round(&frame);
            }
            asks_for_neighbor(&frame);
        }
    }
}
