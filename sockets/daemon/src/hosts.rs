//! Other hosts: the device, the daemons that were found, and the lanes to them.
//!
//! A remote host looks like a family of processes: it has a name, a party in links, and a status page and a doorbell,
//! which are this daemon's own.

pub(crate) mod channel;
pub(crate) mod failure;
pub(crate) mod half;
pub(crate) mod host;
pub(crate) mod lane;

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use weft_rnic::{CompChannel, Config, Cq, Device, EventChannel, Ground, Listener, Progress};
use weft_sockets::layout::ALWAYS;
use weft_sockets::sync::{Ordering, fence};
use weft_sockets::{Status, WaiterName};

use crate::foreign::Foreign;
pub(crate) use crate::hosts::host::{Contact, Host};
use crate::key::Key;
use crate::lanes::Lanes;
use crate::networks::Neighbours;

/// The waiter of this daemon in links to other hosts.
pub(crate) const OURS: WaiterName = WaiterName { member: 0, line: 0 };

/// The lanes of a daemon.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(crate) device: Device,
    pub(crate) events: EventChannel,
    pub(crate) completions: CompChannel,
    pub(crate) cq: Cq,
    /// Kept, so that it listens.
    _listener: Listener,
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
    pub(crate) by_qp: HashMap<u32, u64>,
    pub(crate) names: BTreeSet<u64>,
}

impl Hosts {
    /// Opens the device and listens for other daemons.
    ///
    /// # Errors
    /// The device's, and the kernel's.
    pub(crate) fn start(lanes: &Lanes, seed: u64) -> io::Result<Self> {
        let any = IpAddr::from([0; 4]);
        let config = Config { progress: Progress::Thread, ..Config::host(any, seed) };
        let device = Device::open(Ground::Host, config)?;
        let events = device.create_event_channel()?;
        let listener = device.listen(&events, lanes.port).map_err(io::Error::other)?;
        let completions = device.create_comp_channel()?;
        let cq = device.create_cq(COMPLETIONS, Some(&completions)).map_err(io::Error::other)?;
        cq.request_notification(false);
        let (page, status) = Status::create()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let own = |file: OwnedFd| Arc::new(Foreign::harmless(file));
        Ok(Self {
            device,
            events,
            completions,
            cq,
            _listener: listener,
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
        })
    }

    /// What wakes the daemon: events of connections, completions, and processes.
    pub(crate) fn descriptors(&self) -> [std::os::fd::BorrowedFd<'_>; 3] {
        [self.events.as_fd(), self.completions.as_fd(), self.bell.as_fd()]
    }

    /// The remote hosts that are known.
    pub(crate) fn known(&self) -> impl Iterator<Item = &Host> {
        self.hosts.values()
    }

    /// The host with this name.
    pub(crate) fn host(&mut self, name: u64) -> Option<&mut Host> {
        self.hosts.get_mut(&name)
    }

    /// Says that the daemon sleeps, or that it is awake.
    pub(crate) fn set_asleep(&self, is_asleep: bool) {
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

/// Completions that the device keeps.
const COMPLETIONS: u32 = 1 << 16;
