//! Hosts and the network between them, on one virtual clock.

use weft_group::{Replica, Session, Terms};
use weft_netif::{Duration, Instant};
use weft_rnic::{Clock, CmEvent, Config, ConnParam, Device, EventChannel, Listener, Progress, Qp, QpState};

use super::plan::Plan;
use crate::simulate::hub::Hub;
use crate::simulate::tally::Tally;
use crate::simulate::trace::Trace;

/// All hosts: first the replicas, then the clients.
pub(super) struct Ground {
    pub(super) trace: Trace,
    pub(super) tally: Tally,
    clock: Clock,
    pub(super) hub: Hub,
    pub(super) hosts: Vec<Host>,
}

pub(super) struct Host {
    pub(super) device: Device,
    events: EventChannel,
    listener: Listener,
    /// Its power is on.
    pub(super) is_on: bool,
}

impl Ground {
    pub(super) fn new(plan: &mut Plan, trace: Trace) -> Self {
        let count = plan.replicas + plan.sessions;
        let (hub, wires) = Hub::new(count, plan.mtu, &plan.impairment, &mut plan.random);
        let clock = Clock::virtual_time();
        let hosts =
            wires.into_iter().zip(1..).map(|(wire, number)| Host::new(wire, number, plan, &clock)).collect();
        let mut ground = Self { trace, tally: Tally::default(), clock, hub, hosts };
        ground.note(&format!("{plan:?}"));
        ground
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Makes a session of a client with a chain of hosts, from the tail on, as servers and their client do. Each host has the
    /// objects of the session already. No frame is lost meanwhile.
    pub(super) fn open(
        &mut self,
        terms: Terms,
        client: usize,
        chain: &[(usize, &Replica)],
    ) -> Result<Session, String> {
        let is_faulty = std::mem::replace(&mut self.hub.is_faulty, false);
        let made = self.connect_all(terms, client, chain);
        self.hub.is_faulty = is_faulty;
        made
    }

    fn connect_all(
        &mut self,
        terms: Terms,
        client: usize,
        chain: &[(usize, &Replica)],
    ) -> Result<Session, String> {
        let device = &self.hosts[client].device;
        let mut made = Session::new(device, terms).map_err(|error| error.to_string())?;
        let ((head, first), (tail, last)) = (chain[0], chain[chain.len() - 1]);
        self.connect((client, made.tail()), (tail, last.outward()))?;
        for at in (0..chain.len()).rev() {
            let (host, replica) = chain[at];
            let next = chain.get(at + 1);
            if let Some((next, target)) = next {
                self.connect((host, replica.outward()), (*next, target.inward()))?;
            }
            let target = next.map(|(_, replica)| replica.data_in());
            replica.begin(target).map_err(|error| error.to_string())?;
        }
        self.connect((client, made.head()), (head, first.inward()))?;
        made.set_target(first.data_in());
        Ok(made)
    }

    fn connect(&mut self, (from, qp): (usize, &Qp), (to, target): (usize, &Qp)) -> Result<(), String> {
        let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::NONE };
        let address = self.hosts[to].listener.local_addr();
        let host = &self.hosts[from];
        host.device.connect(&host.events, qp, address, param).map_err(|error| error.to_string())?;
        let request = self.event(to, |event| match event {
            CmEvent::ConnectRequest(request) => Some(request.id),
            _ => None,
        });
        let request = request.ok_or_else(|| format!("host {from} does not reach host {to}"))?;
        let accepted = self.hosts[to].device.accept(request, target, ConnParam::NONE);
        accepted.map_err(|error| error.to_string())?;
        for host in [from, to] {
            let established = |event| matches!(event, CmEvent::Established { .. }).then_some(());
            self.event(host, established).ok_or_else(|| format!("host {host} is not connected"))?;
        }
        Ok(())
    }

    /// Waits for an event of a host. Others are those of connections that have ended.
    fn event<T>(&mut self, host: usize, wanted: impl Fn(CmEvent) -> Option<T>) -> Option<T> {
        let deadline = self.now() + Duration::from_secs(60);
        loop {
            while let Some(event) = self.hosts[host].events.next() {
                if let Some(found) = wanted(event) {
                    return Some(found);
                }
            }
            if self.now() >= deadline || !self.step(None) {
                return None;
            }
        }
    }

    /// Lets time pass until something happens, or until an alarm. Returns false if nothing ever will.
    pub(super) fn step(&mut self, alarm: Option<Instant>) -> bool {
        let now = self.now();
        let devices = self.hosts.iter().filter(|host| host.is_on).filter_map(|host| host.device.poll_at(now));
        let Some(next) = devices.chain(self.hub.poll_at(now)).chain(alarm).min() else { return false };
        let now = next.max(now);
        self.clock.set(now);
        self.hub.forward(now, &mut self.trace);
        for host in self.hosts.iter().filter(|host| host.is_on) {
            host.device.poll(now);
        }
        self.hub.forward(now, &mut self.trace);
        self.tally.steps += 1;
        true
    }

    pub(super) fn note(&mut self, text: &str) {
        self.trace.note(self.clock.now(), format_args!("{text}"));
    }

    /// Ends a session at a replica where one of its connections has ended, as the server of a replica does. `replicas` are
    /// the sessions of each host.
    pub(super) fn end_sessions(&self, replicas: &mut [Vec<Option<Replica>>]) {
        for (host, sessions) in self.hosts.iter().zip(replicas) {
            for replica in sessions.iter_mut().filter(|_| host.is_on) {
                let works = |replica: &Replica| {
                    let qps = [replica.inward(), replica.own(), replica.outward()];
                    qps.into_iter().all(|qp| qp.state() == QpState::Rts)
                };
                let _ended = replica.take_if(|replica| !works(replica));
            }
        }
    }

    /// A host loses its power.
    pub(super) fn switch_off(&mut self, host: usize) {
        self.hosts[host].is_on = false;
        self.hub.cut(host, Instant::from_secs(1_000_000));
    }
}

impl Host {
    fn new(wire: weft_netif::Wire, number: u8, plan: &Plan, clock: &Clock) -> Self {
        let ip = format!("10.0.0.{number}/24").parse().expect("an address");
        let mut config = Config::new(ip, number.into());
        config.stack.mac = Hub::mac(usize::from(number) - 1);
        config.stack.mtu = plan.mtu;
        config.stack.timeout = Some(PATIENCE);
        config.stack.keep_alive = Some(Duration::from_secs(1));
        config.clock = clock.clone();
        config.progress = Progress::External;
        let device = Device::open(wire, config).expect("a device");
        let events = device.create_event_channel().expect("a channel");
        let listener = device.listen(&events, PORT).expect("a port");
        Self { device, events, listener, is_on: true }
    }
}

const PORT: u16 = 7471;
/// The user timeout.
const PATIENCE: Duration = Duration::from_secs(5);
