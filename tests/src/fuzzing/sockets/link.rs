//! An end whose other party writes anything into their link, between its calls and in the middle of them.

use std::collections::VecDeque;
use std::rc::Rc;

use weft_sockets_stepped::layout::{Channel, End, LINK_LEN};
use weft_sockets_stepped::sync::Ordering::Relaxed;
use weft_sockets_stepped::{
    Broken, Carrier, Inbound, Leg, Outbound, RingPlace, Sink, Sleep, Source, WaiterName,
};

use super::hostile::{Attack, BESIDE, CHANNEL, Target, run};

/// Reads `data` as steps of eight octets: a call of the own end, its size, and a store of the other party into the link,
/// between two calls or in the middle of one.
///
/// # Panics
/// If a call writes to memory of others or returns octets that are not the other party's, or if the own end's counts go
/// backwards or out of their ring.
pub fn sockets_link(data: &[u8]) {
    let Some((&[head], steps)) = data.split_first_chunk() else { return };
    let victim = Victim::new();
    if head % 4 != 0 {
        victim.leave_tcp();
    }
    let mut attacks = VecDeque::new();
    for step in steps.chunks_exact(8) {
        let &[call, len, rest, delay, at, kind, first, second] = step else { return };
        attacks.push_back(Attack::new([delay, at, kind, first, second]));
        // Several attacks in a row meet one call.
        if call < GATHERED {
            let before = victim.truths();
            run(&victim.0, &mut attacks, || victim.call(call % CALLS, usize::from(len), rest));
            victim.check(before);
        }
    }
    victim.check_others();
}

/// Calls, by their numbers.
const CALLS: u8 = 30;
/// A call of this number and above only prepares an attack on the next.
const GATHERED: u8 = 240;
/// What stands in the program's buffer before a call.
const FILLER: u8 = 0x7f;
/// The rings by which the own end sends.
const OWN: [(u32, u8); 2] = [(64, 7), (66, 9)];
/// Units of the link with a known pattern, and how many octets of each.
const UNITS: [u32; 7] = [64, 65, 66, 67, 68, 69, 16_383];
const PATTERN: usize = 2048;

/// The own end: party 0.
struct Victim(Rc<Target>);

/// What only the own family can write.
#[derive(Clone, Copy, Debug)]
struct Truths {
    written: u64,
    consumed: u64,
    legs: [Leg; 2],
}

impl Victim {
    fn new() -> Self {
        let target = Target::new();
        let link = &target.link;
        for unit in UNITS {
            let octets: Vec<u8> = (0..PATTERN as u64).map(|at| pattern(u64::from(unit) << 16 | at)).collect();
            assert!(link.ring(large(unit)).write(0, &octets));
        }
        let beside = &link.channel(CHANNEL).expect("a channel").directions[1].producer.beside;
        beside.iter().for_each(|word| word.store(u64::from_ne_bytes([BESIDE; 8]), Relaxed));
        Self(target)
    }

    /// Both directions go by rings, as with a peer that keeps the rules.
    fn leave_tcp(&self) {
        let [first, second] = &self.0.link.channel(CHANNEL).expect("a channel").directions;
        first.reader.attached.store(1, Relaxed);
        assert!(self.outbound().commit() && self.outbound().begin_leg(own_ring(0)) == Ok(true));
        first.consumer.adopted.store(1, Relaxed);
        self.inbound().attach();
        let place = RingPlace::new(65, 7).expect("a place");
        second.legs.leg.store(Leg { number: 1, carrier: Carrier::Ring(place) }.to_word(), Relaxed);
        assert_eq!(self.inbound().source(), Ok(Source::Ring { available: 0 }));
    }

    fn end(&self) -> &End {
        self.0.end()
    }

    fn outbound(&self) -> Outbound<'_> {
        Outbound::new(&self.end().outbound, &self.0.link, CHANNEL, 0).expect("a channel")
    }

    fn inbound(&self) -> Inbound<'_> {
        Inbound::new(&self.end().inbound, &self.0.link, CHANNEL, 0).expect("a channel")
    }

    fn call(&self, call: u8, len: usize, rest: u8) {
        let (outbound, inbound, rest) = (self.outbound(), self.inbound(), usize::from(rest));
        // The answers may be anything.
        match call {
            0..3 => _ = outbound.write(&[FILLER; 255][..len]),
            3 => _ = outbound.gather([&[FILLER; 255][..len], &[FILLER; 255][..rest]], rest % 2 == 0),
            4 => self.splice(len, rest),
            5 => _ = (outbound.sleepers(), outbound.is_deserted(), outbound.is_still()),
            6 => _ = outbound.ask_for_room(sleep(rest), |_| rest % 2 == 0),
            7 => _ = outbound.begin_leg(if rest % 3 == 0 { Carrier::Tcp } else { own_ring(rest) }),
            8 => outbound.republish(),
            9 => _ = outbound.finish(),
            10 => outbound.stamp(|| 7),
            11 => _ = (outbound.unread(), outbound.is_writable(), outbound.room(len as u64)),
            12 => _ = outbound.obey(),
            13 => _ = outbound.commit(),
            14 => self.resend(len),
            15 if outbound.sink() == Sink::Tcp => self.end().outbound.count(len as u64),
            16..19 => self.receive(len, |inbound, octets| inbound.read(octets)),
            19 => self.receive(len, |inbound, octets| inbound.nested().read(octets)),
            20 => self.peek(rest as u64, len),
            21 => _ = inbound.discard(len),
            22 => self.drain(len),
            23 => self.receive_by_tcp(len as u64),
            24 => _ = (inbound.sleepers(), inbound.behind(), inbound.is_at_end(), inbound.is_reset()),
            25 => _ = inbound.announce(sleep(rest), |_| rest % 2 == 0),
            26 => inbound.republish(),
            27 => _ = inbound.withdraw(),
            28 => inbound.ask_back(),
            29 => self.come_back(),
            _ => {}
        }
    }

    /// A system call reads into the ring.
    fn splice(&self, len: usize, less: usize) {
        let Ok(pieces) = self.outbound().free(len) else { return };
        self.check_pieces(pieces, self.end().outbound.leg().carrier, len);
        let len: usize = pieces.iter().map(|(_, len)| len).sum();
        let _published = self.outbound().publish(len.saturating_sub(less), less.is_multiple_of(2));
    }

    /// A system call writes from the ring.
    fn drain(&self, wanted: usize) {
        let inbound = self.inbound();
        let Ok(pieces) = inbound.filled(wanted) else { return };
        self.check_pieces(pieces, self.end().inbound.leg().carrier, wanted);
        let len = pieces.iter().map(|(_, len)| len).sum();
        let _taken = inbound.discard(len);
    }

    /// The kernel's socket takes a part of what the reader has left in rings.
    fn resend(&self, len: usize) {
        let Some(pieces) = self.outbound().backlog() else { return };
        let len = pieces.iter().map(|(_, len)| len).sum::<usize>().min(len);
        let is_own = |address: *mut u8| OWN.iter().any(|place| self.offset(address, own(*place)).is_some());
        assert!(
            pieces.iter().all(|(address, len)| *len == 0 || is_own(*address)),
            "octets of others are sent"
        );
        self.outbound().resent(len);
    }

    fn receive(&self, len: usize, read: impl FnOnce(&Inbound<'_>, &mut [u8]) -> Result<usize, Broken>) {
        let mut octets = [FILLER; 255];
        let from = self.truths().consumed;
        if let Ok(len) = read(&self.inbound(), &mut octets[..len]) {
            self.check_octets(from, &octets[..len]);
        }
    }

    fn peek(&self, offset: u64, len: usize) {
        let mut octets = [FILLER; 255];
        if let Ok(len) = self.inbound().peek(offset, &mut octets[..len]) {
            self.check_octets(self.truths().consumed + offset, &octets[..len]);
        }
    }

    fn receive_by_tcp(&self, len: u64) {
        if let Ok(Source::Tcp { left }) = self.inbound().source() {
            assert_ne!(left, Some(0), "a reader that waits for nothing");
            self.end().inbound.count(len.min(left.unwrap_or(u64::MAX)));
        }
    }

    fn come_back(&self) {
        if self.inbound().is_answered() {
            let _goes_on = self.inbound().come_back();
        }
    }

    /// Octets from a position on are those of the ring, or stood beside the tail.
    fn check_octets(&self, from: u64, octets: &[u8]) {
        let Carrier::Ring(place) = self.end().inbound.leg().carrier else {
            return assert!(octets.is_empty(), "octets of no ring");
        };
        for (position, octet) in (from..).zip(octets) {
            let expected = pattern(place.offset() + position % place.len());
            assert!(
                *octet == expected || *octet >= BESIDE,
                "octet {octet:x} at {position} is not the peer's"
            );
        }
    }

    /// Memory for a system call lies in the ring.
    fn check_pieces(&self, pieces: [(*mut u8, usize); 2], carrier: Carrier, wanted: usize) {
        assert!(pieces.iter().map(|(_, len)| len).sum::<usize>() <= wanted, "more than was wanted");
        for (address, len) in pieces.into_iter().filter(|(_, len)| *len > 0) {
            let Carrier::Ring(place) = carrier else { panic!("memory of no ring") };
            let at = self.offset(address, place).expect("memory outside of the ring");
            assert!(at + len as u64 <= place.len(), "memory behind the ring");
        }
    }

    /// Where an address lies in a ring.
    fn offset(&self, address: *mut u8, place: RingPlace) -> Option<u64> {
        let start = self.0.link.ring(place).address(0, 0)?;
        let at = address.addr().checked_sub(start.addr())? as u64;
        (at < place.len()).then_some(at)
    }

    fn truths(&self) -> Truths {
        let End { outbound, inbound, .. } = self.end();
        Truths {
            written: outbound.accepted(),
            consumed: inbound.consumed.load(Relaxed),
            legs: [outbound.leg(), inbound.leg()],
        }
    }

    /// The own counts have gone on only, and fit into the rings.
    fn check(&self, before: Truths) {
        let (now, End { outbound, inbound, .. }) = (self.truths(), self.end());
        assert!(
            now.written >= before.written && now.consumed >= before.consumed,
            "{now:?} behind {before:?}"
        );
        for (now, before) in now.legs.into_iter().zip(before.legs) {
            assert_eq!(Leg::from_word(now.to_word()), Some(now), "a leg outside of the link");
            assert!(now.number.wrapping_sub(before.number) <= 16, "{now:?} behind {before:?}");
        }
        if let Carrier::Ring(place) = outbound.leg().carrier {
            let unread =
                now.written.checked_sub(outbound.head.load(Relaxed)).expect("a head that was written");
            assert!(unread <= place.len(), "{unread} octets in a ring of {}", place.len());
        }
        if let Carrier::Ring(place) = inbound.leg().carrier {
            let available = inbound.tail.load(Relaxed).saturating_sub(now.consumed);
            assert!(available <= place.len(), "{available} octets in a ring of {}", place.len());
        }
    }

    /// Nothing was written beside the own rings and the own channel.
    fn check_others(&self) {
        for unit in UNITS {
            let mut octets = vec![0; PATTERN];
            assert!(self.0.link.ring(large(unit)).read(0, &mut octets));
            let own = OWN.iter().find(|(own, _)| *own == unit).map_or(0, |(_, log2)| 1 << log2);
            let is_same = |at: usize| octets[at] == pattern(u64::from(unit) << 16 | at as u64);
            assert!((own..PATTERN).all(is_same), "somebody else's ring in unit {unit} was written to");
        }
        for channel in [CHANNEL - 1, CHANNEL + 1] {
            let words = self.0.link.channel(channel).expect("a channel");
            assert_eq!(format!("{words:?}"), format!("{:?}", Channel::default()), "channel {channel}");
        }
    }
}

/// The octet at an offset of the link.
fn pattern(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).to_le_bytes()[0] % FILLER
}

fn own((unit, log2): (u32, u8)) -> RingPlace {
    RingPlace::new(unit, log2).expect("a place")
}

fn own_ring(number: usize) -> Carrier {
    Carrier::Ring(own(OWN[number % OWN.len()]))
}

/// The start of a unit.
fn large(unit: u32) -> RingPlace {
    let place = RingPlace::new(unit, 11).expect("a place");
    assert!(place.offset() + place.len() <= LINK_LEN);
    place
}

fn sleep(number: usize) -> Sleep {
    let line = u8::try_from(number % 64).expect("a line");
    Sleep { waiter: WaiterName { member: 3, line }, number: 1 }
}
