//! Bodies of the fuzz targets. The tests run them, too.

use core::net::{IpAddr, SocketAddr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{
    Icmpv6Packet, Icmpv6Repr, Ipv4Packet, NdiscRepr, RawHardwareAddress, TcpPacket, TcpSeqNumber,
};

use crate::{IpSetting, Stack, StackConfig, Tcp, Wire, pair};

/// Feeds frames to a stack that listens, opens one connection, and takes every connection that it is offered.
///
/// The first octet chooses IPv4 or IPv6, and the TCP. Records follow: an octet of kind, one of length, and as many octets. A
/// record of an even kind is a frame, whose Ethernet addresses are corrected. A record of an odd kind describes a TCP
/// segment with good checksums. Its sequence numbers are close to those that the stack expects, so that the stack
/// gets beyond the handshake.
pub fn frame(data: &[u8]) {
    run(data);
}

/// As [`frame`]. Returns how many connections were taken, and how many octets received.
fn run(data: &[u8]) -> (usize, usize) {
    let Some((&family, mut rest)) = data.split_first() else { return (0, 0) };
    let tcp = if family & 2 == 0 { Tcp::Smoltcp } else { Tcp::Own };
    let mut bench = Bench::new(family & 1 == 0, tcp);
    while let [kind, len, tail @ ..] = rest {
        let (record, after) = tail.split_at(tail.len().min(usize::from(*len)));
        rest = after;
        let frame = if kind & 1 == 0 { bench.raw(record) } else { bench.segment(*kind, record) };
        bench.deliver(&frame, Duration::from_millis(u64::from(*kind) * 8));
    }
    (bench.accepted, bench.received)
}

struct Bench {
    stack: Stack,
    wire: Wire,
    now: Instant,
    peer: IpAddr,
    /// The peer's next sequence number, and its acknowledgement of the last segment that it got.
    next: TcpSeqNumber,
    seen: TcpSeqNumber,
    accepted: usize,
    received: usize,
}

impl Bench {
    fn new(is_v4: bool, tcp: Tcp) -> Self {
        Self::with(is_v4, tcp, 1500, 4096)
    }

    fn with(is_v4: bool, tcp: Tcp, mtu: usize, tcp_buffer: usize) -> Self {
        let (own, peer) = if is_v4 { ("10.0.0.1/24", "10.0.0.2") } else { ("fd00::1/64", "fd00::2") };
        let (wire, end) = pair(mtu);
        // All three are constants of this file.
        let ip: IpSetting = own.parse().unwrap_or_else(|error| panic!("{error}"));
        let peer: IpAddr = peer.parse().unwrap_or_else(|error| panic!("{error}"));
        let own = ip.address;
        let config = StackConfig { mtu, tcp_buffer, tcp, backlog: 4, ..StackConfig::new(ip) };
        let mut stack = Stack::new(wire, config, Instant::ZERO);
        stack.listen(PORT).unwrap_or_else(|error| panic!("{error}"));
        let remote = SocketAddr::new(peer, PEER_PORT);
        stack
            .connect(remote, Some((own, OWN_PORT).into()), Instant::ZERO)
            .unwrap_or_else(|error| panic!("{error}"));
        let zero = TcpSeqNumber(0);
        let mut bench = Self {
            stack,
            wire: end,
            now: Instant::ZERO,
            peer,
            next: zero,
            seen: zero,
            accepted: 0,
            received: 0,
        };
        let introduction = bench.raw(&bench.introduction());
        bench.deliver(&introduction, Duration::ZERO);
        bench
    }

    /// Returns ethertype and packet of the peer's question for the stack's MAC address, by which the stack learns the
    /// peer's.
    fn introduction(&self) -> Vec<u8> {
        match (self.peer, self.stack.ip().address) {
            (IpAddr::V4(peer), IpAddr::V4(own)) => {
                let mut arp = vec![0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1];
                arp.extend_from_slice(&[&PEER_MAC[..], &peer.octets()].concat());
                arp.extend_from_slice(&[&self.stack.config().mac[..], &own.octets()].concat());
                arp
            }
            (IpAddr::V6(peer), IpAddr::V6(own)) => {
                let question = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit {
                    target_addr: own,
                    lladdr: Some(RawHardwareAddress::from_bytes(&PEER_MAC)),
                });
                let mut payload = vec![0; question.buffer_len()];
                let mut packet = Icmpv6Packet::new_unchecked(&mut payload[..]);
                question.emit(&peer, &own, &mut packet, &ChecksumCapabilities::default());
                in_ip(peer.into(), own.into(), (0x3A, 255), &payload)
            }
            _ => Vec::new(),
        }
    }

    fn deliver(&mut self, frame: &[u8], step: Duration) {
        self.wire.send(self.now, frame);
        self.stack.ingress(self.now);
        while self.stack.next_accepted().is_some() {
            self.accepted += 1;
        }
        while let Some(id) = self.stack.next_ready() {
            let Some(mut llp) = self.stack.llp(id) else { continue };
            let received = llp.readable().to_vec();
            llp.consume(received.len());
            self.received += received.len();
            llp.send_slice(&received);
            if llp.is_drained() {
                llp.shutdown();
            } else if received.first() == Some(&0xFF) {
                self.stack.remove(id);
            }
        }
        self.stack.egress(self.now);
        self.now += step;
        self.stack.egress(self.now);
        let mut sent = Vec::new();
        while self.wire.receive(self.now, &mut sent) {
            self.learn(&sent);
        }
    }

    fn raw(&self, record: &[u8]) -> Vec<u8> {
        let mut frame = self.stack.config().mac.to_vec();
        frame.extend_from_slice(&PEER_MAC);
        frame.extend_from_slice(record);
        frame
    }

    fn segment(&self, kind: u8, record: &[u8]) -> Vec<u8> {
        let octet = |index: usize| record.get(index).copied().unwrap_or(0);
        let shift = |octet: u8| usize::from(octet % 16);
        let body = record.get(4..).unwrap_or_default();
        let options_len = (usize::from(octet(3)) % 11 * 4).min(body.len() / 4 * 4);
        let mut tcp = vec![0; 20];
        tcp.extend_from_slice(body);
        let mut packet = TcpPacket::new_unchecked(&mut tcp[..]);
        let (from, to) = if kind & 2 == 0 { (PEER_PORT, OWN_PORT) } else { (u16::from(kind) | 1, PORT) };
        packet.set_src_port(from);
        packet.set_dst_port(to);
        packet.set_seq_number(self.next + shift(octet(1)) - shift(octet(1) >> 4));
        packet.set_ack_number(self.seen + shift(octet(2)) - shift(octet(2) >> 4));
        packet.set_window_len(u16::from(octet(3)) * 16);
        packet.set_header_len(u8::try_from(20 + options_len).unwrap_or(20));
        let [high, low] = packet.window_len().to_be_bytes();
        tcp[13] = octet(0) & 0x3F;
        tcp[14..16].copy_from_slice(&[high, low]);
        let own = self.stack.ip().address;
        TcpPacket::new_unchecked(&mut tcp[..]).fill_checksum(&self.peer.into(), &own.into());
        self.raw(&in_ip(self.peer, own, (6, 64), &tcp))
    }

    fn learn(&mut self, frame: &[u8]) {
        let header = if self.peer.is_ipv4() { 34 } else { 54 };
        let Some(Ok(packet)) = frame.get(header..).map(TcpPacket::new_checked) else { return };
        self.next = packet.ack_number();
        self.seen = packet.seq_number() + packet.segment_len();
    }
}

/// Returns ethertype, IP header and payload.
fn in_ip(source: IpAddr, destination: IpAddr, (protocol, hop_limit): (u8, u8), payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap_or(0);
    let mut packet = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = vec![0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0x40, 0, hop_limit, protocol, 0, 0];
            header[4..6].copy_from_slice(&(len + 20).to_be_bytes());
            header.extend_from_slice(&source.octets());
            header.extend_from_slice(&destination.octets());
            Ipv4Packet::new_unchecked(&mut header[2..]).fill_checksum();
            header
        }
        (source, destination) => {
            let mut header = vec![0x86, 0xDD, 0x60, 0, 0, 0, 0, 0, protocol, hop_limit];
            header[6..8].copy_from_slice(&len.to_be_bytes());
            for address in [source, destination] {
                if let IpAddr::V6(address) = address {
                    header.extend_from_slice(&address.octets());
                }
            }
            header
        }
    };
    packet.extend_from_slice(payload);
    packet
}

const PORT: u16 = 4791;
const OWN_PORT: u16 = 50_000;
const PEER_PORT: u16 = 7;
const PEER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 2];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn random_frames_and_segments_never_panic() {
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let len = random.below(600);
            let data: Vec<u8> = (0..len).map(|_| random.draw().to_be_bytes()[0]).collect();
            let result = std::panic::catch_unwind(|| frame(&data));
            assert!(result.is_ok(), "seed {seed}");
        }
    }

    /// Returns records with the flags of a real peer, so that many connections come to their ends.
    fn plausible(seed: u64) -> Vec<u8> {
        let mut random = Random::new(!seed);
        let mut data = vec![random.draw().to_be_bytes()[0]];
        for _ in 0..random.below(60) {
            let kind = if random.chance(0.5) { 1 } else { 3 };
            let flags = [0x02, 0x12, 0x10, 0x18, 0x11, 0x14, 0x04, 0x10];
            let flags = flags[usize::try_from(random.below(8)).unwrap_or(0)];
            let payload = random.below(40);
            let len = u8::try_from(4 + payload).unwrap_or(4);
            let near =
                |random: &mut Random| if random.chance(0.7) { 0 } else { random.draw().to_be_bytes()[0] };
            let (seq, ack) = (near(&mut random), near(&mut random));
            data.extend_from_slice(&[kind, len, flags, seq, ack, near(&mut random)]);
            data.extend((1..=payload).map(|_| random.draw().to_be_bytes()[0]));
        }
        data
    }

    #[test]
    fn plausible_segments_never_panic_and_get_far() {
        let (mut accepted, mut received) = (0, 0);
        for seed in 0..3000 {
            let data = plausible(seed);
            let result = std::panic::catch_unwind(|| run(&data));
            let counts = result.unwrap_or_else(|_| panic!("seed {seed}"));
            (accepted, received) = (accepted + counts.0, received + counts.1);
        }
        assert!(accepted > 100 && received > 1000, "{accepted} connections, {received} octets");
    }

    /// smoltcp panics on this without the stack's choice of buffer size: see `receive_len`.
    #[test]
    fn a_flood_that_ignores_the_window_causes_no_panic() {
        flood(Tcp::Smoltcp);
        flood(Tcp::Own);
    }

    fn flood(tcp: Tcp) {
        let mut bench = Bench::with(true, tcp, 65_535, 256 * 1024);
        // SYN with a window scale option, then the ACK of the handshake.
        let syn = bench.segment(3, &[0x02, 0, 0, 1, 3, 3, 7, 0]);
        bench.deliver(&syn, Duration::ZERO);
        let ack = bench.segment(3, &[0x10, 0, 0, 0]);
        bench.deliver(&ack, Duration::ZERO);
        assert_eq!(bench.accepted, 1);
        let mut record = vec![0x10, 0, 0, 0];
        record.resize(65_000, 0x55);
        for number in 0..10_u32 {
            let segment = bench.segment(3, &record);
            bench.wire.send(bench.now, &segment);
            bench.next += record.len() - 4;
            assert_eq!(bench.wire.counters().send_lost, 0, "{number}");
        }
        assert_eq!(bench.stack.ingress(bench.now), 10);
        let id = bench.stack.next_ready().unwrap();
        let mut llp = bench.stack.llp(id).unwrap();
        let mut received = vec![0; 1 << 20];
        let len = llp.peek(&mut received);
        // The first window of the own TCP is 64 KiB.
        assert!((64_996..=256 * 1024).contains(&len), "{len}");
        assert!(received[..len].iter().all(|&octet| octet == 0x55));
    }
}
