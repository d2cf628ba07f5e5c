//! Two devices, and a model of each object.

use std::collections::BTreeSet;

use weft_netif::Duration;
use weft_rnic::{
    Clock, CmEvent, Config, Device, DisconnectReason, EventChannel, Listener, Lockstep, Pd, Progress,
    QpState, RequestId,
};

use super::memory::{End, Memories};
use super::queues::{Completions, Link, Pair};
use crate::{PATIENCE, PORT};

/// Both sides, which move together.
#[derive(Debug)]
pub(super) struct World {
    pub(super) sides: [Side; 2],
    lockstep: Lockstep,
    pub(super) next_id: u64,
    /// The events of the run. Tests check that there are many kinds.
    pub(super) seen: BTreeSet<String>,
}

/// One device with its objects.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) pairs: Vec<Pair>,
    pub(super) cqs: Vec<Completions>,
    pub(super) memories: Memories,
    pub(super) requests: Vec<Request>,
    /// Events that have to come before the world is at rest.
    pub(super) expected: Vec<Event>,
    pub(super) events: EventChannel,
    _listener: Listener,
    pub(super) pds: [Pd; 2],
    pub(super) device: Device,
}

/// A connect request, by the names of its two ends.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: RequestId,
    pub(super) from: End,
    /// It is unanswered, and the peer waits.
    pub(super) is_open: bool,
}

/// An event of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A connect request from this queue pair of the other side, with so many octets of private data.
    Request(End, usize),
    Established(u32),
    Rejected(u32, usize),
    ConnectError(u32),
    Disconnected(u32, EndKind),
}

/// The way in which a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndKind {
    Local,
    Peer,
    PeerTerminate,
    LocalTerminate,
    Lost,
}

impl World {
    pub(super) fn new() -> Self {
        let clock = Clock::virtual_time();
        let (left, right) = weft_netif::pair(1500);
        let side = |wire, address: &str, seed| {
            let mut config = Config::new(address.parse().expect("an address"), seed);
            config.stack.tcp_buffer = TCP_BUFFER;
            // Both sides may send first.
            config.mpa.peer_to_peer = true;
            config.max_qps = MAX_QPS;
            // No time limit ends during a run.
            (config.startup_timeout, config.answer_timeout) = (PATIENCE, PATIENCE);
            config.clock = clock.clone();
            config.progress = Progress::External;
            Side::new(Device::open(wire, config).expect("a device on memory"))
        };
        let sides = [side(left, "10.0.0.1/24", 1), side(right, "10.0.0.2/24", 2)];
        let lockstep = Lockstep::new(clock, &[&sides[0].device, &sides[1].device]);
        Self { sides, lockstep, next_id: 0, seen: BTreeSet::new() }
    }

    /// Notes the name of an error, a completion or an end, without its fields.
    pub(super) fn note(&mut self, what: impl core::fmt::Debug) {
        let name = format!("{what:?}");
        let len = name.find(" {").unwrap_or(name.len());
        self.seen.insert(name[..len].to_owned());
    }

    /// Lets both worlds come to rest, and compares them.
    pub(super) fn settle(&mut self) {
        let deadline = self.lockstep.now() + REST;
        self.lockstep.run_until(deadline, || None::<()>);
        for side in 0..self.sides.len() {
            for index in 0..self.sides[side].pairs.len() {
                self.run((side, index));
            }
        }
        for side in 0..self.sides.len() {
            self.hear(side);
            let side = &mut self.sides[side];
            assert_eq!(side.expected, [], "these events do not come");
            side.memories.compare();
            for pair in &side.pairs {
                if let Some(qp) = &pair.qp {
                    assert_eq!(qp.state(), pair.state, "queue pair {:?}", pair.name);
                }
            }
        }
    }

    /// Takes the events of one side, and removes them from the expected ones.
    fn hear(&mut self, side: usize) {
        while let Some(event) = self.sides[side].events.next() {
            let heard = match event {
                CmEvent::ConnectRequest(request) => {
                    let octets = &request.private_data;
                    // The private data begins with the name of the queue pair that asks.
                    let from = (usize::from(octets[0]), usize::from(octets[1]));
                    self.sides[side].requests.push(Request { id: request.id, from, is_open: true });
                    Event::Request(from, octets.len())
                }
                CmEvent::Established { qp_num, .. } => Event::Established(qp_num),
                CmEvent::Rejected { qp_num, private_data, .. } => Event::Rejected(qp_num, private_data.len()),
                CmEvent::ConnectError { qp_num, .. } => Event::ConnectError(qp_num),
                CmEvent::Disconnected { qp_num, reason } => Event::Disconnected(qp_num, kind(&reason)),
                event => panic!("no end uses streaming mode: {event:?}"),
            };
            let expected = &mut self.sides[side].expected;
            let found = expected.iter().position(|expected| *expected == heard);
            let found = found.unwrap_or_else(|| panic!("{heard:?} instead of one of {expected:?}"));
            expected.swap_remove(found);
            if let Event::Disconnected(_, kind) = heard {
                self.note(kind);
            }
        }
    }

    /// Takes the remaining completions from all completion queues.
    pub(super) fn finish(&mut self) {
        self.settle();
        for side in 0..self.sides.len() {
            for cq in 0..self.sides[side].cqs.len() {
                self.poll(side, cq, usize::MAX);
            }
        }
    }

    pub(super) fn poll(&mut self, side: usize, cq: usize, count: usize) {
        for ((end, queue), completion) in self.sides[side].cqs[cq].poll(count) {
            let done = &mut self.pair_mut(end).done[queue];
            while done.front().is_some_and(|wr_id| *wr_id <= completion.wr_id) {
                done.pop_front();
            }
            self.note((completion.opcode, completion.status));
        }
    }
}

impl Side {
    fn new(device: Device) -> Self {
        let events = device.create_event_channel().expect("an eventfd");
        let listener = device.listen(&events, PORT).expect("a free port");
        Self {
            pairs: Vec::new(),
            cqs: Vec::new(),
            memories: Memories::default(),
            requests: Vec::new(),
            expected: Vec::new(),
            events,
            _listener: listener,
            pds: [device.alloc_pd(), device.alloc_pd()],
            device,
        }
    }

    /// Returns a live queue pair by choice.
    pub(super) fn pick(&self, choice: u8) -> Option<usize> {
        let alive: Vec<_> = (0..self.pairs.len()).filter(|&index| self.pairs[index].qp.is_some()).collect();
        alive.get(usize::from(choice).checked_rem(alive.len())?).copied()
    }

    pub(super) fn alive(&self) -> usize {
        self.pairs.iter().filter(|pair| pair.qp.is_some()).count()
    }
}

impl Pair {
    /// Returns true if a connection can take this queue pair.
    pub(super) fn is_free(&self) -> bool {
        self.state == QpState::Idle && self.link == Link::None
    }
}

const fn kind(reason: &DisconnectReason) -> EndKind {
    match reason {
        DisconnectReason::Local => EndKind::Local,
        DisconnectReason::Peer => EndKind::Peer,
        DisconnectReason::PeerTerminate { .. } => EndKind::PeerTerminate,
        DisconnectReason::LocalTerminate(_) => EndKind::LocalTerminate,
        DisconnectReason::Lost | DisconnectReason::TimedOut => EndKind::Lost,
    }
}

/// The most queue pairs at a time on each device.
pub(super) const MAX_QPS: usize = 4;
/// Longer than a graceful end takes.
const REST: Duration = Duration::from_secs(1);
const TCP_BUFFER: usize = 32 * 1024;
