//! Two devices on one wire and one virtual clock, each with a manager of its own.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_cm::{Cm, ConnParam, Event, EventChannel, EventKind, Id};
use weft_netif::Instant;
use weft_rnic::{Clock, Config, Cq, Device, Lockstep, Pd, Progress, QpInit};

/// A device with what every connection needs.
pub(crate) struct Side {
    pub(crate) cm: Cm,
    pub(crate) channel: EventChannel,
    pub(crate) cq: Cq,
    pub(crate) pd: Pd,
    pub(crate) device: Device,
}

/// Two of them.
pub(crate) struct World {
    pub(crate) a: Side,
    pub(crate) b: Side,
    clock: Clock,
    lockstep: RefCell<Lockstep>,
}

impl Side {
    pub(crate) fn new(device: Device) -> Self {
        let cm = Cm::new();
        cm.add(&device);
        let channel = cm.create_event_channel().unwrap();
        let (cq, pd) = (device.create_cq(256, None).unwrap(), device.alloc_pd());
        Self { cm, channel, cq, pd, device }
    }

    /// A new id on the channel.
    pub(crate) fn id(&self) -> Id {
        self.cm.create_id(Some(&self.channel)).unwrap()
    }

    /// Gives an id a queue pair.
    pub(crate) fn equip(&self, id: &Id) {
        id.create_qp(&self.pd, &QpInit::new(&self.cq, &self.cq)).unwrap();
    }

    /// An id that listens on a free port, and where.
    pub(crate) fn listen(&self, backlog: usize) -> (Id, SocketAddr) {
        let id = self.id();
        id.bind(self.device.address(0)).unwrap();
        id.listen(backlog).unwrap();
        let address = id.local_addr().unwrap();
        (id, address)
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::at(["10.0.0.1/24", "10.0.0.2/24"])
    }

    pub(crate) fn at(addresses: [&str; 2]) -> Self {
        let clock = Clock::virtual_time();
        let (left, right) = weft_netif::pair(1500);
        let side = |wire, address: &str, seed| Side::new(open(wire, &clock, address, seed));
        let (a, b) = (side(left, addresses[0], 1), side(right, addresses[1], 2));
        let lockstep = RefCell::new(Lockstep::new(clock.clone(), &[&a.device, &b.device]));
        Self { a, b, clock, lockstep }
    }

    /// Runs until `done` answers something; panics after an hour of virtual time.
    pub(crate) fn until<T>(&self, done: impl FnMut() -> Option<T>) -> T {
        let mut lockstep = self.lockstep.borrow_mut();
        let deadline = lockstep.now() + weft_netif::Duration::from_secs(3600);
        lockstep.run_until(deadline, done).expect("something happens within an hour")
    }

    /// Lets so many seconds of virtual time pass.
    pub(crate) fn settle(&self, seconds: u64) {
        let mut lockstep = self.lockstep.borrow_mut();
        let deadline = lockstep.now() + weft_netif::Duration::from_secs(seconds);
        lockstep.run_until(deadline, || None::<()>);
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// From now on only `a` moves.
    pub(crate) fn freeze_b(&self) {
        *self.lockstep.borrow_mut() = Lockstep::new(self.clock.clone(), &[&self.a.device]);
    }

    /// The next event of a channel, which has to be of this kind.
    pub(crate) fn expect(&self, channel: &EventChannel, kind: EventKind) -> Event {
        let event = self.until(|| channel.next());
        assert_eq!(event.kind(), kind, "{event:?}");
        event
    }

    /// An id of `a` with a queue pair whose route to `peer` is known.
    pub(crate) fn resolved(&self, peer: SocketAddr) -> Id {
        let id = self.a.id();
        id.resolve_addr(None, peer, PATIENCE).unwrap();
        self.expect(&self.a.channel, EventKind::AddrResolved);
        id.resolve_route(PATIENCE).unwrap();
        self.expect(&self.a.channel, EventKind::RouteResolved);
        self.a.equip(&id);
        id
    }

    /// The next connect request of `b`, with a queue pair.
    pub(crate) fn request(&self) -> (Id, Event) {
        let mut event = self.expect(&self.b.channel, EventKind::ConnectRequest);
        let id = event.take_id().unwrap();
        self.b.equip(&id);
        (id, event)
    }

    /// A connection from `a` to `peer`, which is a listener of `b`.
    pub(crate) fn connect(&self, peer: SocketAddr) -> [Id; 2] {
        let client = self.resolved(peer);
        client.connect(&ConnParam::default()).unwrap();
        let (server, _) = self.request();
        server.accept(&ConnParam::default()).unwrap();
        self.expect(&self.a.channel, EventKind::Established);
        self.expect(&self.b.channel, EventKind::Established);
        [client, server]
    }
}

fn open(wire: weft_netif::Wire, clock: &Clock, address: &str, seed: u64) -> Device {
    let mut config = Config::new(address.parse().unwrap(), seed);
    config.stack.tcp_buffer = 16 * 1024;
    config.clock = clock.clone();
    config.progress = Progress::External;
    Device::open(wire, config).unwrap()
}

/// Two devices that move by themselves.
pub(crate) fn moving(progress: Progress) -> [Device; 2] {
    let (left, right) = weft_netif::pair(1500);
    [(left, "10.0.0.1/24", 1), (right, "10.0.0.2/24", 2)].map(|(wire, address, seed)| {
        let mut config = Config::new(address.parse().unwrap(), seed);
        config.stack.tcp_buffer = 16 * 1024;
        config.progress = progress;
        Device::open(wire, config).unwrap()
    })
}

pub(crate) fn readable(channel: &EventChannel) -> bool {
    let mut fds = [PollFd::new(channel, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
