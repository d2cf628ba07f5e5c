//! Random calls of a sender and a reader, beside a plain string of octets; and random words of a hostile peer.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::World;
use crate::layout::Direction;
use crate::leg::{Carrier, Leg, RingPlace};
use crate::ring::{Ring, index};
use crate::sync::Ordering::Relaxed;
use crate::{Sink, Sleep, Source, WaiterName};

/// A call of the sender or of the reader.
#[derive(Clone, Debug)]
enum Call {
    Write(usize),
    Gather(Vec<usize>, bool),
    /// Writes into the free memory, as a system call does, and publishes it.
    Splice(usize, bool),
    /// Sleeps until there is room.
    AskForRoom,
    /// Begins a leg by TCP or by one of [`RINGS`].
    BeginLeg(usize),
    Read(usize),
    ReadInHandler(usize),
    Peek(u64, usize),
    Discard(usize),
    /// Another thread takes over from an owner that was killed after its own words, before the link's.
    KillSender,
    KillReader,
}

/// The rings that legs use: unit and logarithm.
const RINGS: [(u32, u8); 4] = [(64, 16), (65, 16), (66, 17), (68, 18)];

/// A sender, a reader, the kernel's stream between them, and all that was sent and received.
struct Stream {
    world: World,
    tcp: VecDeque<u8>,
    sent: Vec<u8>,
    received: Vec<u8>,
    /// The sender sleeps.
    is_asleep: bool,
}

const SLEEP: Sleep = Sleep { waiter: WaiterName { member: 9, line: 9 }, number: 1 };

/// Sizes around the octets beside the tail, around rings, and others.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..20_usize, 2 => 0..100_usize, 1 => 0..3000_usize, 1 => 30_000..70_000_usize, 1 => 0..300_000_usize]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        8 => size().prop_map(Call::Write),
        2 => (proptest::collection::vec(size(), 0..4), any::<bool>()).prop_map(|(sizes, more)| Call::Gather(sizes, more)),
        1 => (size(), any::<bool>()).prop_map(|(size, more)| Call::Splice(size, more)),
        2 => Just(Call::AskForRoom),
        1 => (0..=RINGS.len()).prop_map(Call::BeginLeg),
        8 => size().prop_map(Call::Read),
        1 => size().prop_map(Call::ReadInHandler),
        1 => (0..200_u64, size()).prop_map(|(offset, size)| Call::Peek(offset, size)),
        1 => size().prop_map(Call::Discard),
        1 => Just(Call::KillSender),
        1 => Just(Call::KillReader),
    ]
}

impl Stream {
    fn new() -> Self {
        Self { world: World::new(), tcp: VecDeque::new(), sent: vec![], received: vec![], is_asleep: false }
    }

    /// The octets that come next, and no two stretches of which look the same.
    fn octets(&self, len: usize) -> Vec<u8> {
        let begin = self.sent.len();
        (begin..begin + len).map(|at| (at * 31 + at / 251 + at / 65_521).to_le_bytes()[0]).collect()
    }

    fn shared(&self) -> &Direction {
        &self.world.link.channel(5).unwrap().directions[0]
    }

    /// Sends `octets` by a call of the ring's, or by TCP. Returns false if the sender sleeps.
    fn send(&mut self, octets: &[u8], ring: impl FnOnce(&Self) -> usize) {
        if self.is_asleep {
            return;
        }
        let len = match self.world.outbound().sink() {
            Sink::Ring => ring(self),
            Sink::Tcp => {
                self.tcp.extend(octets);
                self.world.end(0).outbound.count(octets.len() as u64);
                octets.len()
            }
        };
        self.sent.extend(&octets[..len]);
    }

    /// Wakes the sender if the reader has to.
    fn wake(&mut self) {
        self.is_asleep &= self.world.inbound().sleepers().is_none();
    }

    /// Receives up to `len` octets by TCP, or by a call of the ring's, which returns them.
    fn receive(&mut self, len: usize, ring: impl FnOnce(&Self) -> Vec<u8>) -> usize {
        let octets: Vec<u8> = match self.world.inbound().source().unwrap() {
            Source::Ring { .. } => ring(self),
            Source::Tcp { left } => {
                let left = left.map_or(usize::MAX, index);
                let octets: Vec<u8> = self.tcp.drain(..len.min(left).min(self.tcp.len())).collect();
                self.world.end(1).inbound.count(octets.len() as u64);
                octets
            }
        };
        let at = self.received.len();
        assert_eq!(octets, self.sent[at..at + octets.len()], "what came is what was sent, from {at} on");
        self.received.extend(&octets);
        self.wake();
        octets.len()
    }

    /// A reader that finds nothing by the quick look finds nothing by the other one.
    fn look(&self) {
        let inbound = self.world.inbound();
        if inbound.quiet().is_some() {
            assert_eq!(inbound.source(), Ok(Source::Ring { available: 0 }));
        }
    }

    fn call(&mut self, call: Call) {
        match call {
            Call::Write(len) => {
                let octets = self.octets(len);
                self.send(&octets, |stream| stream.world.outbound().write(&octets).unwrap());
            }
            Call::Gather(sizes, more) => {
                let octets = self.octets(sizes.iter().sum());
                let ends = sizes.iter().scan(0, |end, len| {
                    Some((*end, {
                        *end += len;
                        *end
                    }))
                });
                let slices: Vec<_> = ends.map(|(begin, end)| &octets[begin..end]).collect();
                self.send(&octets, |stream| stream.world.outbound().gather(slices, more).unwrap());
            }
            Call::Splice(len, more) => {
                let octets = self.octets(len);
                self.send(&octets, |stream| stream.splice(&octets, more));
            }
            Call::AskForRoom => {
                let is_ring = self.world.outbound().sink() == Sink::Ring;
                self.is_asleep |= is_ring && self.world.outbound().ask_for_room(SLEEP, |_| false).unwrap();
            }
            Call::BeginLeg(number) => self.begin_leg(number),
            Call::Read(len) => _ = self.receive(len, |stream| stream.read(len, false)),
            Call::ReadInHandler(len) => {
                self.receive(len, |stream| stream.read(len, true));
                if self.world.inbound().is_behind() {
                    self.world.inbound().republish();
                    self.wake();
                }
            }
            Call::Peek(offset, len) => {
                let mut octets = vec![0; len];
                let len = self.world.inbound().peek(offset, &mut octets).unwrap();
                let at = self.received.len() + index(offset);
                assert!(len == 0 || octets[..len] == self.sent[at..at + len]);
            }
            Call::Discard(len) => {
                self.receive(len, |stream| {
                    let at = stream.received.len();
                    let len = stream.world.inbound().discard(len).unwrap();
                    stream.sent[at..at + len].to_vec()
                });
            }
            Call::KillSender => {
                let shared = self.shared();
                let (tail, start) = (shared.producer.tail.load(Relaxed), shared.legs.start.load(Relaxed));
                // The latest publication is lost, and what stands beside the tail is torn.
                shared.producer.tail.store(tail / 2, Relaxed);
                shared.producer.beside_start.store(tail, Relaxed);
                shared.producer.beside[0].store(!0, Relaxed);
                shared.legs.start.store(start / 2, Relaxed);
                self.world.outbound().republish();
            }
            Call::KillReader => {
                let consumer = &self.shared().consumer;
                consumer.head.store(consumer.head.load(Relaxed) / 2, Relaxed);
                consumer.adopted.store(0, Relaxed);
                self.world.inbound().republish();
                self.wake();
            }
        }
    }

    fn splice(&self, octets: &[u8], more: bool) -> usize {
        let outbound = self.world.outbound();
        let len = outbound.free(octets.len()).unwrap().iter().map(|(_, len)| len).sum();
        let Carrier::Ring(place) = self.world.end(0).outbound.leg().carrier else { return 0 };
        let accepted = self.world.end(0).outbound.accepted();
        Ring::new(self.world.link.ring(place)).write(accepted, &octets[..len]);
        outbound.publish(len, more).unwrap();
        len
    }

    fn read(&self, len: usize, is_nested: bool) -> Vec<u8> {
        let mut octets = vec![0; len];
        let inbound = self.world.inbound();
        let inbound = if is_nested { inbound.nested() } else { inbound };
        let len = inbound.read(&mut octets).unwrap();
        octets.truncate(len);
        octets
    }

    fn begin_leg(&self, number: usize) {
        let current = self.world.end(0).outbound.leg().carrier;
        let place = RINGS.get(number).map(|(unit, log2)| RingPlace::new(*unit, *log2).unwrap());
        let carrier = place.map_or(Carrier::Tcp, Carrier::Ring);
        if carrier != current && !self.is_asleep {
            self.world.outbound().begin_leg(carrier).unwrap();
        }
    }

    /// The reader takes all that is there. A sender that sleeps has to be woken by that.
    fn drain(&mut self) {
        while self.receive(10_000, |stream| stream.read(10_000, false)) > 0 {}
        assert!(!self.is_asleep, "the sender sleeps beside an empty ring");
    }
}

/// A word that a peer stores: near the positions that are in use, a leg, or any.
fn word() -> impl Strategy<Value = u64> {
    let leg =
        (0..4_u16, prop_oneof![Just(None), (0..RINGS.len()).prop_map(Some)]).prop_map(|(number, ring)| {
            let place = ring.and_then(|ring| RingPlace::new(RINGS[ring].0, RINGS[ring].1));
            Leg { number, carrier: place.map_or(Carrier::Tcp, Carrier::Ring) }.to_word()
        });
    prop_oneof![0..200_000_u64, leg, any::<u64>(), (0..100_u64).prop_map(|less| u64::MAX - less)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_over_any_legs_is_what_was_sent(calls in proptest::collection::vec(call(), 1..60)) {
        let mut stream = Stream::new();
        stream.call(Call::BeginLeg(0));
        for call in calls {
            stream.call(call);
            stream.look();
        }
        stream.world.outbound().finish().unwrap();
        stream.drain();
        prop_assert!(stream.world.inbound().is_at_end() && stream.received.len() == stream.sent.len());
    }

    #[test]
    fn a_hostile_peer_moves_nobody_out_of_the_ring(
        steps in proptest::collection::vec((0..12_usize, word(), size()), 1..60),
    ) {
        let world = World::new();
        let (outbound, inbound) = world.ringed();
        let guards: Vec<_> = [65, 66].map(|unit| world.link.ring(RingPlace::new(unit, 16).unwrap())).into();
        guards.iter().for_each(|guard| assert!(guard.write(0, &vec![0xa5; guard.len()])));
        let shared = &world.link.channel(5).unwrap().directions[0];
        let (producer, legs) = (&shared.producer, &shared.legs);
        let mut octets = vec![0; 300_000];
        for (at, word, len) in steps {
            let words = [
                &producer.tail, &producer.beside_start, &producer.beside[0], &legs.start, &legs.leg, &legs.end,
                &shared.consumer.head, &shared.consumer.adopted,
            ];
            let small = [&legs.waiter, &shared.reader.waiter, &shared.reader.mode, &shared.reader.please];
            match words.get(at) {
                Some(target) => target.store(word, Relaxed),
                None => small[at - words.len()].store((word & 0xffff_ffff).try_into().unwrap(), Relaxed),
            }
            // The answers may be anything.
            let _ = (inbound.source(), inbound.read(&mut octets[..len]), inbound.sleepers(), inbound.is_at_end());
            let _ = (inbound.peek(word % 100, &mut octets[..len]), inbound.discard(len), inbound.filled(len));
            let _ = (outbound.write(&[0; 50][..len.min(50)]), outbound.write(&octets[..len]), outbound.sleepers());
            let _ = (outbound.gather([&octets[..len]], true), outbound.unread(), outbound.free(len));
            let _ = (outbound.ask_for_room(SLEEP, |_| true), outbound.publish(len, false), outbound.room(word));
        }
        for guard in guards {
            let mut octets = vec![0; guard.len()];
            assert!(guard.read(0, &mut octets));
            prop_assert!(octets.iter().all(|octet| *octet == 0xa5));
        }
    }
}
