//! A peer that writes its own TCP segments, and sees the device's segments one by one. The test chooses the octets of
//! each segment, the order of segments, the first sequence number, and the largest segment that the peer takes.

use std::net::{Ipv4Addr, SocketAddr};

use weft_netif::{Duration, Wire};
use weft_rnic::{Clock, CmEvent, Completion, ConnParam, Device, Listener};
use weft_tests::{PATIENCE, PORT, PairConfig, Side};

use crate::octets::join;

/// A device with such a peer at the other end of its wire.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) side: Side,
    pub(crate) peer: FramePeer,
    _listener: Listener,
}

/// The beginning of the peer's TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// The MSS option of its SYN, if it has one.
    pub(crate) mss: Option<u16>,
    /// Its initial sequence number.
    pub(crate) isn: u32,
}

/// One TCP connection, from below. It acknowledges every segment at once and never sends one again.
#[derive(Debug)]
pub(crate) struct FramePeer {
    wire: Wire,
    clock: Clock,
    device: Device,
    mac: [u8; 6],
    /// Ports of this side and of the device.
    ports: [u16; 2],
    /// Sequence number of the first octet that this side sends.
    first: u32,
    /// Octets sent in order so far.
    sent: usize,
    /// The sequence number of the device's next octet.
    next: u32,
    /// Octets received and not yet read.
    inbox: Vec<u8>,
    /// The payload of each segment received, in order.
    pub(crate) segments: Vec<Vec<u8>>,
    pub(crate) is_finished: bool,
    pub(crate) is_reset: bool,
    /// Acknowledges no more segments.
    pub(crate) is_mute: bool,
    syn: Option<Segment>,
}

#[derive(Clone, Debug)]
struct Segment {
    ports: [u16; 2],
    seq: u32,
    flags: u8,
    payload: Vec<u8>,
}

impl Opening {
    pub(crate) const USUAL: Self = Self { mss: Some(1460), isn: 1000 };
}

impl Bench {
    pub(crate) fn new(config: &PairConfig) -> Self {
        let clock = Clock::virtual_time();
        let (left, wire) = weft_netif::pair(config.mtu);
        let side = Side::new(left, &clock, config.addresses[0], config);
        let listener = side.device.listen(&side.events, PORT).expect("a free port");
        let peer = FramePeer {
            wire,
            clock,
            device: side.device.clone(),
            mac: [0xFF; 6],
            ports: [40_000, PORT],
            first: 0,
            sent: 0,
            next: 0,
            inbox: Vec::new(),
            segments: Vec::new(),
            is_finished: false,
            is_reset: false,
            is_mute: false,
            syn: None,
        };
        Self { side, peer, _listener: listener }
    }

    /// TCP's handshake and MPA's, with the peer as initiator; `flags` are those of its Request.
    pub(crate) fn establish(&mut self, opening: Opening, flags: u8) {
        self.peer.dial(opening);
        self.peer.send(&join("4D504120494420526571204672616D65", &[&[flags, 1, 0, 0]]));
        let CmEvent::ConnectRequest(request) = self.event() else { panic!("no connect request") };
        self.side.device.accept(request.id, &self.side.qp, ConnParam::default()).expect("a free queue pair");
        assert_eq!(self.peer.read(20)[..16], *b"MPA ID Rep Frame");
        assert!(matches!(self.event(), CmEvent::Established { .. }));
    }

    /// The same with the device, made without RFC 6581, as initiator. `flags` are those of the peer's Reply.
    pub(crate) fn establish_active(&mut self, opening: Opening, flags: u8) {
        let remote = SocketAddr::new(PEER.into(), PORT);
        let Side { events, qp, device, .. } = &self.side;
        device.connect(events, qp, remote, ConnParam::default()).expect("a way to the peer");
        self.peer.accept(opening);
        assert_eq!(self.peer.read(20)[..16], *b"MPA ID Req Frame");
        self.peer.send(&join("4D504120494420526570204672616D65", &[&[flags, 1, 0, 0]]));
        assert!(matches!(self.event(), CmEvent::Established { .. }));
    }

    pub(crate) fn event(&mut self) -> CmEvent {
        let events = self.side.events.clone();
        self.peer.wait("an event", |_| events.next())
    }

    pub(crate) fn completion(&mut self) -> Completion {
        let cq = self.side.cq.clone();
        self.peer.wait("a completion", |_| cq.poll_one())
    }
}

impl FramePeer {
    /// Connects to the device.
    pub(crate) fn dial(&mut self, opening: Opening) {
        self.find();
        self.first = opening.isn.wrapping_add(1);
        self.emit(opening.isn, SYN, &mss_option(opening), &[]);
        let syn = self.wait("the device's SYN", |peer| peer.syn.take());
        assert_eq!(syn.flags, SYN | ACK);
        self.emit(self.first, ACK, &[], &[]);
    }

    /// Waits for the device's connection and takes it.
    pub(crate) fn accept(&mut self, opening: Opening) {
        self.find();
        let syn = self.wait("the device's SYN", |peer| peer.syn.take());
        assert_eq!((syn.flags, syn.ports[1]), (SYN, PORT));
        self.ports = [PORT, syn.ports[0]];
        self.first = opening.isn.wrapping_add(1);
        self.emit(opening.isn, SYN | ACK, &mss_option(opening), &[]);
    }

    /// Sends `octets` in order, in segments of at most 536 octets.
    pub(crate) fn send(&mut self, octets: &[u8]) {
        self.send_in(octets, 536);
    }

    /// Sends `octets` in order, in segments of `size` octets.
    pub(crate) fn send_in(&mut self, octets: &[u8], size: usize) {
        for part in octets.chunks(size) {
            self.send_at(self.sent, part);
            self.settle(Duration::from_millis(1));
        }
    }

    /// Sends `octets` in one segment at `offset` of this side's stream, whatever came before.
    pub(crate) fn send_at(&mut self, offset: usize, octets: &[u8]) {
        let seq = self.sequence_at(offset);
        self.emit(seq, ACK | PSH, &[], octets);
        self.sent = self.sent.max(offset + octets.len());
    }

    /// Sends `octets` and FIN in one segment.
    pub(crate) fn send_with_fin(&mut self, octets: &[u8]) {
        let seq = self.sequence_at(self.sent);
        self.emit(seq, ACK | PSH | FIN, &[], octets);
        self.sent += octets.len() + 1;
        self.settle(Duration::from_millis(1));
    }

    /// Returns the next `len` octets of the device.
    pub(crate) fn read(&mut self, len: usize) -> Vec<u8> {
        self.wait("octets", |peer| (peer.inbox.len() >= len).then(|| peer.inbox.drain(..len).collect()))
    }

    /// Returns the octets of this side's stream so far.
    pub(crate) const fn sent(&self) -> usize {
        self.sent
    }

    /// Lets all events of the next `time` happen.
    pub(crate) fn settle(&mut self, time: Duration) {
        let limit = self.clock.now() + time;
        while self.step(limit) {}
    }

    /// Runs until `done` returns a value. Panics after ten minutes of virtual time.
    pub(crate) fn wait<T>(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let limit = self.clock.now() + PATIENCE;
        loop {
            if let Some(result) = done(self) {
                return result;
            }
            assert!(self.step(limit), "waited in vain for {what}");
        }
    }

    /// Asks for the device's hardware address. This also makes its own known.
    fn find(&mut self) {
        let question = [&ARP_HEAD[..], &[0, 1], &MAC, &PEER.octets(), &[0; 6], &DEVICE.octets()].concat();
        self.put(ETHERTYPE_ARP, &question);
        self.wait("the device's address", |peer| (peer.mac != [0xFF; 6]).then_some(()));
    }

    /// Lets the next event up to `limit` happen. Returns false if there is none.
    fn step(&mut self, limit: weft_netif::Instant) -> bool {
        let now = self.clock.now();
        let next = self.device.poll_at(now).filter(|next| *next <= limit);
        let now = next.map_or(limit, |next| next.max(now));
        self.clock.set(now);
        if next.is_some() {
            self.device.poll(now);
        }
        let mut frame = Vec::new();
        while self.wire.receive(now, &mut frame) {
            self.handle_frame(&frame);
        }
        next.is_some()
    }

    fn handle_frame(&mut self, frame: &[u8]) {
        let (head, packet) = frame.split_at(14);
        let ethertype = [head[12], head[13]];
        if ethertype == ETHERTYPE_ARP {
            self.mac.copy_from_slice(&packet[8..14]);
            if packet[7] == 1 {
                let answer = [&ARP_HEAD[..], &[0, 2], &MAC, &PEER.octets(), &packet[8..18]].concat();
                self.put(ETHERTYPE_ARP, &answer);
            }
        } else if ethertype == ETHERTYPE_IPV4 && packet[9] == PROTOCOL_TCP {
            let end = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
            let tcp = &packet[20..end];
            assert_eq!(checksum(&[&pseudo_header(&packet[12..20], tcp.len()), tcp]), 0, "a bad checksum");
            let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
            let segment = Segment {
                ports: [port(0), port(2)],
                seq: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
                flags: tcp[13],
                payload: tcp[usize::from(tcp[12] >> 4) * 4..].to_vec(),
            };
            self.handle_segment(segment);
        }
    }

    fn handle_segment(&mut self, segment: Segment) {
        if segment.flags & RST != 0 {
            self.is_reset = true;
            return;
        }
        if segment.flags & SYN != 0 {
            self.next = segment.seq.wrapping_add(1);
            self.syn = Some(segment);
            return;
        }
        let is_fin = segment.flags & FIN != 0;
        if self.is_mute || (segment.payload.is_empty() && !is_fin) {
            return;
        }
        if segment.seq == self.next {
            let len = u32::try_from(segment.payload.len()).expect("a segment");
            self.next = self.next.wrapping_add(len + u32::from(is_fin));
            self.inbox.extend_from_slice(&segment.payload);
            if !segment.payload.is_empty() {
                self.segments.push(segment.payload);
            }
            self.is_finished |= is_fin;
        }
        self.emit(self.sequence_at(self.sent), ACK, &[], &[]);
    }

    fn sequence_at(&self, offset: usize) -> u32 {
        self.first.wrapping_add(u32::try_from(offset).expect("a short stream"))
    }

    /// Puts a TCP segment on the wire.
    fn emit(&mut self, seq: u32, flags: u8, options: &[u8], payload: &[u8]) {
        let ack = if flags & ACK != 0 { self.next } else { 0 };
        let words = u8::try_from(5 + options.len() / 4).expect("few options");
        let mut tcp = [self.ports[0].to_be_bytes(), self.ports[1].to_be_bytes()].concat();
        tcp.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
        tcp.extend([words << 4, flags, 0xFF, 0xFF, 0, 0, 0, 0]);
        tcp.extend([options, payload].concat());
        let addresses = [PEER.octets(), DEVICE.octets()].concat();
        let sum = checksum(&[&pseudo_header(&addresses, tcp.len()), &tcp]);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let len = u16::try_from(20 + tcp.len()).expect("a packet").to_be_bytes();
        let mut packet = vec![0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, PROTOCOL_TCP, 0, 0];
        packet.extend(addresses);
        let sum = checksum(&[&packet]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(tcp);
        self.put(ETHERTYPE_IPV4, &packet);
    }

    fn put(&mut self, ethertype: [u8; 2], packet: &[u8]) {
        let frame = [&self.mac[..], &MAC, &ethertype, packet].concat();
        self.wire.send(self.clock.now(), &frame);
    }
}

fn mss_option(opening: Opening) -> Vec<u8> {
    opening.mss.map_or_else(Vec::new, |mss| [&[2, 4], &mss.to_be_bytes()[..]].concat())
}

fn pseudo_header(addresses: &[u8], tcp_len: usize) -> Vec<u8> {
    let len = u16::try_from(tcp_len).expect("a segment").to_be_bytes();
    [addresses, &[0, PROTOCOL_TCP], &len].concat()
}

/// Returns the Internet checksum of parts of an even length, except for the last.
fn checksum(parts: &[&[u8]]) -> u16 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u64 = parts.iter().flat_map(|part| part.chunks(2)).map(word).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded")
}

const DEVICE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x77];
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
/// Ethernet and IPv4, with addresses of 6 and 4 octets.
const ARP_HEAD: [u8; 6] = [0, 1, 0x08, 0x00, 6, 4];
const PROTOCOL_TCP: u8 = 6;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
