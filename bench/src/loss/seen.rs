//! What the relay has seen of the connections on it.

use core::net::Ipv4Addr;

use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket};
use weft_netif::{Duration, Instant};

/// What the relay has seen since the path was laid.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Since when.
    since: Instant,
    /// The connections that have sent data, in the order of their first data.
    pub(super) flows: Vec<Flow>,
    /// Frames of data that the path has lost.
    pub(super) lost: u64,
    /// When an acknowledgement last acknowledged more than all before.
    pub(super) progress: Instant,
}

/// One connection, as far as its data goes: from the first host to the second.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    key: Key,
    /// When its first data came, since the path was laid.
    pub(super) first: Duration,
    /// Behind the last octet that was sent, and behind the last one that was acknowledged.
    sent: u32,
    acknowledged: u32,
    /// Segments of data later than a second after the first one, and those of them that were sent before.
    pub(super) segments: u64,
    pub(super) repeated: u64,
    /// Octets of payload that were delivered in each [`BIN`] since the path was laid.
    pub(super) delivered: Vec<u64>,
}

/// The sender's address, and both ports.
type Key = (Ipv4Addr, u16, u16);

/// The parts of a TCP segment that matter here.
struct Segment {
    from: (Ipv4Addr, u16),
    to: (Ipv4Addr, u16),
    sequence: u32,
    acknowledgement: Option<u32>,
    payload: usize,
}

impl Seen {
    /// Returns what is seen of a path that is laid at `now`: nothing.
    pub(super) fn since(now: Instant) -> Self {
        Self { since: now, flows: Vec::new(), lost: 0, progress: now }
    }

    /// Notes a frame that the sender of data has sent.
    pub(super) fn sent(&mut self, now: Instant, frame: &[u8]) {
        let Some(segment) = Segment::read(frame).filter(|segment| segment.payload > 0) else { return };
        let (key, end, since) = (segment.key(), segment.end(), now - self.since);
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.key == key) else {
            self.flows.push(Flow {
                key,
                first: since,
                sent: end,
                acknowledged: segment.sequence,
                segments: 0,
                repeated: 0,
                delivered: Vec::new(),
            });
            return;
        };
        let is_new = is_behind(end, flow.sent);
        if is_new {
            flow.sent = end;
        }
        if since >= flow.first + SETTLED {
            flow.segments += 1;
            flow.repeated += u64::from(!is_new);
        }
    }

    /// Notes a frame that reaches the receiver of data.
    pub(super) fn delivered(&mut self, now: Instant, frame: &[u8]) {
        let Some(segment) = Segment::read(frame).filter(|segment| segment.payload > 0) else { return };
        let (key, bin) = (segment.key(), index(now - self.since));
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.key == key) else { return };
        if flow.delivered.len() <= bin {
            flow.delivered.resize(bin + 1, 0);
        }
        flow.delivered[bin] += segment.payload as u64;
    }

    /// Notes a frame that the receiver of data has sent.
    pub(super) fn answered(&mut self, now: Instant, frame: &[u8]) {
        let Some(Segment { from, to, acknowledgement: Some(number), .. }) = Segment::read(frame) else {
            return;
        };
        let key = (to.0, to.1, from.1);
        if let Some(flow) = self.flows.iter_mut().find(|flow| flow.key == key)
            && is_behind(number, flow.acknowledged)
        {
            flow.acknowledged = number;
            self.progress = now;
        }
    }
}

impl Flow {
    /// Returns the octets that were delivered in an interval since the path was laid.
    pub(super) fn octets(&self, from: Duration, until: Duration) -> u64 {
        let bins = self.delivered.iter().take(index(until)).skip(index(from));
        bins.sum()
    }

    /// Returns true if the data comes from this address.
    pub(super) fn is_from(&self, address: Ipv4Addr) -> bool {
        self.key.0 == address
    }
}

impl Segment {
    fn read(frame: &[u8]) -> Option<Self> {
        let ethernet = EthernetFrame::new_checked(frame).ok()?;
        if ethernet.ethertype() != EthernetProtocol::Ipv4 {
            return None;
        }
        let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
        if ip.next_header() != IpProtocol::Tcp {
            return None;
        }
        let tcp = TcpPacket::new_checked(ip.payload()).ok()?;
        let number = |number: smoltcp::wire::TcpSeqNumber| u32::from_ne_bytes(number.0.to_ne_bytes());
        Some(Self {
            from: (ip.src_addr(), tcp.src_port()),
            to: (ip.dst_addr(), tcp.dst_port()),
            sequence: number(tcp.seq_number()),
            acknowledgement: tcp.ack().then(|| number(tcp.ack_number())),
            payload: tcp.payload().len(),
        })
    }

    const fn key(&self) -> Key {
        (self.from.0, self.from.1, self.to.1)
    }

    fn end(&self) -> u32 {
        self.sequence.wrapping_add(u32::try_from(self.payload).unwrap_or(0))
    }
}

/// Returns true if the first sequence number is behind the second (RFC 9293 section 3.4).
const fn is_behind(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() > 0
}

fn index(since: Duration) -> usize {
    usize::try_from(since.total_micros() / BIN.total_micros()).unwrap_or(usize::MAX)
}

/// The grain of what is counted over time.
pub(super) const BIN: Duration = Duration::from_millis(10);
/// Repeated segments count from here on.
const SETTLED: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{
        EthernetAddress, EthernetRepr, IpAddress, Ipv4Repr, TcpControl, TcpRepr, TcpSeqNumber,
    };

    use super::*;

    const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

    /// Returns a segment from one of the hosts to the other.
    fn frame(from: usize, sequence: u32, payload: &[u8], acknowledgement: u32) -> Vec<u8> {
        let number = |number: u32| TcpSeqNumber(number.cast_signed());
        let ports = [7000, 7001];
        let tcp = TcpRepr {
            src_port: ports[from],
            dst_port: ports[1 - from],
            control: TcpControl::None,
            seq_number: number(sequence),
            ack_number: Some(number(acknowledgement)),
            window_len: 1000,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload,
        };
        let ip = Ipv4Repr {
            src_addr: HOSTS[from],
            dst_addr: HOSTS[1 - from],
            next_header: IpProtocol::Tcp,
            payload_len: tcp.buffer_len(),
            hop_limit: 64,
        };
        let ethernet = EthernetRepr {
            src_addr: EthernetAddress([2; 6]),
            dst_addr: EthernetAddress([4; 6]),
            ethertype: EthernetProtocol::Ipv4,
        };
        let mut octets = vec![0; ethernet.buffer_len() + ip.buffer_len() + tcp.buffer_len()];
        let none = ChecksumCapabilities::ignored();
        ethernet.emit(&mut EthernetFrame::new_unchecked(&mut octets[..]));
        ip.emit(&mut Ipv4Packet::new_unchecked(&mut octets[14..]), &none);
        let (source, target) = (IpAddress::Ipv4(HOSTS[from]), IpAddress::Ipv4(HOSTS[1 - from]));
        tcp.emit(&mut TcpPacket::new_unchecked(&mut octets[34..]), &source, &target, &none);
        octets
    }

    #[test]
    fn repeated_segments_count_behind_the_first_second() {
        let at = Instant::from_millis;
        let mut seen = Seen::since(at(0));
        // The numbers wrap around between the first two.
        let start = u32::MAX - 99;
        for (millis, sequence) in [(0, start), (1, 0), (2, start), (1500, 100), (1501, 0), (1502, 200)] {
            seen.sent(at(millis), &frame(0, sequence, &[1; 100], 5));
        }
        seen.sent(at(1503), &frame(0, 300, &[], 5));
        let [flow] = seen.flows.as_slice() else { panic!("{:?}", seen.flows) };
        assert_eq!((flow.segments, flow.repeated), (3, 1));
        assert!(flow.is_from(HOSTS[0]) && !flow.is_from(HOSTS[1]));
    }

    #[test]
    fn only_an_acknowledgement_of_more_is_progress() {
        let at = Instant::from_millis;
        let mut seen = Seen::since(at(7));
        seen.sent(at(8), &frame(0, 1000, &[1; 100], 5));
        for (millis, number, progress) in [(9, 1000, 7), (10, 1050, 10), (11, 1050, 10), (12, 1020, 10)] {
            seen.answered(at(millis), &frame(1, 5, &[], number));
            assert_eq!(seen.progress, at(progress), "{number}");
        }
    }

    #[test]
    fn delivered_octets_count_in_their_time() {
        let (at, millis) = (Instant::from_millis, Duration::from_millis);
        let mut seen = Seen::since(at(100));
        seen.delivered(at(101), &frame(0, 1000, &[1; 100], 5));
        seen.sent(at(101), &frame(0, 1000, &[1; 100], 5));
        for (time, len) in [(101, 10), (109, 20), (110, 40), (139, 80)] {
            seen.delivered(at(time), &frame(0, 1000, &vec![1; len], 5));
        }
        let flow = &seen.flows[0];
        assert_eq!(flow.delivered, [30, 40, 0, 80]);
        assert_eq!([flow.octets(millis(0), millis(10)), flow.octets(millis(10), millis(1000))], [30, 120]);
    }

    #[test]
    fn frames_of_others_are_no_segments() {
        let good = frame(0, 1, &[1; 10], 5);
        assert!(Segment::read(&good).is_some_and(|segment| segment.payload == 10));
        for end in 0..good.len() {
            assert!(Segment::read(&good[..end]).is_none(), "{end}");
        }
        let (mut arp, mut udp) = (good.clone(), good);
        arp[13] = 6;
        udp[23] = 17;
        assert!(Segment::read(&arp).is_none() && Segment::read(&udp).is_none());
    }
}
