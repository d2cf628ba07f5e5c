//! The hostile party of a link: it writes any word at any moment.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use weft_sockets_stepped::layout::{Channel, Direction, End};
use weft_sockets_stepped::sync::Ordering::Relaxed;
use weft_sockets_stepped::sync::stepped;
use weft_sockets_stepped::{Carrier, Leg, Link, RingPlace, Slab};

/// An end, and the link that it shares with the hostile party.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) link: Link,
    slab: Slab,
}

/// A store of the hostile party.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attack {
    /// How many atomic operations of the own end come before it.
    pub(super) delay: u8,
    /// The word.
    pub(super) at: u8,
    pub(super) value: Value,
}

/// What the hostile party stores.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// What a party that keeps the rules may store, or almost so: two octets choose.
    Near(u8, u8),
    /// As much more than what stands there.
    More(i8),
    Any(u64),
}

/// Rings that the hostile party may name. The own end sends by others.
const RINGS: [(u32, u8); 4] = [(65, 7), (67, 9), (69, 8), (16_383, 7)];
/// The channel of the connection.
pub(super) const CHANNEL: u32 = 5;

impl Target {
    pub(super) fn new() -> Rc<Self> {
        let link = Link::map(Link::create().expect("memory")).expect("a link");
        Rc::new(Self { link, slab: Slab::map(Slab::create().expect("memory")).expect("a slab") })
    }

    pub(super) fn end(&self) -> &End {
        self.slab.end(0).expect("an end")
    }
}

impl Attack {
    /// Reads an attack from five octets.
    pub(super) fn new([delay, at, kind, first, second]: [u8; 5]) -> Self {
        let value = match kind % 6 {
            0..4 => Value::Near(first, second),
            4 => Value::More(first.cast_signed()),
            _ => Value::Any(u64::from(first).rotate_right(u32::from(second % 64))),
        };
        Self { delay, at, value }
    }

    /// Stores. Each word takes as many low bits as it has.
    fn strike(self, link: &Link, end: &End) {
        let Some(Channel { directions }) = link.channel(CHANNEL) else { return };
        // The own end sends in the first direction and receives in the second.
        let (place, direction) = (self.at % 16, &directions[usize::from(self.at >> 4 & 1)]);
        let Direction { producer, legs, consumer, reader } = direction;
        let words = [&producer.tail, &producer.beside_start, &legs.start, &legs.leg, &legs.end];
        let more = [&consumer.head, &consumer.adopted];
        let small = [&reader.attached, &reader.please, &legs.waiter, &reader.waiter, &reader.mode];
        match usize::from(place) {
            at @ 0..5 => words[at].store(self.value.behind(words[at].load(Relaxed), place, end), Relaxed),
            at @ 5..7 => {
                more[at - 5].store(self.value.behind(more[at - 5].load(Relaxed), place, end), Relaxed)
            }
            at @ 7..12 => {
                let word = small[at - 7];
                let [a, b, c, d, ..] = self.value.behind(word.load(Relaxed).into(), place, end).to_le_bytes();
                word.store(u32::from_le_bytes([a, b, c, d]), Relaxed);
            }
            12 => {
                let [a, b, ..] =
                    self.value.behind(producer.flags.load(Relaxed).into(), place, end).to_le_bytes();
                producer.flags.store(u16::from_le_bytes([a, b]), Relaxed);
            }
            _ => {
                let octets = u64::from_ne_bytes([self.delay | BESIDE; 8]);
                producer.beside.iter().for_each(|word| word.store(octets, Relaxed));
            }
        }
    }
}

impl Value {
    /// The value for a word at a place, whose value was `old`.
    fn behind(self, old: u64, place: u8, end: &End) -> u64 {
        let (consumed, number) = (end.inbound.consumed.load(Relaxed), end.inbound.leg().number);
        match (self, place) {
            (Self::More(more), _) => old.wrapping_add_signed(more.into()),
            (Self::Any(value), _) => value,
            // The tail, and what is beside it.
            (Self::Near(more, _), 0) => consumed + u64::from(more % 160),
            (Self::Near(..), 1) => consumed,
            // A leg and its start.
            (Self::Near(more, _), 2) => consumed + u64::from(more % 4),
            (Self::Near(more, ring), 3) => {
                let place = RINGS.get(usize::from(ring % 6) % 5);
                let place = place.and_then(|(unit, log2)| RingPlace::new(*unit, *log2));
                let number = number.wrapping_add(1 + u16::from(more % 8 / 7));
                Leg { number, carrier: place.map_or(Carrier::Tcp, Carrier::Ring) }.to_word()
            }
            // The head, and the leg of the reader.
            (Self::Near(less, _), 5) => end.outbound.accepted().saturating_sub(u64::from(less % 160)),
            (Self::Near(..), 6) => end.outbound.leg().number.into(),
            (Self::Near(value, _), 7) => u64::from(value % 4),
            (Self::Near(value, _), _) => u64::from(value),
        }
    }
}

/// Runs a call of the own end, and the attacks meanwhile. Those that the call does not live to see follow it.
pub(super) fn run(target: &Rc<Target>, attacks: &mut VecDeque<Attack>, call: impl FnOnce()) {
    UNDER_WAY.set(Some((Rc::clone(target), core::mem::take(attacks))));
    go_on();
    call();
    stepped::run_for(u32::MAX, strike);
    if let Some((target, attacks)) = UNDER_WAY.take() {
        attacks.into_iter().for_each(|attack| attack.strike(&target.link, target.end()));
    }
}

/// Strikes in the middle of the own end's call.
fn strike() {
    stepped::run_for(u32::MAX, strike);
    UNDER_WAY.with_borrow_mut(|under_way| {
        let Some((target, attacks)) = under_way else { return };
        if let Some(attack) = attacks.pop_front() {
            attack.strike(&target.link, target.end());
        }
    });
    go_on();
}

fn go_on() {
    let next = UNDER_WAY.with_borrow(|under_way| Some(u32::from(under_way.as_ref()?.1.front()?.delay)));
    stepped::run_for(next.unwrap_or(u32::MAX), strike);
}

/// Octets beside the tail have this bit, and those of rings have not.
pub(super) const BESIDE: u8 = 0x80;

thread_local! {
    static UNDER_WAY: RefCell<Option<(Rc<Target>, VecDeque<Attack>)>> = const { RefCell::new(None) };
}
