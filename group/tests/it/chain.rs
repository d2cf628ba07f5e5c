//! The data path: a client sends one message for an operation, and the devices of the replicas do the rest.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config as Runs, TestRunner};
use weft_group::{
    Copy, Done, Durability, Op, OpError, OpId, Replica, Replicas, Session, SessionError, Shape, Swap, Terms,
};
use weft_rnic::{CmEvent, Config, ConnParam, Device, EventChannel, Ground, Listener, Progress, Qp, Region};

use crate::model::{Model, octets, op};

pub(crate) const LEN: usize = 4096;
pub(crate) const WINDOW: u32 = 8;
const PIECE: u32 = 600;
const PATIENCE: Duration = Duration::from_secs(30);

/// A device of its own, with its port.
pub(crate) struct Host {
    pub(crate) device: Device,
    events: EventChannel,
    listener: Listener,
}

impl Host {
    pub(crate) fn new(seed: u64) -> Self {
        let config = Config { progress: Progress::Thread, ..Config::host(Ipv4Addr::LOCALHOST.into(), seed) };
        let device = Device::open(Ground::Host, config).unwrap();
        let events = device.create_event_channel().unwrap();
        let listener = device.listen(&events, 0).unwrap();
        Self { device, events, listener }
    }

    fn event(&self) -> CmEvent {
        // What was connected before may end at any moment.
        let mut events = core::iter::from_fn(|| self.events.wait(Some(PATIENCE)));
        events.find(|event| !matches!(event, CmEvent::Disconnected { .. })).expect("an event")
    }

    /// Connects a queue pair of this host to one of another host.
    pub(crate) fn connect(&self, qp: &Qp, other: &Self, to: &Qp) {
        let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
        self.device.connect(&self.events, qp, other.listener.local_addr(), param).unwrap();
        let CmEvent::ConnectRequest(request) = other.event() else { panic!("no request") };
        other.device.accept(request.id, to, ConnParam::default()).unwrap();
        for host in [self, other] {
            let event = host.event();
            assert!(matches!(event, CmEvent::Established { .. }), "{event:?}");
        }
    }
}

/// A chain, and its client.
pub(crate) struct Chain {
    pub(crate) memories: Vec<Arc<Region>>,
    replicas: Vec<Replica>,
    pub(crate) session: Session,
    _hosts: Vec<Host>,
}

impl Chain {
    fn new(replicas: usize) -> Self {
        Self::of(replicas, LEN as u64)
    }

    /// The client believes that the range has `len` octets.
    fn of(replicas: usize, len: u64) -> Self {
        let memories = (0..replicas).map(|_| Arc::new(Region::owned(LEN + 64).unwrap())).collect();
        Self::on(memories, len, Durability::Volatile)
    }

    /// Each replica has one of `memories`.
    pub(crate) fn on(memories: Vec<Arc<Region>>, len: u64, durability: Durability) -> Self {
        let replicas = memories.len();
        let hosts: Vec<Host> = (0..=replicas as u64).map(Host::new).collect();
        let client = &hosts[replicas];
        let made: Vec<_> = (0..replicas)
            .map(|index| {
                let shape = Shape { index, replicas, window: WINDOW, range: 64..64 + LEN };
                Replica::new(&hosts[index].device, &memories[index], shape).unwrap()
            })
            .collect();
        let terms = Terms { replicas, window: WINDOW, len, piece: PIECE, epoch: 3, session: 4, durability };
        let mut session = Session::new(&client.device, terms).unwrap();
        session.set_target(made[0].data_in());
        // From the tail on: nothing reaches a replica before its program is posted.
        client.connect(session.tail(), &hosts[replicas - 1], made[replicas - 1].outward());
        for index in (0..replicas).rev() {
            let next = made.get(index + 1);
            if let Some(next) = next {
                hosts[index].connect(made[index].outward(), &hosts[index + 1], next.inward());
            }
            made[index].begin(next.map(Replica::data_in)).unwrap();
        }
        client.connect(session.head(), &hosts[0], made[0].inward());
        Self { memories, replicas: made, session, _hosts: hosts }
    }

    /// Waits for what is done next.
    pub(crate) fn done(&mut self) -> Result<Done, SessionError> {
        let mut out = [Done { id: OpId(0), originals: [0; 16] }];
        for looks in 0..30_000 {
            if self.session.poll(&mut out)? == 1 {
                return Ok(out[0]);
            }
            std::thread::sleep(Duration::from_micros(if looks < 100 { 50 } else { 1000 }));
        }
        panic!("no acknowledgement, {} under way", self.session.under_way())
    }

    pub(crate) fn contents(&self, replica: usize) -> Vec<u8> {
        let mut octets = vec![0; LEN];
        assert!(self.memories[replica].copy_out(64, &mut octets));
        octets
    }
}

/// Thousands of operations, many under way at a time, in chains of one to five replicas. Every octet of all replicas and all
/// that they found in words is compared with a second implementation.
#[test]
fn all_replicas_do_what_a_model_does() {
    let mut runner = TestRunner::new(Runs { failure_persistence: None, ..Runs::default() });
    let strategy = vec(op(LEN as u64, PIECE), 600);
    for replicas in [1, 2, 3, 5] {
        let ops = strategy.new_tree(&mut runner).unwrap().current();
        let mut chain = Chain::new(replicas);
        let mut model = Model(vec![vec![0; LEN]; replicas]);
        let mut expected = VecDeque::new();
        let mut done = 0;
        for (number, op) in ops.iter().enumerate() {
            let octets = octets(op, number);
            let mut begun = chain.session.submit(op, &octets);
            while let Err(SessionError::Op(OpError::Full | OpError::Conflict)) = begun {
                assert_eq!(chain.done().ok(), expected.pop_front());
                begun = chain.session.submit(op, &octets);
            }
            if let Ok(id) = begun {
                expected.push_back(Done { id, originals: model.apply(op, &octets) });
                done += 1;
            }
        }
        while let Some(next) = expected.pop_front() {
            assert_eq!(chain.done(), Ok(next));
        }
        assert!(done > 200, "{done} of 600 made sense");
        for replica in 0..replicas {
            assert!(chain.contents(replica) == model.0[replica], "replica {replica} of {replicas}");
        }
    }
}

/// A write of several pieces is one operation for the caller, and takes all of its slots or none.
#[test]
fn a_long_write_is_one_operation() {
    let mut chain = Chain::new(3);
    let octets: Vec<u8> = (0..LEN).map(|at| (at * 31 + at / 256).to_le_bytes()[0]).collect();
    let id = chain.session.write(0, &octets[..3001]).unwrap();
    assert_eq!(chain.session.under_way(), 6);
    let full = chain.session.write(2700, &octets[2700..4000]);
    assert_eq!(full, Err(OpError::Full.into()), "three slots, and two are free");
    assert_eq!(chain.session.copy(0, 3500, 5), Err(OpError::Conflict.into()));
    assert_eq!((chain.session.under_way(), chain.done().map(|done| done.id)), (6, Ok(id)));
    let rest = chain.session.write(3001, &octets[3001..4096]).unwrap();
    assert_eq!(chain.done().map(|done| done.id), Ok(rest));
    assert!((0..3).all(|replica| chain.contents(replica) == octets));
    assert_eq!(chain.session.write(0, &vec![0; LEN + 1]), Err(OpError::Bounds.into()));
    let none = chain.session.write(7, &[]).unwrap();
    let flushed = chain.session.flush(0..LEN as u64).unwrap();
    assert_eq!([chain.done(), chain.done()].map(|done| done.map(|done| done.id)), [Ok(none), Ok(flushed)]);
    assert_eq!(chain.session.flush(1..LEN as u64 + 1), Err(OpError::Bounds.into()));
}

/// A replica dies with operations under way. The client hears of it, and no replica repeats an operation of an older lap.
#[test]
fn a_lost_replica_ends_the_session_and_nothing_is_repeated() {
    for lost in 0..3 {
        let mut chain = Chain::new(3);
        for turn in 0..3 * u64::from(WINDOW) {
            chain.session.compare_swap(0, turn, turn + 1, Replicas::ALL).unwrap();
            assert_eq!(chain.done().unwrap().originals[..3], [turn; 3]);
        }
        let count = |chain: &Chain, replica: usize| {
            u64::from_ne_bytes(chain.contents(replica)[..8].try_into().unwrap())
        };
        drop(chain.replicas.remove(lost));
        let end = loop {
            if let Err(error) = chain.session.compare_swap(8, 0, 1, Replicas::ALL).and_then(|_| chain.done())
            {
                break error;
            }
        };
        assert!(matches!(end, SessionError::Lost(_)), "{end:?}");
        assert_eq!(chain.session.write(0, b"more"), Err(SessionError::Lost(None)));
        assert!((0..3).all(|replica| count(&chain, replica) == 3 * u64::from(WINDOW)));
    }
}

/// The octets around the range stay as they are: its STags reach no further, whatever a client asks for.
#[test]
fn nothing_outside_of_the_range_is_reached() {
    let before = 0_u64.wrapping_sub(64);
    let strays = [
        Op { copy: Some(Copy { from: before, to: 0, len: 32 }), ..Op::default() },
        Op { copy: Some(Copy { from: 0, to: before, len: 32 }), ..Op::default() },
        Op { copy: Some(Copy { from: 0, to: LEN as u64 - 8, len: 9 }), ..Op::default() },
        Op { swap: Some(Swap { at: before, compare: 0, swap: 1, on: Replicas::ALL }), ..Op::default() },
        Op { write: Some(before..before + 8), ..Op::default() },
    ];
    for stray in strays {
        let mut chain = Chain::of(2, u64::MAX);
        for memory in &chain.memories {
            assert!(memory.copy_in(0, &[0xEE; 64]));
        }
        let octets = if stray.write.is_some() { &[7; 8][..] } else { &[] };
        chain.session.submit(&stray, octets).unwrap();
        assert_eq!(chain.done(), Err(SessionError::Lost(None)), "{stray:?}");
        for replica in [0, 1] {
            assert!(chain.contents(replica).iter().all(|octet| *octet == 0), "{stray:?}");
            let mut before = [0; 64];
            assert!(chain.memories[replica].copy_out(0, &mut before));
            assert_eq!(before, [0xEE; 64]);
        }
    }
}
