//! The switch between the hosts.

use weft_netif::{Impairment, ImpairmentConfig, Instant, Wire, pair};

use crate::simulate::random::Random;
use crate::simulate::trace::Trace;

/// A port for each host.
#[derive(Debug)]
pub(crate) struct Hub {
    ports: Vec<Port>,
    pub(crate) frames: u64,
    /// Frames are lost, and take time. Before that all arrive at once: connections come up.
    pub(crate) is_faulty: bool,
}

#[derive(Debug)]
struct Port {
    wire: Wire,
    /// What happens to frames on their way to this host.
    way: Impairment,
    /// Nothing comes in or out until then.
    away_until: Option<Instant>,
}

impl Hub {
    /// Returns the switch, and the hosts' ends of its wires.
    pub(crate) fn new(
        hosts: usize,
        mtu: usize,
        faults: &ImpairmentConfig,
        random: &mut Random,
    ) -> (Self, Vec<Wire>) {
        let (ports, wires) = (0..hosts)
            .map(|_| {
                let (wire, far) = pair(mtu);
                let way = Impairment::new(ImpairmentConfig { seed: random.next(), ..faults.clone() });
                (Port { wire, way, away_until: None }, far)
            })
            .unzip();
        (Self { ports, frames: 0, is_faulty: false }, wires)
    }

    /// Cuts a host off until then.
    pub(crate) fn cut(&mut self, host: usize, until: Instant) {
        self.ports[host].away_until = Some(until);
    }

    /// Takes the frames that the hosts have sent, and delivers those that are due.
    pub(crate) fn forward(&mut self, now: Instant, trace: &mut Trace) {
        let mut frame = Vec::new();
        for from in 0..self.ports.len() {
            while self.ports[from].wire.receive(now, &mut frame) {
                trace.frame(now, from, &frame);
                self.frames += 1;
                let to = usize::from(frame.get(5).copied().unwrap_or(0)).wrapping_sub(1);
                let is_for_all = frame.first().is_some_and(|first| first & 1 == 1);
                for other in (0..self.ports.len()).filter(|other| *other != from) {
                    let is_its = is_for_all || other == to;
                    if !is_its || self.is_away(from, now) || self.is_away(other, now) {
                        continue;
                    }
                    if self.is_faulty {
                        self.ports[other].way.push(now, &frame);
                    } else {
                        self.ports[other].wire.send(now, &frame);
                    }
                }
            }
        }
        for port in &mut self.ports {
            while let Some(frame) = port.way.pop(now) {
                port.wire.send(now, &frame);
            }
        }
    }

    /// Returns the time of the next call, if no host sends a frame.
    pub(crate) fn poll_at(&self, now: Instant) -> Option<Instant> {
        if self.ports.iter().any(|port| port.wire.is_readable()) {
            return Some(now);
        }
        self.ports.iter().filter_map(|port| port.way.poll_at()).min()
    }

    /// Returns when the next host comes back that is cut off.
    pub(crate) fn back_at(&self, now: Instant) -> Option<Instant> {
        self.ports.iter().filter_map(|port| port.away_until.filter(|until| now < *until)).min()
    }

    /// Returns the MAC address of a host.
    pub(crate) fn mac(host: usize) -> [u8; 6] {
        [0x02, 0, 0, 0, 0, u8::try_from(host + 1).unwrap_or(u8::MAX)]
    }

    /// Returns whether a host is cut off.
    pub(crate) fn is_away(&self, host: usize, now: Instant) -> bool {
        self.ports[host].away_until.is_some_and(|until| now < until)
    }
}
