//! A sender and a reader of one direction, over all its legs.

mod lowering;
mod random;

use crate::layout::{End, MODE_NO_FENCE};
use crate::leg::{Carrier, RingPlace};
use crate::memory::{Link, Slab};
use crate::sync::Ordering;
use crate::{Barrier, Broken, Inbound, Outbound, Sink, Sleep, Sleepers, Source, WaiterName};

/// The memory of a direction: party 0 sends to party 1.
struct World {
    link: Link,
    slab: Slab,
}

impl World {
    fn new() -> Self {
        let link = Link::map(Link::create().unwrap()).unwrap();
        Self { link, slab: Slab::map(Slab::create().unwrap()).unwrap() }
    }

    fn end(&self, slot: u32) -> &End {
        self.slab.end(slot).unwrap()
    }

    fn outbound(&self) -> Outbound<'_> {
        Outbound::new(&self.end(0).outbound, &self.link, 5, 0).unwrap()
    }

    fn inbound(&self) -> Inbound<'_> {
        Inbound::new(&self.end(1).inbound, &self.link, 5, 1).unwrap()
    }

    /// Both views, with the direction in a ring from position 0 on.
    fn ringed(&self) -> (Outbound<'_>, Inbound<'_>) {
        let (outbound, inbound) = (self.outbound(), self.inbound());
        assert_eq!(outbound.begin_leg(ring(64, 16)), Ok(true));
        assert_eq!(inbound.source(), Ok(Source::Ring { available: 0 }));
        (outbound, inbound)
    }
}

fn sleep(waiter: WaiterName) -> Sleep {
    Sleep { waiter, number: 1 }
}

fn ring(unit: u32, log2: u8) -> Carrier {
    Carrier::Ring(RingPlace::new(unit, log2).unwrap())
}

#[test]
fn octets_go_by_tcp_then_by_the_ring_then_by_tcp_again() {
    let world = World::new();
    let (outbound, inbound) = (world.outbound(), world.inbound());
    assert_eq!((outbound.sink(), inbound.source()), (Sink::Tcp, Ok(Source::Tcp { left: None })));
    assert_eq!(outbound.is_attached(), None);
    inbound.attach();
    assert_eq!(outbound.is_attached(), Some(true));
    world.end(0).outbound.count(100);
    world.end(1).inbound.count(60);
    assert_eq!(outbound.begin_leg(ring(64, 16)), Ok(true));
    assert_eq!(outbound.begin_leg(Carrier::Tcp), Ok(false), "the reader is not there yet");
    assert_eq!((outbound.sink(), outbound.write(b"in the ring")), (Sink::Ring, Ok(11)));
    assert_eq!(inbound.source(), Ok(Source::Tcp { left: Some(40) }));
    assert_eq!(inbound.read(&mut [0; 8]), Ok(0));
    world.end(1).inbound.count(40);
    assert_eq!(inbound.source(), Ok(Source::Ring { available: 11 }));
    let mut octets = [0; 20];
    assert_eq!((inbound.read(&mut octets), &octets[..11]), (Ok(11), &b"in the ring"[..]));
    assert_eq!((inbound.is_at_end(), inbound.is_reset()), (false, false));
    assert_eq!(outbound.begin_leg(Carrier::Tcp), Ok(true));
    assert_eq!((outbound.sink(), outbound.write(b"x")), (Sink::Tcp, Ok(0)));
    assert_eq!(inbound.source(), Ok(Source::Tcp { left: None }));
    world.end(0).outbound.count(3);
    outbound.finish().unwrap();
    outbound.reset();
    world.end(1).inbound.count(3);
    assert_eq!((inbound.end(), inbound.is_at_end(), inbound.is_reset()), (Some(114), true, true));
}

#[test]
fn a_full_ring_takes_no_more_and_wakes_its_sender_when_half_of_it_is_free() {
    let world = World::new();
    let (outbound, inbound) = world.ringed();
    let waiter = WaiterName { member: 3, line: 7 };
    let octets = vec![7; 30_000];
    let full = || world.end(0).outbound.full.load(Ordering::Relaxed);
    assert_eq!((outbound.write(&octets), outbound.is_writable(), full()), (Ok(30_000), Ok(true), 0));
    assert!(outbound.is_known_writable());
    assert_eq!((outbound.write(&octets), outbound.is_writable(), full()), (Ok(30_000), Ok(false), 0));
    assert!(!outbound.is_known_writable());
    assert_eq!((outbound.write(&octets), outbound.is_writable(), full()), (Ok(5_536), Ok(false), 65_537));
    assert_eq!((outbound.free(1).map(|pieces| pieces[0].1), full()), (Ok(0), 65_537));
    assert_eq!((outbound.write(b"x"), outbound.unread(), full()), (Ok(0), Ok(65_536), 65_537));
    assert_eq!(outbound.ask_for_room(sleep(waiter), |_| false), Ok(true));
    let mut into = vec![0; 30_000];
    assert_eq!((inbound.read(&mut into), inbound.sleepers()), (Ok(30_000), None));
    assert_eq!((inbound.discard(2_767), inbound.sleepers()), (Ok(2_767), None));
    assert_eq!(outbound.room(1), Ok(0), "the head is published at half of the ring");
    assert_eq!((inbound.discard(1), inbound.sleepers()), (Ok(1), Some(Sleepers::One(waiter))));
    assert_eq!(outbound.ask_for_room(sleep(waiter), |_| false), Ok(false));
    assert_eq!((outbound.room(1), inbound.sleepers()), (Ok(32_768), None));
    assert!(outbound.is_known_writable(), "`ask_for_room` has looked at the head");
    // The sender has not looked at the room that the reader makes now.
    assert_eq!((outbound.write(&octets[..11_000]), inbound.discard(32_768)), (Ok(11_000), Ok(32_768)));
    assert_eq!((outbound.is_known_writable(), outbound.is_writable()), (false, Ok(true)));
    assert!(outbound.is_known_writable());
}

#[test]
fn a_reader_that_waits_twice_without_an_answer_between_is_in_a_stream() {
    let world = World::new();
    let own = &world.end(1).inbound;
    assert_eq!(
        [0, 8, 16, 16, 16, 17].map(|written| own.waits_again(written)),
        [true, false, false, true, true, false]
    );
}

#[test]
fn a_large_ring_is_filled_and_emptied_by_pieces() {
    let world = World::new();
    let (outbound, inbound) = world.ringed();
    assert_eq!(outbound.begin_leg(ring(80, 20)), Ok(true));
    assert!(!inbound.is_still(), "another leg");
    assert_eq!(inbound.source(), Ok(Source::Ring { available: 0 }));
    let full = || world.end(0).outbound.full.load(Ordering::Relaxed);
    let (mut position, mut octets) = (0, vec![7; 200_000]);
    for len in [32_768, 32_768, 32_768, 32_768, 32_768, 32_768, 3_392] {
        assert!(inbound.is_still() && outbound.is_still());
        assert_eq!((outbound.write(&octets[position..]), full()), (Ok(len), 0), "there is room");
        assert!(!inbound.is_still());
        position += len;
        let read = inbound.read(&mut octets);
        assert_eq!((read, inbound.is_drained(), outbound.is_still()), (Ok(len), true, false));
        assert_eq!(outbound.unread(), Ok(0), "the reader tells of each piece");
        assert!(outbound.room(u64::MAX).is_ok(), "the sender takes what it was told");
    }
    assert_eq!((outbound.write(&octets[..1000]), inbound.read(&mut octets[..10])), (Ok(1000), Ok(10)));
    assert_eq!((inbound.is_drained(), outbound.is_deserted()), (false, false));
    outbound.finish().unwrap();
    assert!(!inbound.is_still(), "the end is told");
    Outbound::new(&world.end(1).outbound, &world.link, 5, 1).unwrap().reset();
    assert!(outbound.is_deserted());
}

#[test]
fn a_ring_that_is_full_twice_within_a_millisecond_is_worth_a_larger_one() {
    let world = World::new();
    let own = &world.end(0).outbound;
    let found = [5, 1005, 2004, 0u32.wrapping_sub(10), 900].map(|now| own.is_full_again(now));
    assert_eq!(found, [false, false, true, false, true]);
}

#[test]
fn a_sender_that_went_on_behind_the_tail_last_seen_is_woken_too() {
    let world = World::new();
    let (outbound, inbound) = world.ringed();
    let waiter = WaiterName { member: 0, line: 0 };
    assert_eq!((outbound.write(&[1; 20_000]), inbound.available(1)), (Ok(20_000), Ok(20_000)));
    assert_eq!(outbound.write(&[2; 30_000]), Ok(30_000));
    assert_eq!(outbound.ask_for_room(sleep(waiter), |_| false), Ok(true));
    assert_eq!((inbound.discard(20_000), inbound.sleepers()), (Ok(20_000), None));
    assert_eq!((inbound.discard(30_000), inbound.sleepers()), (Ok(30_000), Some(Sleepers::One(waiter))));
}

#[test]
fn the_stamp_tells_when_octets_came_into_the_empty_ring() {
    let world = World::new();
    assert_eq!(world.inbound().stamp(), None);
    let (outbound, inbound) = world.ringed();
    assert!(!outbound.wants_stamps());
    inbound.want_stamps();
    assert!(outbound.wants_stamps());
    let send = |now| {
        outbound.stamp(|| now);
        outbound.write(b"octets").unwrap();
        inbound.stamp().unwrap()
    };
    assert_eq!((send(10), send(11)), (10, 10), "the first octets wait still");
    assert_eq!((inbound.discard(11), send(12)), (Ok(11), 10));
    assert_eq!((inbound.discard(7), send(13)), (Ok(7), 13));
    assert_eq!((inbound.discard(6), outbound.begin_leg(ring(80, 16))), (Ok(6), Ok(true)));
    assert_eq!((send(14), send(15)), (14, 14), "before the reader is in the next ring");
}

#[test]
fn held_octets_come_with_the_next_that_are_not() {
    let world = World::new();
    let (outbound, inbound) = world.ringed();
    assert_eq!(outbound.gather([&b"he"[..], b"", b"ld "], true), Ok(5));
    assert_eq!((inbound.available(1), world.end(0).outbound.accepted()), (Ok(0), 5));
    assert_eq!(outbound.write(b"octets"), Ok(6));
    let mut octets = [0; 11];
    assert_eq!((inbound.peek(3, &mut octets[..4]), &octets[..4]), (Ok(4), &b"d oc"[..]));
    assert_eq!((inbound.read(&mut octets), &octets), (Ok(11), b"held octets"));
    let half = vec![1; 32_768];
    assert_eq!((outbound.gather([&half[..]], true), inbound.available(1)), (Ok(32_768), Ok(0)));
    assert_eq!(outbound.ask_for_room(sleep(WaiterName { member: 0, line: 0 }), |_| false), Ok(false));
    assert_eq!((outbound.gather([&b"x"[..]], true), inbound.available(1)), (Ok(1), Ok(32_769)));
    assert_eq!(outbound.ask_for_room(sleep(WaiterName { member: 0, line: 0 }), |_| false), Ok(true));
}

#[test]
fn a_message_beside_the_tail_is_read_whole_in_parts_and_behind_others() {
    let world = World::new();
    let (outbound, inbound) = world.ringed();
    for message in [&b"ab"[..], b"cdefghijk"] {
        outbound.write(message).unwrap();
    }
    let mut octets = [0; 20];
    assert_eq!((inbound.peek(2, &mut octets), &octets[..9]), (Ok(9), &b"cdefghijk"[..]));
    assert_eq!((inbound.read(&mut octets[..4]), &octets[..4]), (Ok(4), &b"abcd"[..]));
    assert_eq!((inbound.read(&mut octets), &octets[..7]), (Ok(7), &b"efghijk"[..]));
    outbound.write(b"0123456789").unwrap();
    assert_eq!((inbound.read(&mut octets[..9]), &octets[..9]), (Ok(9), &b"012345678"[..]));
    assert_eq!((inbound.read(&mut octets), octets[0]), (Ok(1), b'9'));
}

#[test]
fn the_mode_says_which_barrier_a_sleeper_needs() {
    let world = World::new();
    let (outbound, inbound) = world.ringed();
    let (first, second) = (WaiterName { member: 1, line: 1 }, WaiterName { member: 1, line: 2 });
    let mode = || world.link.channel(5).unwrap().directions[0].reader.mode.load(Ordering::Relaxed);
    assert_eq!((outbound.sleepers(), mode()), (None, 0));
    for _ in 0..999 {
        inbound.stay_awake();
    }
    assert_eq!(mode(), 0);
    inbound.stay_awake();
    assert_eq!(mode(), MODE_NO_FENCE);
    assert_eq!((inbound.announce(sleep(first), |_| true), mode()), (Barrier::Everywhere, 0));
    assert_eq!(outbound.sleepers(), Some(Sleepers::One(first)));
    assert_eq!(inbound.announce(sleep(second), |_| false), Barrier::Fence);
    assert_eq!(outbound.sleepers(), Some(Sleepers::One(second)));
    assert_eq!(inbound.announce(sleep(first), |_| true), Barrier::Fence);
    assert_eq!(outbound.sleepers(), Some(Sleepers::Everybody));
}

#[test]
fn a_waiter_hears_once_of_each_leg_that_the_reader_comes_to() {
    let world = World::new();
    let (outbound, inbound) = world.ringed();
    assert!(!inbound.is_behind(), "nobody waits");
    let waiter = WaiterName { member: 0, line: 0 };
    world.link.channel(5).unwrap().directions[0].legs.waiter.store(waiter.to_word(), Ordering::Relaxed);
    assert_eq!(outbound.begin_leg(ring(80, 18)), Ok(true));
    assert_eq!((inbound.source(), inbound.is_behind()), (Ok(Source::Ring { available: 0 }), true));
    // As behind a thread that was killed before it told the waiter.
    inbound.republish();
    assert_eq!([(); 2].map(|()| inbound.take_adopted()), [true, false]);
    assert_eq!((inbound.is_behind(), inbound.waiting_sender()), (false, Some(Sleepers::One(waiter))));
}

#[test]
fn a_signal_handler_reads_in_the_middle_of_a_section() {
    let world = World::new();
    let (outbound, inbound) = world.ringed();
    outbound.write(b"onetwo").unwrap();
    let mut octets = [0; 3];
    assert_eq!((inbound.nested().read(&mut octets), &octets), (Ok(3), b"one"));
    assert!(!inbound.is_behind());
    assert_eq!((inbound.nested().read(&mut octets), &octets), (Ok(3), b"two"));
    assert_eq!((inbound.is_behind(), outbound.unread()), (true, Ok(6)));
    inbound.republish();
    assert_eq!((inbound.is_behind(), outbound.unread()), (false, Ok(0)));
}

#[test]
fn a_reader_that_takes_what_was_not_there_and_a_sender_that_goes_back_are_broken() {
    let world = World::new();
    let (outbound, inbound) = world.ringed();
    let shared = &world.link.channel(5).unwrap().directions[0];
    assert_eq!([(); 2].map(|()| outbound.write(&[1; 32_768])), [Ok(32_768); 2]);
    for (head, expected) in [(65_537, Err(Broken)), (10, Ok(10)), (9, Err(Broken)), (u64::MAX, Err(Broken))] {
        shared.consumer.head.store(head, Ordering::Relaxed);
        assert_eq!(outbound.room(65_536), expected, "{head}");
    }
    inbound.discard(100).unwrap();
    for (tail, expected) in [(99, Err(Broken)), (65_637, Err(Broken)), (65_636, Ok(65_536))] {
        shared.producer.tail.store(tail, Ordering::Relaxed);
        assert_eq!(inbound.available(u64::MAX), expected, "{tail}");
    }
    shared.legs.start.store(99, Ordering::Relaxed);
    shared.legs.leg.store(2, Ordering::Relaxed);
    assert_eq!(inbound.available(u64::MAX), Err(Broken), "a leg that begins before what was read");
    shared.legs.start.store(100, Ordering::Relaxed);
    for word in [1, 3, 2 | 1 << 16, u64::MAX] {
        shared.legs.leg.store(word, Ordering::Relaxed);
        assert_eq!(inbound.available(u64::MAX), Err(Broken), "no leg that can follow: {word:x}");
    }
    shared.legs.leg.store(2, Ordering::Relaxed);
    assert_eq!((inbound.available(u64::MAX), inbound.source()), (Ok(0), Ok(Source::Tcp { left: None })));
}
