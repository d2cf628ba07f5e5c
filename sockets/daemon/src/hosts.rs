//! Other hosts: the devices, the daemons that were found, and the lanes to them.
//!
//! A remote host looks like a family of processes: it has a name, a party in links, and a status page and a doorbell,
//! which are this daemon's own.

pub(crate) mod channel;
pub(crate) mod failure;
pub(crate) mod half;
pub(crate) mod host;
pub(crate) mod lane;
pub(crate) mod rnic;
pub(crate) mod seen;
pub(crate) mod why;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use weft_rnic::{Config, Ground};
use weft_sockets::layout::ALWAYS;
use weft_sockets::sync::{Ordering, fence};
use weft_sockets::{Pace, Status, WaiterName};

use crate::foreign::Foreign;
pub(crate) use crate::hosts::host::{Contact, Host};
use crate::hosts::rnic::{Rnic, Way};
use crate::key::Key;
use crate::lanes::{Lanes, Wire};
use crate::networks::Neighbours;

/// The waiter of this daemon in links to other hosts.
pub(crate) const OURS: WaiterName = WaiterName { member: 0, line: 0 };

/// The lanes of a daemon.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(crate) kernel: Arc<Rnic>,
    /// The daemon's own wire, if it has one, and its address there.
    pub(crate) wire: Option<(Arc<Rnic>, SocketAddr)>,
    pub(crate) port: u16,
    pub(crate) key: Option<Key>,
    pub(crate) neighbours: Neighbours,
    /// The cookie of the network namespace.
    pub(crate) namespace: u64,
    pub(crate) boot_id: [u8; 16],
    pub(crate) status: (Arc<Foreign>, Status),
    pub(crate) bell: Arc<Foreign>,
    /// The remote hosts by their names.
    pub(crate) hosts: BTreeMap<u64, Host>,
    pub(crate) by_address: HashMap<(IpAddr, IpAddr), u64>,
    pub(crate) by_qp: HashMap<(Way, u32), u64>,
    pub(crate) names: BTreeSet<u64>,
    /// When the lanes will have been quiet for a while.
    pub(crate) quiet: Option<Duration>,
    /// How the daemon waits for the next message.
    pub(crate) pace: Pace,
}

impl Hosts {
    /// Opens the devices and listens for other daemons.
    ///
    /// # Errors
    /// The devices', and the kernel's.
    pub(crate) fn start(lanes: &Lanes, seed: u64) -> io::Result<Self> {
        let any = IpAddr::from([0; 4]);
        let kernel = Arc::new(Rnic::open(Ground::Host, Config::host(any, seed), lanes.port)?);
        let wire = lanes.wire.as_ref().map(|wire| open_wire(wire, seed, lanes.port)).transpose()?;
        let (page, status) = Status::create()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let own = |file: OwnedFd| Arc::new(Foreign::harmless(file));
        Ok(Self {
            kernel,
            wire,
            port: lanes.port,
            key: lanes.key.clone(),
            neighbours: Neighbours::new(lanes.networks.clone()),
            namespace: crate::kernel::namespace()?,
            boot_id: crate::kernel::boot_id()?,
            status: (own(page), status),
            bell: own(bell),
            hosts: BTreeMap::new(),
            by_address: HashMap::new(),
            by_qp: HashMap::new(),
            names: BTreeSet::new(),
            quiet: None,
            pace: Pace::new(),
        })
    }

    /// What wakes the daemon: events of connections, completions, and processes.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.rnics().flat_map(|(_, rnic)| rnic.descriptors()).chain([self.bell.as_fd()]).collect()
    }

    /// The devices.
    pub(crate) fn rnics(&self) -> impl Iterator<Item = (Way, &Arc<Rnic>)> {
        let wire = self.wire.iter().map(|(rnic, _)| (Way::Wire, rnic));
        core::iter::once((Way::Kernel, &self.kernel)).chain(wire)
    }

    /// The device of a way.
    pub(crate) fn rnic(&self, way: Way) -> Option<&Arc<Rnic>> {
        match way {
            Way::Kernel => Some(&self.kernel),
            Way::Wire => self.wire.as_ref().map(|(rnic, _)| rnic),
        }
    }

    /// The device on which the daemon sleeps: that of its lanes.
    pub(crate) fn lanes_device(&self) -> Arc<Rnic> {
        let is_on_wire = self.hosts.values().any(|host| host.way == Way::Wire);
        let way = if is_on_wire { Way::Wire } else { Way::Kernel };
        Arc::clone(self.rnic(way).unwrap_or(&self.kernel))
    }

    /// The daemon's own address on its wire, if the wire leads to this address.
    pub(crate) fn wire_to(&self, remote: SocketAddr) -> Option<SocketAddr> {
        let (rnic, own) = self.wire.as_ref()?;
        let is_way = own.is_ipv4() == remote.is_ipv4() && rnic.device.route_to(remote.ip()).is_some();
        (is_way && own.ip() != remote.ip() && remote.port() != 0).then_some(*own)
    }

    /// The remote hosts that are known.
    pub(crate) fn known(&self) -> impl Iterator<Item = &Host> {
        self.hosts.values()
    }

    /// The host with this name.
    pub(crate) fn host(&mut self, name: u64) -> Option<&mut Host> {
        self.hosts.get_mut(&name)
    }

    /// True if a connection has a channel to another host.
    pub(crate) fn has_channels(&self) -> bool {
        self.hosts.values().any(|host| !host.channels.is_empty())
    }

    /// Says that the daemon sleeps, or that it is awake. The caller looks for work once more before it sleeps.
    pub(crate) fn set_asleep(&self, is_asleep: bool) {
        if is_asleep {
            self.rnics().for_each(|(_, rnic)| rnic.arm());
        }
        if let Some(line) = self.status.1.page().0.first() {
            line.asleep.store(if is_asleep { ALWAYS } else { 0 }, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
    }

    /// Hears the doorbell no more.
    pub(crate) fn silence(&self) {
        let _silent = rustix::io::read(&*self.bell, &mut [0; 8]);
    }
}

/// The own address of a lane and the address of the other daemon.
pub(crate) const fn key(local: SocketAddr, remote: SocketAddr) -> (IpAddr, IpAddr) {
    (local.ip(), remote.ip())
}

fn open_wire(wire: &Wire, seed: u64, port: u16) -> io::Result<(Arc<Rnic>, SocketAddr)> {
    let mut config = Config::new(wire.ip.clone(), seed);
    config.stack.mtu = wire.mtu;
    // A wire that does not lead to the other daemon is given up before a session is.
    config.startup_timeout = config.engine_time(STARTUP);
    let ground = weft_netif::Wire::open_queues(&wire.spec, wire.mtu, 1)?;
    Ok((Arc::new(Rnic::open(ground.into(), config, port)?), SocketAddr::new(wire.ip.address, port)))
}

/// How long a lane on a wire may need to open.
const STARTUP: Duration = Duration::from_secs(2);
