//! A sender and a reader on two hosts, with their daemons between them, and what is on its way.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::{Duty, Incoming, NoticeKind, Outgoing};
use crate::layout::{DECLINED, Direction, End};
use crate::leg::{Carrier, RingPlace};
use crate::memory::{Link, Slab};
use crate::ring::index;
use crate::sync::Ordering::Relaxed;
use crate::{Broken, Inbound, Outbound, Record, Secret, Sink, Sleepers, Source, WaiterName};

/// The rings of the sender's link, and of the reader's, by number.
const HERE: [(u32, u8); 3] = [(64, 16), (66, 17), (68, 16)];
const THERE: [(u32, u8); 3] = [(80, 16), (70, 17), (81, 16)];
const SECRET: Secret = [0xa5a5_5a5a_0f0f_f0f0, 0x1234_4321_8765_5678];
const DAEMON: WaiterName = WaiterName { member: 0, line: 0 };

fn place((unit, log2): (u32, u8)) -> RingPlace {
    RingPlace::new(unit, log2).unwrap()
}

/// One direction between two hosts.
struct Hosts {
    links: [Link; 2],
    slab: Slab,
    outgoing: Outgoing,
    incoming: Incoming,
    forth: VecDeque<Duty>,
    back: VecDeque<(NoticeKind, u32)>,
    tcp: VecDeque<u8>,
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Hosts {
    fn new() -> Self {
        let mut it = Self::absent();
        it.meet();
        it
    }

    /// The sender has not taken its channel yet.
    fn absent() -> Self {
        let links = [(); 2].map(|()| Link::map(Link::create().unwrap()).unwrap());
        let mut outgoing = Outgoing::new((place(HERE[0]), place(THERE[0])));
        let mut incoming = Incoming::new(place(THERE[0]));
        for number in 1..HERE.len() {
            outgoing.add_ring(place(HERE[number]), place(THERE[number]));
            incoming.add_ring(place(THERE[number]));
        }
        let slab = Slab::map(Slab::create().unwrap()).unwrap();
        let (forth, back, tcp) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        let it = Self { links, slab, outgoing, incoming, forth, back, tcp, sent: vec![], received: vec![] };
        Outgoing::announce(it.words(0), DAEMON);
        Incoming::announce(it.words(1), DAEMON);
        it
    }

    /// The sender takes its channel, and both daemons hear of that.
    fn meet(&mut self) {
        assert!(self.outbound().appear() && !self.outbound().appear());
        self.settle();
        assert!(self.is_met());
    }

    /// The reader's host knows that the sender has the channel.
    fn is_met(&self) -> bool {
        self.words(1).legs.present.load(Relaxed) != 0
    }

    fn end(&self, slot: u32) -> &End {
        self.slab.end(slot).unwrap()
    }

    /// The sender is party 0 of its link, and the reader party 1 of its own.
    fn words(&self, host: usize) -> &Direction {
        &self.links[host].channel(5).unwrap().directions[0]
    }

    fn outbound(&self) -> Outbound<'_> {
        Outbound::new(&self.end(0).outbound, &self.links[0], 5, 0).unwrap()
    }

    fn inbound(&self) -> Inbound<'_> {
        Inbound::new(&self.end(1).inbound, &self.links[1], 5, 1).unwrap()
    }

    /// The sender's daemon works. Returns false if it has nothing to do.
    fn send(&mut self, most: u32) -> bool {
        let words = &self.links[0].channel(5).unwrap().directions[0];
        let Some(duty) = self.outgoing.poll(words, most, true).unwrap() else { return false };
        self.forth.push_back(duty);
        true
    }

    /// What the sender's daemon sent first arrives.
    fn arrive(&mut self) -> bool {
        let Some(duty) = self.forth.pop_front() else { return false };
        let words = &self.links[1].channel(5).unwrap().directions[0];
        match duty {
            Duty::Write { from, to, len, value } => {
                let mut octets = vec![0; len as usize];
                let (source, target) = (covering(from), covering(to));
                assert!(self.links[0].ring(source).read(index(from - source.offset()), &mut octets));
                assert!(self.links[1].ring(target).write(index(to - target.offset()), &octets));
                self.incoming.handle(words, NoticeKind::Data, value).unwrap();
            }
            Duty::Leg { number, ring, start } => {
                self.incoming.handle_leg(words, number, ring, start).unwrap();
            }
            Duty::Final { end } => _ = self.incoming.handle_final(words, end).unwrap(),
            Duty::Notice { kind, value } => _ = self.incoming.handle(words, kind, value).unwrap(),
        }
        true
    }

    /// The reader's daemon works, or what it sent first arrives. Returns false if there is nothing.
    fn answer(&mut self, is_idle: bool) -> bool {
        let words = &self.links[1].channel(5).unwrap().directions[0];
        let told = self.incoming.poll(words, is_idle).unwrap();
        self.back.extend(told);
        told.is_some()
    }

    fn hear(&mut self) -> bool {
        let Some((kind, value)) = self.back.pop_front() else { return false };
        let words = &self.links[0].channel(5).unwrap().directions[0];
        self.outgoing.handle(words, kind, value).unwrap();
        true
    }

    fn settle(&mut self) {
        while self.send(10_000) | self.arrive() | self.answer(true) | self.hear() {}
    }

    fn write(&mut self, len: usize) {
        let begin = self.sent.len();
        let octets: Vec<u8> =
            (begin..begin + len).map(|at| (at * 31 + at / 251 + at / 65_521).to_le_bytes()[0]).collect();
        let len = match self.outbound().sink() {
            Sink::Ring => self.outbound().write(&octets).unwrap(),
            Sink::Tcp => {
                self.tcp.extend(&octets);
                self.end(0).outbound.count(len as u64);
                len
            }
        };
        self.sent.extend(&octets[..len]);
    }

    fn read(&mut self, len: usize) -> usize {
        let most = self.look_for_record();
        let octets: Vec<u8> = match self.inbound().source().unwrap() {
            Source::Ring { .. } => {
                let mut octets = vec![0; len];
                let len = self.inbound().read(&mut octets).unwrap();
                octets[..len].to_vec()
            }
            Source::Tcp { left } => {
                let left = left.map_or(most, index);
                let octets: Vec<u8> = self.tcp.drain(..len.min(left).min(self.tcp.len())).collect();
                self.end(1).inbound.count(octets.len() as u64);
                octets
            }
        };
        let at = self.received.len();
        assert_eq!(octets, self.sent[at..at + octets.len()], "what came is what was sent, from {at} on");
        self.received.extend(&octets);
        octets.len()
    }

    /// Does what the library of the reader does: it looks for a record where one may be, and drops what it has. Returns how
    /// many octets of the kernel's stream it may take.
    fn look_for_record(&mut self) -> usize {
        let inbound = Inbound::new(&self.slab.end(1).unwrap().inbound, &self.links[1], 5, 1).unwrap();
        let octets = self.tcp.make_contiguous();
        let place = match inbound.source().unwrap() {
            _ if inbound.has_left() => None,
            Source::Ring { available: 0 } => Record::decode(octets, SECRET).is_ok().then_some(0),
            Source::Tcp { left: None } if inbound.expects_ring() => Record::find(octets, SECRET),
            _ => None,
        };
        if place == Some(0)
            && let Some(record) = Record::decode(octets, SECRET).unwrap()
        {
            inbound.leave(record).unwrap();
        }
        let skip = index(inbound.skip()).min(self.tcp.len());
        self.tcp.drain(..skip);
        inbound.skipped(skip as u64);
        place.filter(|place| *place > 0).unwrap_or(usize::MAX)
    }

    /// The sender goes back to TCP by itself, since its lane is lost.
    fn depart(&mut self) {
        assert_eq!(self.outbound().depart(), Ok(true));
        if let Some(record) = self.outbound().record() {
            self.tcp.extend(record.encode(SECRET));
            self.outbound().record_sent();
        }
        while self.outbound().backlog().is_some() {
            self.resend();
        }
    }

    fn begin_leg(&self, number: usize) {
        let carrier = Carrier::Ring(place(HERE[number]));
        let current = self.end(0).outbound.leg().carrier;
        let is_free = current != carrier && self.outbound().is_attached() == Some(true);
        if is_free && self.outbound().commit() {
            self.outbound().begin_leg(carrier).unwrap();
        }
    }

    /// The reader wants TCP, and gets it for good.
    fn lower(&mut self) {
        self.inbound().ask_back();
        self.settle();
        if self.outbound().is_asked_back() {
            self.depart();
        }
        self.settle();
        let octets = self.tcp.make_contiguous();
        match Record::decode(octets, SECRET) {
            Ok(Some(record)) => self.inbound().leave(record).unwrap(),
            Ok(None) | Err(Broken) => {
                assert!(self.inbound().is_answered() && self.inbound().is_before_ring());
                self.inbound().remain();
            }
        }
        assert_eq!((self.outbound().sink(), self.end(1).inbound.leg().carrier), (Sink::Tcp, Carrier::Tcp));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write(len) => self.write(len),
            Step::Read(len) => _ = self.read(len),
            Step::BeginLeg(number) => self.begin_leg(number),
            Step::Send(most) => _ = self.send(most),
            Step::Arrive => _ = self.arrive(),
            Step::Answer(is_idle) => _ = self.answer(is_idle),
            Step::Hear => _ = self.hear(),
            Step::Settle => self.settle(),
        }
    }

    /// The sender writes what the reader has left to the kernel's socket.
    fn resend(&mut self) {
        let head = index(self.end(0).outbound.head.load(Relaxed));
        if let Some(pieces) = self.outbound().backlog() {
            let len = pieces.iter().map(|piece| piece.1).sum();
            self.tcp.extend(&self.sent[head..head + len]);
            self.outbound().resent(len);
        }
    }
}

/// The ring in which an octet of a link lies.
fn covering(at: u64) -> RingPlace {
    let rings = HERE.iter().chain(&THERE).map(|ring| place(*ring));
    let mut covering = rings.filter(|ring| (ring.offset()..ring.offset() + ring.len()).contains(&at));
    covering.next().expect("inside of a ring")
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    Read(usize),
    BeginLeg(usize),
    Send(u32),
    Arrive,
    Answer(bool),
    Hear,
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let size = || prop_oneof![3 => 0..100_usize, 1 => 0..40_000_usize, 1 => 60_000..140_000_usize];
    prop_oneof![
        6 => size().prop_map(Step::Write),
        6 => size().prop_map(Step::Read),
        2 => (0..HERE.len()).prop_map(Step::BeginLeg),
        6 => (1..70_000_u32).prop_map(Step::Send),
        6 => Just(Step::Arrive),
        6 => any::<bool>().prop_map(Step::Answer),
        6 => Just(Step::Hear),
        1 => Just(Step::Settle),
    ]
}

#[test]
fn a_daemon_tells_once_the_end_of_a_stream_that_was_shut_down_before_its_process_heard_of_the_channel() {
    let mut hosts = Hosts::new();
    hosts.forth.extend(hosts.outgoing.end_before_ring(934));
    assert!(hosts.arrive());
    assert_eq!(hosts.inbound().end(), Some(934));
    // The process takes the channel later, and says the same.
    assert!(!hosts.outgoing.may_end_before_ring() && hosts.outgoing.end_before_ring(934).is_none());
    hosts.outbound().finish().unwrap();
    assert!(!hosts.send(1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_between_hosts_is_what_was_sent(
        steps in proptest::collection::vec(step(), 1..200), is_lowered: bool,
    ) {
        let mut hosts = Hosts::new();
        hosts.write(50);
        hosts.inbound().attach();
        hosts.settle();
        for step in steps {
            hosts.step(step);
        }
        if is_lowered {
            hosts.lower();
        }
        hosts.write(700);
        hosts.settle();
        hosts.outbound().finish().unwrap();
        loop {
            hosts.settle();
            if hosts.read(30_000) == 0 {
                break;
            }
        }
        hosts.settle();
        prop_assert_eq!(hosts.received.len(), hosts.sent.len());
        if hosts.inbound().has_left() {
            return Ok(());
        }
        prop_assert!(hosts.inbound().is_at_end(), "{:?}", hosts.inbound().end());
        let unread = hosts.outbound().unread();
        prop_assert_eq!(unread, Ok(0), "the sender hears that all is taken");
    }

    /// The lane is lost, with some of what is on its way. The daemons go on for a while.
    #[test]
    fn a_stream_goes_on_when_its_sender_departs_at_any_moment(
        before in proptest::collection::vec(step(), 1..100),
        arriving in 0..4_usize,
        behind in proptest::collection::vec(step(), 1..30),
    ) {
        let mut hosts = Hosts::new();
        hosts.write(50);
        hosts.inbound().attach();
        hosts.settle();
        for step in before {
            hosts.step(step);
        }
        hosts.forth.truncate(arriving);
        hosts.back.truncate(arriving);
        hosts.depart();
        for step in behind {
            hosts.step(step);
        }
        hosts.write(700);
        while hosts.received.len() < hosts.sent.len() {
            prop_assert!(hosts.read(30_000) > 0, "{} of {}", hosts.received.len(), hosts.sent.len());
        }
        prop_assert!(hosts.tcp.is_empty());
        hosts.settle();
    }

    #[test]
    fn daemons_take_any_words(words in proptest::collection::vec((0..16_u32, any::<u64>()), 1..60)) {
        let mut hosts = Hosts::new();
        for (at, word) in words {
            let low = crate::far::low_half(word);
            let near = word % 200_000;
            let (sender, reader) = (&hosts.links[0].channel(5).unwrap().directions[0], hosts.words(1));
            let number = u16::try_from(word % 4).unwrap();
            let ring = THERE.iter().chain(&HERE).nth(index(word / 4 % 5)).map(|ring| place(*ring)).unwrap();
            match at {
                0 => sender.producer.tail.store(near, Relaxed),
                1 => sender.legs.start.store(near, Relaxed),
                2 => {
                    let carrier = HERE.get(index(word / 4 % 5)).map_or(Carrier::Tcp, |ring| Carrier::Ring(place(*ring)));
                    sender.legs.leg.store(crate::Leg { number, carrier }.to_word(), Relaxed);
                }
                3 => sender.legs.leg.store(word, Relaxed),
                4 => sender.producer.flags.store(number, Relaxed),
                5 => sender.legs.end.store(near, Relaxed),
                6 => sender.producer.tail.store(word, Relaxed),
                7 => reader.consumer.head.store(near, Relaxed),
                8 => reader.consumer.adopted.store(word % 4, Relaxed),
                9 => reader.reader.please.store(low % 2, Relaxed),
                10 => reader.reader.attached.store(low % 4, Relaxed),
                11 => _ = hosts.incoming.handle_leg(&hosts.links[1].channel(5).unwrap().directions[0], number, ring, near),
                12 => _ = hosts.incoming.handle_final(&hosts.links[1].channel(5).unwrap().directions[0], near),
                kind => {
                    let notice = super::Notice::decode([0, 0, 0, 0, 0, 0, 0, ((low % 9 + 1) << 4).to_le_bytes()[0]]).unwrap();
                    let value = if kind == 13 { low } else { crate::far::low_half(near) };
                    let [first, second] = hosts.links.each_ref().map(|link| &link.channel(5).unwrap().directions[0]);
                    let _ = hosts.incoming.handle(second, notice.kind, value);
                    let _ = hosts.outgoing.handle(first, notice.kind, value);
                }
            }
            let [first, second] = hosts.links.each_ref().map(|link| &link.channel(5).unwrap().directions[0]);
            if let Ok(Some(Duty::Write { from, to, len, .. })) = hosts.outgoing.poll(first, 70_000, true) {
                let (here, there) = (covering(from), covering(to));
                prop_assert!(HERE.iter().any(|ring| place(*ring) == here) && THERE.iter().any(|ring| place(*ring) == there));
                prop_assert!(from + u64::from(len) <= here.offset() + here.len());
                prop_assert!(to + u64::from(len) <= there.offset() + there.len());
            }
            let _ = hosts.incoming.poll(second, true);
        }
    }
}

#[test]
fn a_question_before_the_ring_is_answered_by_the_senders_daemon() {
    let mut hosts = Hosts::new();
    hosts.inbound().attach();
    hosts.settle();
    assert_eq!(hosts.outbound().is_attached(), Some(true));
    assert!(!hosts.inbound().withdraw(), "the sender may have begun already");
    hosts.inbound().ask_back();
    hosts.settle();
    assert!(hosts.inbound().is_answered() && !hosts.outbound().commit());
}

#[test]
fn sleepers_are_told_and_the_daemon_is_named() {
    let mut hosts = Hosts::new();
    hosts.inbound().attach();
    hosts.settle();
    hosts.begin_leg(0);
    hosts.write(8);
    assert_eq!(hosts.outbound().sleepers(), Some(Sleepers::One(DAEMON)));
    while hosts.send(100) {}
    let reader = WaiterName { member: 3, line: 4 };
    let _barrier = hosts.inbound().announce(crate::Sleep { waiter: reader, number: 1 }, |_| false);
    let words = &hosts.links[1].channel(5).unwrap().directions[0];
    let leg = hosts.incoming.handle_leg(words, 1, place(THERE[0]), 0);
    assert_eq!(leg, Ok(Some(Sleepers::One(reader))));
    assert_eq!(hosts.incoming.handle(words, NoticeKind::Data, 8), Ok(Some(Sleepers::One(reader))));
    assert_eq!(hosts.incoming.handle(words, NoticeKind::Data, 70_000), Err(Broken), "no room for so many");
}

#[test]
fn a_sender_that_waits_for_room_hears_of_it_though_the_reader_rings_no_more() {
    let mut hosts = Hosts::new();
    hosts.inbound().attach();
    hosts.settle();
    hosts.begin_leg(0);
    hosts.write(1);
    hosts.settle();
    assert_eq!(hosts.read(1), 1);
    hosts.settle();
    // The daemon looks before these octets are taken, and the reader does not ring for them.
    hosts.write(16_000);
    hosts.settle();
    assert_eq!(hosts.read(16_000), 16_000);
    assert_eq!(hosts.inbound().sleepers(), None);
    hosts.write(22_000);
    hosts.settle();
    assert_eq!(hosts.read(1), 1);
    assert_eq!(hosts.inbound().sleepers(), Some(Sleepers::One(DAEMON)), "for the first 16,001");
    hosts.settle();
    // Too little of the ring is free for a sender that has not heard of those.
    hosts.write(10_500);
    hosts.settle();
    assert_eq!(hosts.read(20_000) + hosts.read(20_000), 32_499);
    assert_eq!(hosts.inbound().sleepers(), None);
    assert_eq!(hosts.outbound().is_writable(), Ok(true));
}

/// The reader rings when half of the ring is free, and not again: the sender may sleep until it hears of that head.
#[test]
fn a_sender_hears_at_once_of_the_head_that_frees_half_of_its_ring() {
    let hosts = Hosts::new();
    let words = &hosts.links[1].channel(5).unwrap().directions[0];
    let ring = place((80, 18));
    let mut incoming = Incoming::new(ring);
    incoming.handle_leg(words, 1, ring, 0).unwrap();
    words.consumer.adopted.store(1, Relaxed);
    assert_eq!(incoming.poll(words, false), Ok(Some((NoticeKind::Adopted, 1))));
    incoming.handle(words, NoticeKind::Data, 256 << 10).unwrap();
    let mut look = |head: u32| {
        words.consumer.head.store(u64::from(head) << 10, Relaxed);
        incoming.poll(words, false).unwrap().map(|(kind, head)| (kind, head >> 10))
    };
    assert_eq!(look(96), Some((NoticeKind::Credit, 96)), "a quarter");
    assert_eq!(look(127), None);
    assert_eq!(look(128), Some((NoticeKind::Credit, 128)));
    assert_eq!(look(191), None);
    assert_eq!(look(192), Some((NoticeKind::Credit, 192)), "a quarter");
}

#[test]
fn a_sender_that_waits_for_room_hears_that_its_reader_is_gone() {
    let hosts = Hosts::new();
    let [ours, theirs] = &hosts.links[1].channel(5).unwrap().directions;
    // Party 1 of this link sends in the other direction, and waits for room.
    let own = Outbound::new(&hosts.end(1).outbound, &hosts.links[1], 5, 1).unwrap();
    assert_eq!(hosts.incoming.handle_closed(ours, theirs), None, "nobody waits");
    let waiter = WaiterName { member: 3, line: 4 };
    theirs.legs.waiter.store(waiter.to_word(), Relaxed);
    assert_eq!(hosts.incoming.handle_closed(ours, theirs), Some(Sleepers::One(waiter)));
    assert!(own.is_killed() && !own.is_deserted());
}

#[test]
fn an_answer_may_come_behind_the_end_of_the_question() {
    let mut hosts = Hosts::new();
    hosts.inbound().attach();
    hosts.settle();
    let words = &hosts.links[1].channel(5).unwrap().directions[0];
    assert_eq!(hosts.incoming.handle(words, NoticeKind::Declined, 0), Err(Broken), "nobody has asked");
    for please in [1, 0] {
        words.reader.please.store(please, Relaxed);
        assert_eq!(hosts.incoming.poll(words, false), Ok(Some((NoticeKind::Please, please))));
    }
    assert_eq!(hosts.incoming.handle(words, NoticeKind::Declined, 0), Ok(None));
}

#[test]
fn a_ring_that_begins_behind_the_end_of_the_stream_breaks_nothing() {
    let mut hosts = Hosts::new();
    hosts.inbound().attach();
    hosts.settle();
    hosts.write(20);
    hosts.outbound().finish().unwrap();
    hosts.settle();
    // Another thread has looked before that, and begins it now.
    assert!(hosts.outbound().commit());
    assert_eq!(hosts.outbound().begin_leg(Carrier::Ring(place(HERE[0]))), Ok(true));
    hosts.settle();
    assert_eq!((hosts.inbound().end(), hosts.inbound().is_reset()), (Some(20), false));
    // What a sender sends behind its end is not lost in silence.
    hosts.write(1);
    let words = &hosts.links[0].channel(5).unwrap().directions[0];
    let leg = Duty::Leg { number: 1, ring: place(THERE[0]), start: 20 };
    assert_eq!(hosts.outgoing.poll(words, 100, true), Ok(Some(leg)));
}

/// A direction whose sender has begun a ring, while its reader has octets by TCP still, and asks for TCP.
fn asked_before_the_ring(begins: bool) -> Hosts {
    let mut hosts = Hosts::new();
    hosts.write(50);
    hosts.inbound().attach();
    hosts.settle();
    if begins {
        hosts.begin_leg(0);
        hosts.write(3_000);
        hosts.settle();
    }
    assert_eq!(hosts.read(20), 20);
    hosts.inbound().ask_back();
    hosts
}

#[test]
fn a_question_that_has_arrived_is_answered_without_a_record_though_the_session_ends() {
    let mut hosts = asked_before_the_ring(true);
    hosts.settle();
    assert!(!hosts.inbound().is_answered(), "the sender has not come along yet");
    Outgoing::lower(hosts.words(0));
    hosts.incoming.lower(hosts.words(1));
    hosts.depart();
    assert!(hosts.inbound().is_answered() && hosts.inbound().is_before_ring());
    hosts.inbound().remain();
    hosts.write(700);
    while hosts.read(1_000) > 0 {}
    assert_eq!((hosts.received.len(), hosts.tcp.len()), (3_750, 0));
}

#[test]
fn a_question_that_has_not_arrived_is_answered_by_a_record() {
    // The lane is lost, or the sender has gone back by itself.
    for is_lost in [true, false] {
        let mut hosts = asked_before_the_ring(true);
        if is_lost {
            Outgoing::lower(hosts.words(0));
            hosts.incoming.lower(hosts.words(1));
            hosts.depart();
        } else {
            hosts.depart();
            hosts.settle();
        }
        assert!(!hosts.inbound().is_answered(), "a program without the library would read the record");
        hosts.write(700);
        while hosts.read(1_000) > 0 {}
        assert_eq!((hosts.received.len(), hosts.tcp.len()), (3_750, 0));
    }
}

#[test]
fn a_reader_that_has_asked_before_a_ring_comes_to_none() {
    let mut hosts = asked_before_the_ring(true);
    assert_eq!(hosts.read(30), 30);
    assert_eq!((hosts.read(100), hosts.inbound().is_before_ring()), (0, true));
    hosts.settle();
    hosts.depart();
    hosts.settle();
    assert_eq!((hosts.read(4_000), hosts.tcp.len()), (3_000, 0));
}

#[test]
fn a_question_that_comes_by_another_session_is_answered_unless_a_record_comes() {
    for (begins, departs) in [(false, false), (true, false), (false, true), (true, true)] {
        let hosts = asked_before_the_ring(begins);
        Outgoing::lower(hosts.words(0));
        if departs {
            assert!(if begins { hosts.outbound().depart() == Ok(true) } else { hosts.outbound().renounce() });
        }
        let (stays, _) = Outgoing::handle_late_question(hosts.words(0));
        assert_eq!(stays, !departs, "{begins}");
        if departs {
            assert!(hosts.outbound().record().is_some());
            continue;
        }
        assert!(!hosts.outbound().renounce() && hosts.outbound().depart() == Ok(true));
        assert_eq!(hosts.outbound().record(), None, "it would be in the way of the next program");
        assert!(Outgoing::handle_late_question(hosts.words(0)).0, "it asks until it hears the answer");
        assert!(!hosts.inbound().is_answered());
        Incoming::answer_late(hosts.words(1));
        assert!(hosts.inbound().is_answered() && hosts.inbound().is_before_ring());
    }
}

#[test]
fn a_question_that_finds_its_sender_on_the_way_back_is_answered_later() {
    let mut hosts = asked_before_the_ring(true);
    assert!(hosts.answer(true), "the question is on its way");
    // The sender has said that it goes back, and has found the question. The daemon has told the question, and finds that word.
    hosts.words(0).reader.please.store(crate::layout::ASKED, Relaxed);
    assert_eq!(hosts.outbound().depart(), Ok(true));
    hosts.settle();
    assert!(hosts.inbound().is_answered() && hosts.outbound().record().is_none());
}

/// The daemon that has promised may die before it has carried what is in the ring. The reader would not miss it.
#[test]
fn a_stream_ends_in_its_ring_only_if_its_reader_has_no_promise() {
    for (asks_first, is_late) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut hosts = asked_before_the_ring(true);
        if !asks_first {
            assert_eq!(hosts.outbound().obey_at_end(), Ok(()));
            assert_eq!(hosts.outbound().sink(), Sink::Ring);
        }
        let stays = if is_late {
            Outgoing::handle_late_question(hosts.words(0)).0
        } else {
            hosts.settle();
            hosts.incoming.lower(hosts.words(1));
            hosts.inbound().is_answered()
        };
        assert_eq!(stays, asks_first, "late: {is_late}");
        if asks_first {
            assert_eq!((hosts.outbound().obey_at_end(), hosts.outbound().sink()), (Ok(()), Sink::Tcp));
            assert!(hosts.outbound().record().is_none() && hosts.outbound().backlog().is_some());
        }
        hosts.outbound().finish().unwrap();
        assert_eq!(Outgoing::handle_late_question(hosts.words(0)).0, asks_first, "it has heard nothing yet");
    }
}

#[test]
fn a_reader_that_has_come_to_a_ring_takes_no_late_answer() {
    let mut hosts = asked_before_the_ring(true);
    hosts.inbound().ask_no_more();
    while hosts.read(1_000) > 0 {}
    hosts.inbound().ask_back();
    assert_eq!(Incoming::answer_late(hosts.words(1)), None);
    assert!(!hosts.inbound().is_answered());
}

/// The reader has attached. The sender hears of that only when the reader's host knows of the sender.
#[test]
fn a_sender_that_is_not_known_begins_no_ring() {
    let mut hosts = Hosts::absent();
    hosts.inbound().attach();
    hosts.settle();
    assert_eq!((hosts.outbound().is_attached(), hosts.is_met()), (None, false));
    assert!(hosts.outbound().appear());
    assert!(hosts.send(1) && hosts.arrive());
    assert_eq!((hosts.outbound().is_attached(), hosts.is_met()), (None, true), "the answer is missing");
    hosts.settle();
    assert_eq!(hosts.outbound().is_attached(), Some(true));
}

/// A reader that asks for TCP meanwhile gets it.
#[test]
fn a_question_counts_before_the_sender_is_known() {
    let mut hosts = Hosts::absent();
    hosts.inbound().attach();
    hosts.settle();
    hosts.inbound().ask_back();
    hosts.settle();
    assert_eq!(hosts.outbound().is_attached(), Some(false));
    hosts.meet();
    assert_eq!(hosts.outbound().is_attached(), Some(false), "it begins no ring any more");
    assert!(hosts.inbound().is_answered());
}

/// The session ends before the reader's host has heard of the sender: the reader waits for no ring.
#[test]
fn a_reader_of_a_sender_that_was_not_met_hears_that_no_ring_comes() {
    for is_met in [false, true] {
        let mut hosts = Hosts::absent();
        hosts.inbound().attach();
        if is_met {
            hosts.meet();
        }
        assert_eq!(hosts.inbound().expects_ring(), is_met);
        let _sleepers = hosts.incoming.lower(hosts.words(1));
        let attached = hosts.words(1).reader.attached.load(Relaxed);
        assert_eq!(attached == DECLINED, !is_met);
    }
}
