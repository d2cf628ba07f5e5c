//! A connection between two hosts as a daemon carries it, with another daemon and a process that tell it anything.

use weft_sockets_stepped::far::{Duty, Notice, NoticeKind};
use weft_sockets_stepped::layout::Direction;
use weft_sockets_stepped::sync::Ordering;
use weft_sockets_stepped::{Broken, Carrier, Leg, Link, MIN_LOG2, RingPlace};

use crate::relay::{Moment, Relay, Turn, Words};

/// Reads `data` as steps of ten octets: what another daemon says of a connection, stores of a process into the link, and
/// looks of this daemon. Octets are written only from ring to ring, at equal offsets, and no tail is published behind the
/// room of the ring.
///
/// # Panics
/// If a rule is broken that the daemon has to keep.
pub fn sockets_far(data: &[u8]) {
    let link = Link::map_channels(Link::create().expect("memory")).expect("a link");
    let directions = &link.channel(0).expect("a channel").directions;
    let words = Words { ours: &directions[0], theirs: &directions[1] };
    let mut far = Far { relay: Relay::new(ROUTES[0], THEIRS[0]), told: 0, leg: Leg::default(), start: 0 };
    far.relay.outgoing.add_ring(ROUTES[1].0, ROUTES[1].1);
    far.relay.incoming.add_ring(THEIRS[1]);
    for step in data.chunks_exact(10) {
        let &[kind, place, ref value @ ..] = step else { return };
        let value = u64::from_le_bytes(value.try_into().unwrap_or_default());
        if far.step(words, kind, place, value) == Err(Broken) && !far.relay.is_broken() {
            far.relay.break_off(words);
        }
    }
}

/// The rings of this host's sender, each with its place at the other host, and those of the other one's sender.
const ROUTES: [(RingPlace, RingPlace); 2] = [
    (RingPlace { unit: 64, log2: MIN_LOG2 }, RingPlace { unit: 90, log2: MIN_LOG2 }),
    (RingPlace { unit: 66, log2: MIN_LOG2 + 1 }, RingPlace { unit: 100, log2: MIN_LOG2 + 1 }),
];
const THEIRS: [RingPlace; 2] =
    [RingPlace { unit: 70, log2: MIN_LOG2 }, RingPlace { unit: 72, log2: MIN_LOG2 + 2 }];
/// Octets of a Write at most.
const MOST: u32 = 50;

/// A daemon's view of a connection, and what its model knows of it.
struct Far {
    relay: Relay,
    /// The head that the other daemon was told, and the leg that it has told.
    told: u64,
    leg: Leg,
    start: u64,
}

impl Far {
    fn step(&mut self, words: Words<'_>, kind: u8, place: u8, value: u64) -> Result<(), Broken> {
        match kind % 8 {
            0 | 1 => store(words, place, value),
            2 => {
                let Some(notice) = Notice::decode(value.to_le_bytes()) else { return Ok(()) };
                self.relay.handle(words, notice.kind, notice.value)?;
                if notice.kind == NoticeKind::Data && !has_left(words) {
                    self.check_tail(words);
                }
            }
            3 => {
                let ring = match place >> 4 & 3 {
                    at @ (0 | 1) => THEIRS.get(usize::from(at)).copied(),
                    _ => RingPlace::new(64 + u32::from(place & 15), MIN_LOG2),
                };
                let ring = ring.ok_or(Broken)?;
                let number = self.leg.number.wrapping_add(u16::from(place & 3));
                self.relay.incoming.handle_leg(words.theirs, number, ring, value)?;
                if has_left(words) {
                    return Ok(());
                }
                assert!(THEIRS.contains(&ring), "a ring that nobody has named");
                if self.leg.carrier == Carrier::Tcp {
                    self.told = value;
                }
                (self.leg.number, self.start) = (number, value);
                self.leg.carrier = Carrier::Ring(ring);
            }
            4 => _ = self.relay.incoming.handle_final(words.theirs, value)?,
            5 => self.relay.complete(),
            _ => {
                let moment = Moment { most: MOST, is_closed: place & 1 != 0, is_idle: place & 2 != 0 };
                match self.relay.next(words, moment)? {
                    Turn::Send(Duty::Write { from, to, len, .. }) => check_write(from, to, len.into()),
                    Turn::Send(Duty::Leg { ring, .. }) => {
                        assert!(ROUTES.iter().any(|(_, there)| *there == ring), "a ring of nobody");
                    }
                    Turn::Send(Duty::Notice { kind: NoticeKind::Credit, value }) => {
                        let [a, b, c, d, ..] = self.told.to_le_bytes();
                        self.told += u64::from(value.wrapping_sub(u32::from_le_bytes([a, b, c, d])));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The other daemon has told of octets: they fit into the ring behind the head that it was told.
    fn check_tail(&self, words: Words<'_>) {
        let Carrier::Ring(ring) = self.leg.carrier else { panic!("octets of no ring") };
        let tail = words.theirs.producer.tail.load(Ordering::Relaxed);
        assert!(
            tail >= self.start && tail <= self.told.max(self.start) + ring.len(),
            "a tail behind the ring"
        );
    }
}

/// True if the reader hears nothing of the link any more.
fn has_left(words: Words<'_>) -> bool {
    words.theirs.reader.left.load(Ordering::Relaxed) != 0
}

/// A Write goes from a ring to its counterpart, to the same place in it.
fn check_write(from: u64, to: u64, len: u64) {
    let lies_in = |ring: RingPlace, at: u64| at >= ring.offset() && at + len <= ring.offset() + ring.len();
    let is_sound = ROUTES.iter().any(|(here, there)| {
        lies_in(*here, from) && lies_in(*there, to) && from - here.offset() == to - there.offset()
    });
    assert!(is_sound && (1..=u64::from(MOST)).contains(&len), "{len} octets from {from} to {to}");
}

/// A process stores something into one of the words of both directions.
#[expect(clippy::cast_possible_truncation, reason = "any value will do")]
fn store(words: Words<'_>, place: u8, value: u64) {
    let Direction { producer, legs, reader, consumer, .. } =
        if place & 0x80 == 0 { words.ours } else { words.theirs };
    let ring = |at: u64| ROUTES.get(at as usize % 2).map_or(Carrier::Tcp, |(here, _)| Carrier::Ring(*here));
    if place & 31 == 31 {
        return reader.left.store(value as u32 & 1, Ordering::Relaxed);
    }
    match place & 15 {
        0 => producer.tail.store(value, Ordering::Relaxed),
        1 => _ = producer.tail.fetch_add(value % 70_000, Ordering::Relaxed),
        2 => producer.flags.store(value as u16, Ordering::Relaxed),
        3 => legs.leg.store(value, Ordering::Relaxed),
        4 => {
            let leg = Leg { number: (value >> 8) as u16 % 4, carrier: ring(value) };
            legs.leg.store(leg.to_word(), Ordering::Relaxed);
        }
        5 => legs.leg.store(Leg { number: value as u16 % 4, ..Leg::default() }.to_word(), Ordering::Relaxed),
        6 => legs.start.store(value, Ordering::Relaxed),
        7 => legs.start.store(producer.tail.load(Ordering::Relaxed), Ordering::Relaxed),
        8 => legs.end.store(value, Ordering::Relaxed),
        9 => reader.attached.store(value as u32, Ordering::Relaxed),
        10 => reader.please.store(value as u32 % 3, Ordering::Relaxed),
        11 => consumer.head.store(value, Ordering::Relaxed),
        12 => _ = consumer.head.fetch_add(value % 70_000, Ordering::Relaxed),
        13 => consumer.adopted.store(value % 4, Ordering::Relaxed),
        14 => legs.waiter.store(value as u32, Ordering::Relaxed),
        _ => reader.waiter.store(value as u32, Ordering::Relaxed),
    }
}
