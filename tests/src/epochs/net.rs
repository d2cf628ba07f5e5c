//! The switch between the hosts.

use weft_netif::{Impairment, ImpairmentConfig, Instant, Wire, pair};

use crate::simulate::trace::Trace;

/// A port for each host.
#[derive(Debug)]
pub(super) struct Net {
    ports: Vec<Port>,
    /// No frame goes from one of these hosts to the other until then.
    cuts: Vec<([usize; 2], Instant)>,
    mtu: usize,
    pub(super) frames: u64,
}

#[derive(Debug)]
struct Port {
    /// `None`: nothing is plugged in.
    wire: Option<Wire>,
    /// What happens to frames on their way to this host.
    way: Impairment,
}

impl Net {
    pub(super) fn new(ways: &[ImpairmentConfig], mtu: usize) -> Self {
        let port = |way: &ImpairmentConfig| Port { wire: None, way: Impairment::new(way.clone()) };
        Self { ports: ways.iter().map(port).collect(), cuts: Vec::new(), mtu, frames: 0 }
    }

    /// Returns the host's end of a new wire.
    pub(super) fn plug(&mut self, host: usize) -> Wire {
        let (wire, far) = pair(self.mtu);
        self.ports[host].wire = Some(wire);
        far
    }

    /// Loses all that a host sends from now on, and that is sent to it.
    pub(super) fn unplug(&mut self, host: usize) {
        self.ports[host].wire = None;
    }

    /// Cuts the link between two hosts until then.
    pub(super) fn cut(&mut self, hosts: [usize; 2], until: Instant) {
        self.cuts.push((hosts, until));
    }

    /// Mends all links.
    pub(super) fn mend(&mut self) {
        self.cuts.clear();
    }

    /// Takes the frames that the hosts have sent, and delivers those that are due.
    pub(super) fn forward(&mut self, now: Instant, trace: &mut Trace) {
        self.cuts.retain(|(_, until)| now < *until);
        let mut frame = Vec::new();
        for from in 0..self.ports.len() {
            while self.ports[from].wire.as_mut().is_some_and(|wire| wire.receive(now, &mut frame)) {
                trace.frame(now, from, &frame);
                self.frames += 1;
                let to = usize::from(frame.get(5).copied().unwrap_or(0)).wrapping_sub(1);
                let is_for_all = frame.first().is_some_and(|first| first & 1 == 1);
                for other in (0..self.ports.len()).filter(|other| *other != from) {
                    if (is_for_all || other == to) && !self.is_cut([from, other]) {
                        self.ports[other].way.push(now, &frame);
                    }
                }
            }
        }
        for port in &mut self.ports {
            while let Some(frame) = port.way.pop(now) {
                if let Some(wire) = &mut port.wire {
                    wire.send(now, &frame);
                }
            }
        }
    }

    /// Returns the time of the next call, if no host sends a frame.
    pub(super) fn poll_at(&self, now: Instant) -> Option<Instant> {
        if self.ports.iter().any(|port| port.wire.as_ref().is_some_and(Wire::is_readable)) {
            return Some(now);
        }
        self.ports.iter().filter_map(|port| port.way.poll_at()).min()
    }

    /// Returns the MAC address of a host.
    pub(super) fn mac(host: usize) -> [u8; 6] {
        [0x02, 0, 0, 0, 0, u8::try_from(host + 1).unwrap_or(u8::MAX)]
    }

    fn is_cut(&self, [from, to]: [usize; 2]) -> bool {
        self.cuts.iter().any(|(hosts, _)| *hosts == [from, to] || *hosts == [to, from])
    }
}
