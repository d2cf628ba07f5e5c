//! Replicas of one process, each with a device of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weft_group::{Limits, Member, Options, Server, Serving, Session, SessionError, Topology};
use weft_rnic::{Config, Device, Ground, Progress, Region};

/// Octets of each replica's memory.
pub(crate) const LEN: usize = 1 << 16;

/// A replica.
pub(crate) struct Host {
    pub(crate) memory: Arc<Region>,
    pub(crate) server: Serving,
    _device: Device,
}

impl Host {
    pub(crate) fn new(seed: u64, limits: Limits) -> Self {
        Self::of(seed, limits, LEN)
    }

    pub(crate) fn of(seed: u64, limits: Limits, len: usize) -> Self {
        Self::on((Region::owned(len).unwrap(), len), seed, limits)
    }

    /// Its memory is this one, of so many octets.
    pub(crate) fn on((memory, len): (Region, usize), seed: u64, limits: Limits) -> Self {
        Self::anywhere((memory, len), SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), seed, limits)
    }

    /// It listens at this address.
    pub(crate) fn at(address: SocketAddr, seed: u64, limits: Limits, len: usize) -> Self {
        Self::anywhere((Region::owned(len).unwrap(), len), address, seed, limits)
    }

    fn anywhere((memory, len): (Region, usize), address: SocketAddr, seed: u64, limits: Limits) -> Self {
        let device = device(seed, Progress::Thread);
        let memory = Arc::new(memory);
        let server = Server::new(&device, (Arc::clone(&memory), len as u64), address, limits).unwrap();
        Self { memory, server: server.start().unwrap(), _device: device }
    }

    pub(crate) fn contents(&self) -> Vec<u8> {
        let mut octets = vec![0; LEN];
        assert!(self.memory.copy_out(0, &mut octets));
        octets
    }
}

/// A group, and the device of its client.
pub(crate) struct Group {
    pub(crate) hosts: Vec<Host>,
    pub(crate) client: Device,
}

impl Group {
    pub(crate) fn new(replicas: u64, limits: &Limits) -> Self {
        Self::of(replicas, limits, LEN)
    }

    pub(crate) fn of(replicas: u64, limits: &Limits, len: usize) -> Self {
        let hosts = (0..replicas).map(|seed| Host::of(seed, limits.clone(), len)).collect();
        Self { hosts, client: device(99, Progress::Thread) }
    }

    pub(crate) fn members(&self) -> Vec<Member> {
        self.hosts.iter().map(|host| host.server.member()).collect()
    }

    pub(crate) fn open(&self, options: &Options) -> Result<Session, SessionError> {
        Session::open(&self.client, &self.members(), options)
    }
}

pub(crate) fn device(seed: u64, progress: Progress) -> Device {
    let config = Config { progress, ..Config::host(Ipv4Addr::LOCALHOST.into(), seed) };
    Device::open(Ground::Host, config).unwrap()
}

/// Small pieces and few slots, so that laps and long writes are common.
pub(crate) fn options(topology: Topology) -> Options {
    Options { topology, window: 8, piece: 600, ..Options::default() }
}

/// Waits until something holds, for at most a minute.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("never: {what}");
}
