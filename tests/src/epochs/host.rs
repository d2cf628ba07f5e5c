//! A host: a device, and the server on it.

use std::sync::Arc;

use weft_group::{Keeper, Limits, MemberState, Server};
use weft_netif::{Duration, Wire};
use weft_rnic::{Clock, Config, Device, Progress, Region};

use super::disk::Disk;
use super::net::Net;
use super::plan::Plan;
use crate::simulate::random::Random;

/// A host.
#[derive(Debug)]
pub(super) struct Host {
    number: usize,
    /// `None` while it is off. Comes first, so that connections end before their device.
    pub(super) server: Option<Server>,
    pub(super) memory: Option<Arc<Region>>,
    pub(super) device: Option<Device>,
    pub(super) disk: Option<Disk>,
    /// The name of its memory since the last start.
    drawn: u64,
}

impl Host {
    pub(super) fn new(number: usize, plan: &Plan) -> Self {
        let disk = (number < plan.servers && plan.is_stored).then(|| Disk::new(plan.size));
        Self { number, server: None, memory: None, device: None, disk, drawn: 0 }
    }

    /// Switches it on, with numbers from a seed.
    pub(super) fn switch_on(&mut self, wire: Wire, plan: &Plan, (clock, seed): (&Clock, u64)) {
        let ip = format!("10.0.0.{}/24", self.number + 1).parse().expect("an address");
        let mut config = Config::new(ip, seed);
        config.stack.mac = Net::mac(self.number);
        config.stack.mtu = plan.mtu;
        config.stack.timeout = Some(PATIENCE);
        config.stack.keep_alive = Some(Duration::from_secs(1));
        config.clock = clock.clone();
        config.sync_after = plan.sync_after;
        config.progress = Progress::External;
        self.device = Some(Device::open(wire, config).expect("a device"));
    }

    /// Starts its server as another incarnation, with what its memory has survived.
    pub(super) fn serve(&mut self, plan: &Plan, incarnation: u64) {
        let device = self.device.as_ref().expect("a device");
        let memory = Region::owned(plan.size).expect("memory");
        let (memory, keeper) = match &self.disk {
            None => (memory, Keeper::volatile(incarnation)),
            Some(disk) => {
                assert!(memory.copy_in(0, &disk.load()));
                let state = disk.state().unwrap_or_else(|| MemberState::new(incarnation));
                let keeper = Keeper::restart(state, incarnation, Box::new(disk.clone()));
                (memory.stored(Box::new(disk.clone())).expect("memory"), keeper.expect("a disk"))
            }
        };
        let memory = Arc::new(memory);
        let address = format!("10.0.0.{}:{PORT}", self.number + 1).parse().expect("an address");
        let parts = (Arc::clone(&memory), plan.size as u64);
        let server = Server::with_state(device, parts, address, Limits::default(), keeper);
        let mut random = Random::new(incarnation);
        self.server = Some(server.expect("a port").drawing_from(move || random.next()));
        self.memory = Some(memory);
        self.drawn = incarnation;
    }

    /// Switches it off.
    pub(super) fn switch_off(&mut self) {
        (self.server, self.memory, self.device) = (None, None, None);
    }

    /// Returns the name of its memory's contents; none while it is off.
    pub(super) fn incarnation(&self) -> Option<u64> {
        self.server.as_ref().map(Server::incarnation)
    }

    /// Returns the incarnation with which it has started last.
    pub(super) const fn drawn(&self) -> u64 {
        self.drawn
    }

    /// A flush has failed: it has to start again before it can be of use.
    pub(super) fn is_spoiled(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.is_spoiled())
    }

    /// Returns the octets of its memory.
    pub(super) fn contents(&self) -> Option<Vec<u8>> {
        let memory = self.memory.as_ref()?;
        let mut octets = vec![0; memory.len()];
        memory.copy_out(0, &mut octets).then_some(octets)
    }
}

pub(super) const PORT: u16 = 7471;
/// The user timeout.
const PATIENCE: Duration = Duration::from_secs(3);
