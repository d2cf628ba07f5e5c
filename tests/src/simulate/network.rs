//! The switch between the engines, and its faults.

use std::collections::BTreeMap;

use weft_netif::{Impairment, ImpairmentConfig, Instant, Wire, pair};

use super::plan::{Cut, Plan};
use super::random::Random;
use super::trace::Trace;

/// One port for each host.
#[derive(Debug)]
pub(crate) struct Network {
    ports: Vec<Port>,
    cuts: Vec<Cut>,
    forged: usize,
    random: Random,
    frame: Vec<u8>,
    /// The lanes by host and port of their initiators.
    flows: BTreeMap<(usize, u16), Flow>,
    pub(crate) counts: Counts,
}

/// The network's effects on frames, apart from those that its impairments count themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) frames: u64,
    pub(crate) cut: u64,
    pub(crate) forged: u64,
}

/// The network's view of a lane.
#[derive(Clone, Copy, Debug)]
struct Flow {
    lane: usize,
    responder: usize,
    /// The lane's startup, which has no CRC, is over, and its CRC finds forged octets.
    is_guarded: bool,
    forged: u64,
}

#[derive(Debug)]
struct Port {
    wire: Wire,
    /// The impairments on the ways to all hosts.
    boxes: Vec<Impairment>,
}

impl Network {
    /// The network, and the hosts' ends of its wires.
    pub(crate) fn new(plan: &Plan, random: &mut Random) -> (Self, Vec<Wire>) {
        let count = plan.hosts.len();
        let mtu = plan.hosts.iter().map(|host| host.mtu).max().unwrap_or(1500);
        let (ports, wires) = (0..count)
            .map(|_| {
                let (near, far) = pair(mtu);
                let boxes = (0..count)
                    .map(|_| {
                        let seed = random.next();
                        Impairment::new(ImpairmentConfig { seed, ..plan.faults.impairment.clone() })
                    })
                    .collect();
                (Port { wire: near, boxes }, far)
            })
            .unzip();
        let network = Self {
            ports,
            cuts: plan.faults.cuts.clone(),
            forged: plan.faults.forged,
            random: random.fork(),
            frame: Vec::new(),
            flows: BTreeMap::new(),
            counts: Counts::default(),
        };
        (network, wires)
    }

    /// Takes the frames that the hosts have sent, and delivers the due ones.
    pub(crate) fn forward(&mut self, now: Instant, trace: &mut Trace) {
        for from in 0..self.ports.len() {
            let mut frame = std::mem::take(&mut self.frame);
            while self.ports[from].wire.receive(now, &mut frame) {
                trace.frame(now, from, &frame);
                self.counts.frames += 1;
                let to = usize::from(frame.get(5).copied().unwrap_or(0)).wrapping_sub(1);
                let is_group = frame.first().is_some_and(|first| first & 1 == 1);
                for other in (0..self.ports.len()).filter(|&other| other != from) {
                    if is_group || other == to {
                        self.push(now, [from, other], &mut frame);
                    }
                }
            }
            self.frame = frame;
        }
        for from in 0..self.ports.len() {
            for to in 0..self.ports.len() {
                while let Some(frame) = self.ports[from].boxes[to].pop(now) {
                    self.ports[to].wire.send(now, &frame);
                }
            }
        }
    }

    /// Returns the time for the next call, if no host sends a frame.
    pub(crate) fn poll_at(&self, now: Instant) -> Option<Instant> {
        if self.ports.iter().any(|port| port.wire.is_readable()) {
            return Some(now);
        }
        self.ports.iter().flat_map(|port| &port.boxes).filter_map(Impairment::poll_at).min()
    }

    /// Returns the MAC address of a host.
    pub(crate) fn mac(host: usize) -> [u8; 6] {
        [0x02, 0, 0, 0, 0, u8::try_from(host + 1).unwrap_or(u8::MAX)]
    }

    /// Notes the TCP connection of a lane.
    pub(crate) fn open(&mut self, lane: usize, initiator: (usize, u16), responder: usize) {
        self.flows.insert(initiator, Flow { lane, responder, is_guarded: false, forged: 0 });
    }

    /// Allows forged octets on this lane from now on.
    pub(crate) fn guard(&mut self, lane: usize) {
        for flow in self.flows.values_mut().filter(|flow| flow.lane == lane) {
            flow.is_guarded = true;
        }
    }

    /// Returns how many segments of a lane were forged.
    pub(crate) fn forged(&self, lane: usize) -> u64 {
        self.flows.values().filter(|flow| flow.lane == lane).map(|flow| flow.forged).sum()
    }

    /// Returns the numbers of frames that were lost, duplicated, held back and damaged.
    pub(crate) fn impairments(&self) -> [u64; 4] {
        let mut sum = [0; 4];
        for counts in self.ports.iter().flat_map(|port| &port.boxes).map(Impairment::counts) {
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        sum
    }

    /// Returns the number of frames that a full wire has lost.
    pub(crate) fn overflows(&self) -> u64 {
        self.ports.iter().map(|port| port.wire.counters().send_lost).sum()
    }

    /// Returns the number of links that have been cut so far, for ever or for a while.
    pub(crate) fn cut_links(&self, now: Instant, for_ever: bool) -> u64 {
        let cuts = self.cuts.iter().filter(|cut| cut.from < now && cut.to.is_none() == for_ever);
        cuts.count() as u64
    }

    fn push(&mut self, now: Instant, [from, to]: [usize; 2], frame: &mut [u8]) {
        if self.cuts.iter().any(|cut| cut.stops(now, [from, to])) {
            self.counts.cut += 1;
            return;
        }
        if self.forged > 0 && self.random.below(10_000) < self.forged {
            self.forge([from, to], frame);
        }
        self.ports[from].boxes[to].push(now, frame);
    }

    /// Changes an octet of the payload, and corrects TCP's checksum, like a bad switch or network card.
    fn forge(&mut self, [from, to]: [usize; 2], frame: &mut [u8]) {
        let Some((tcp, payload)) = tcp_of(frame) else { return };
        let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let (source, target) = (port(tcp), port(tcp + 2));
        let is = |flow: &&mut Flow, responder| flow.is_guarded && flow.responder == responder;
        let (forth, back) = ((from, source), (to, target));
        let flow = if self.flows.contains_key(&forth) {
            self.flows.get_mut(&forth).filter(|flow| is(flow, to))
        } else {
            self.flows.get_mut(&back).filter(|flow| is(flow, from))
        };
        let Some(flow) = flow.filter(|_| payload < frame.len()) else { return };
        let at = payload + self.random.below(frame.len() - payload);
        let word = at - (at - tcp) % 2;
        let read = |frame: &[u8]| {
            u32::from(u16::from_be_bytes([frame[word], frame.get(word + 1).copied().unwrap_or(0)]))
        };
        let old = read(frame);
        frame[at] ^= u8::try_from(self.random.between(1, 255)).unwrap_or(1);
        let new = read(frame);
        // RFC 1624, equation 3.
        let sum = u32::from(u16::from_be_bytes([frame[tcp + 16], frame[tcp + 17]]));
        let mut folded = (!sum & 0xFFFF) + (!old & 0xFFFF) + new;
        while folded > 0xFFFF {
            folded = (folded & 0xFFFF) + (folded >> 16);
        }
        let [_, _, high, low] = (!folded).to_be_bytes();
        frame[tcp + 16..tcp + 18].copy_from_slice(&[high, low]);
        flow.forged += 1;
        self.counts.forged += 1;
    }
}

impl Cut {
    fn stops(&self, now: Instant, [from, to]: [usize; 2]) -> bool {
        let forth = self.hosts == [from, to];
        let back = self.hosts == [to, from] && !self.one_way;
        (forth || back) && now >= self.from && self.to.is_none_or(|end| now < end)
    }
}

/// Returns the offsets of TCP and of its payload.
fn tcp_of(frame: &[u8]) -> Option<(usize, usize)> {
    let tcp = match frame.get(12..14)? {
        [0x08, 0x00] if frame.get(23) == Some(&TCP) => 14 + usize::from(frame[14] & 0x0F) * 4,
        [0x86, 0xDD] if frame.get(20) == Some(&TCP) => 14 + 40,
        _ => return None,
    };
    let len = usize::from(frame.get(tcp + 12)? >> 4) * 4;
    (tcp + len <= frame.len()).then_some((tcp, tcp + len))
}

const TCP: u8 = 6;
