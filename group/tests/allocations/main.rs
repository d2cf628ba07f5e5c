//! An operation allocates no memory, neither at a replica nor at the client.
//!
//! There is only one test, since the counts are the process's: another test beside it would be counted too.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../../tests/tests/leaks/counting.rs"]
mod counting;

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use counting::LIVE;
use weft_group::{Done, Durability, OpId, Originals, Replica, Replicas, Session, SessionError, Shape, Terms};
use weft_rnic::{
    CmEvent, Config, ConnParam, Device, EventChannel, Ground, Listener, Progress, Qp, Region, Storage,
};

const REPLICAS: usize = 3;
const WINDOW: u32 = 8;
const LEN: usize = 1 << 16;
/// The first rounds allocate memory that stays.
const WARM_UP: u64 = 1_000;
const ROUNDS: u64 = 10_000;

/// A disk that is done at once.
#[derive(Debug)]
struct Disk;

impl Storage for Disk {
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A device that this thread drives. A thread that sleeps allocates for that, whoever wakes it.
struct Host {
    device: Device,
    events: EventChannel,
    listener: Listener,
}

impl Host {
    fn new(seed: u64) -> Self {
        let config =
            Config { progress: Progress::External, ..Config::host(Ipv4Addr::LOCALHOST.into(), seed) };
        let device = Device::open(Ground::Host, config).unwrap();
        let events = device.create_event_channel().unwrap();
        let listener = device.listen(&events, 0).unwrap();
        Self { device, events, listener }
    }
}

/// A chain and its client, which is the last host.
struct World {
    hosts: Vec<Host>,
    _replicas: Vec<Replica>,
    session: Session,
}

impl World {
    fn new(is_kept: bool) -> Self {
        let hosts: Vec<Host> = (0..=REPLICAS as u64).map(Host::new).collect();
        let replicas: Vec<_> = (0..REPLICAS)
            .map(|index| {
                let memory = Region::owned(LEN).unwrap();
                let memory = if is_kept { memory.stored(Box::new(Disk)).unwrap() } else { memory };
                let shape = Shape { index, replicas: REPLICAS, window: WINDOW, range: 0..LEN };
                Replica::new(&hosts[index].device, &Arc::new(memory), shape).unwrap()
            })
            .collect();
        let (len, durability) = (LEN as u64, Durability::File);
        let terms =
            Terms { replicas: REPLICAS, window: WINDOW, len, piece: 600, epoch: 1, session: 1, durability };
        let mut session = Session::new(&hosts[REPLICAS].device, terms).unwrap();
        session.set_target(replicas[0].data_in());
        connect(&hosts, (REPLICAS, session.tail()), (REPLICAS - 1, replicas[REPLICAS - 1].outward()));
        for index in (0..REPLICAS).rev() {
            let next = replicas.get(index + 1);
            if let Some(next) = next {
                connect(&hosts, (index, replicas[index].outward()), (index + 1, next.inward()));
            }
            replicas[index].begin(next.map(Replica::data_in)).unwrap();
        }
        connect(&hosts, (REPLICAS, session.head()), (0, replicas[0].inward()));
        Self { hosts, _replicas: replicas, session }
    }

    /// Carries one operation out.
    fn run(&mut self, operate: Operate, round: u64) {
        let id = operate(&mut self.session, round).unwrap();
        let mut out = [Done { id: OpId(0), originals: Originals::default() }];
        while self.session.poll(&mut out) != Ok(1) {
            self.hosts.iter().for_each(|host| host.device.advance());
        }
        assert_eq!(out[0].id, id);
    }
}

fn until<T>(hosts: &[Host], mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..10_000_000 {
        if let Some(found) = look() {
            return found;
        }
        hosts.iter().for_each(|host| host.device.advance());
    }
    panic!("nothing has come of it")
}

fn connect(hosts: &[Host], (from, qp): (usize, &Qp), (to, other): (usize, &Qp)) {
    let event = |host: usize| until(hosts, || hosts[host].events.next());
    let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
    let (from_host, to_host) = (&hosts[from], &hosts[to]);
    from_host.device.connect(&from_host.events, qp, to_host.listener.local_addr(), param).unwrap();
    let CmEvent::ConnectRequest(request) = event(to) else { panic!("no request") };
    to_host.device.accept(request.id, other, ConnParam::default()).unwrap();
    for host in [from, to] {
        assert!(matches!(event(host), CmEvent::Established { .. }));
    }
}

/// Begins one round of an operation.
type Operate = fn(&mut Session, u64) -> Result<OpId, SessionError>;

const ALL: [(&str, Operate); 5] = [
    ("write", |session, round| session.write(round % 1000, &[7; 500])),
    ("long write", |session, _| session.write(0, &[7; 2500])),
    ("copy", |session, round| session.copy(round % 1000, 5000, 700)),
    ("compare and swap", |session, round| session.compare_swap(8, round, round + 1, Replicas::ALL)),
    ("flush", |session, round| session.flush(round % 1000..20_000)),
];

#[test]
fn no_operation_allocates() {
    let mut failures = Vec::new();
    for is_kept in [false, true] {
        let mut world = World::new(is_kept);
        for (name, operate) in ALL {
            (0..WARM_UP).for_each(|round| world.run(operate, round));
            let before = LIVE.allocations();
            (WARM_UP..WARM_UP + ROUNDS).for_each(|round| world.run(operate, round));
            let allocations = LIVE.allocations() - before;
            if allocations > 0 {
                failures
                    .push(format!("{name}, files {is_kept}: {allocations} allocations in {ROUNDS} rounds"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
