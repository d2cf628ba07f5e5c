//! The memory that two families share, and what of it is given out.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use weft_sockets::layout::{CHANNELS, LINK_LEN, LINK_MAGIC, RING_UNIT, RINGS_AT};
use weft_sockets::sync::Ordering;
use weft_sockets::{RingPlace, Tuple};

use crate::foreign::Foreign;

/// A link as its daemon knows it.
#[derive(Debug)]
pub(crate) struct Link {
    /// The families of its parties. They are the same if both ends of its connections are in one family. 0 is a family
    /// that has not shown a link of an earlier daemon.
    pub(crate) families: [u64; 2],
    /// The users of both.
    pub(crate) uids: [u32; 2],
    pub(crate) file: Arc<Foreign>,
    pub(crate) memory: weft_sockets::Link,
    pub(crate) channels: BTreeMap<u32, Channel>,
    numbers: Numbers,
    rings: Rings,
    /// An earlier daemon made it, and knew what is given out. So nothing more is.
    is_adopted: bool,
    /// The users whose descriptor it is.
    pub(crate) owners: Vec<u32>,
    /// How many ends were closed.
    pub(crate) closed: u64,
}

/// A channel that is in use.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    /// The ends by party. `None` once an end is closed.
    pub(crate) ends: [Option<End>; 2],
    /// The rings by the party that sends.
    rings: [Vec<RingPlace>; 2],
    /// The addresses, seen from party 0. `None` if an earlier daemon knew them.
    pub(crate) tuple: Option<Tuple>,
}

/// An end of a connection, in the slab of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Link {
    /// Makes a link's memory.
    pub(crate) fn create(name: u64, families: [u64; 2], uids: [u32; 2]) -> Result<Self, Errno> {
        let file = weft_sockets::Link::create()?;
        let it = Self { owners: uids.to_vec(), ..Self::map(Foreign::harmless(file), families, uids)? };
        it.memory.header().link.store(name, Ordering::Relaxed);
        it.memory.header().magic.store(LINK_MAGIC, Ordering::Release);
        Ok(it)
    }

    /// Takes a link that an earlier daemon made, and that this user shows first. Nobody has shown either end.
    pub(crate) fn adopt(file: Foreign, uid: u32) -> Result<Self, Errno> {
        Ok(Self { is_adopted: true, owners: vec![uid], ..Self::map(file, [0; 2], [0; 2])? })
    }

    fn map(file: Foreign, families: [u64; 2], uids: [u32; 2]) -> Result<Self, Errno> {
        let memory = weft_sockets::Link::map_channels(&file)?;
        Ok(Self {
            families,
            uids,
            file: Arc::new(file.found_harmless()),
            memory,
            channels: BTreeMap::new(),
            numbers: Numbers::default(),
            rings: Rings::default(),
            is_adopted: false,
            owners: Vec::new(),
            closed: 0,
        })
    }

    /// Notes which ends a party has in a link that an earlier daemon made.
    pub(crate) fn show(
        &mut self,
        party: usize,
        family: u64,
        uid: u32,
        ends: impl Iterator<Item = (u32, End)>,
    ) {
        let (Some(known), Some(of)) = (self.families.get_mut(party), self.uids.get_mut(party)) else {
            return;
        };
        (*known, *of) = (family, uid);
        for (number, end) in ends.filter(|(number, _)| *number < CHANNELS) {
            let channel = self.channels.entry(number).or_default();
            if let Some(place) = channel.ends.get_mut(party) {
                *place = Some(end);
            }
        }
    }

    /// True if an earlier daemon made it.
    pub(crate) const fn is_adopted(&self) -> bool {
        self.is_adopted
    }

    /// Gives out a channel with zeroed words and a ring for each direction. Returns `None` if the link is full.
    pub(crate) fn open(&mut self, ends: [End; 2], tuple: Tuple, log2: u8) -> Option<(u32, [RingPlace; 2])> {
        if self.is_adopted {
            return None;
        }
        let first = self.rings.take(log2)?;
        let places = self.rings.take(log2).and_then(|second| Some(([first, second], self.numbers.take()?)));
        let Some((rings, number)) = places else {
            self.rings.give(first);
            return None;
        };
        self.memory.clear(number);
        let channel =
            Channel { ends: ends.map(Some), rings: rings.map(|ring| vec![ring]), tuple: Some(tuple) };
        self.channels.insert(number, channel);
        Some((number, rings))
    }

    /// Notes that a party uses a channel no more. Returns its end, if it had one, and the octets of rings, by party,
    /// that are free now because the other end is closed, too.
    pub(crate) fn close(&mut self, number: u32, party: usize) -> Option<(End, [u64; 2])> {
        let channel = self.channels.get_mut(&number)?;
        let end = channel.ends.get_mut(party)?.take()?;
        self.closed += 1;
        if channel.ends.iter().any(Option::is_some) {
            return Some((end, [0; 2]));
        }
        let channel = self.channels.remove(&number)?;
        self.numbers.give(number);
        let freed = channel.rings.each_ref().map(|rings| rings.iter().map(|ring| ring.len()).sum());
        for ring in channel.rings.into_iter().flatten() {
            self.free(ring);
        }
        Some((end, freed))
    }

    /// Gives out a further ring for what a party sends on a channel.
    pub(crate) fn grow(&mut self, number: u32, party: usize, log2: u8) -> Option<RingPlace> {
        let channel = self.channels.get_mut(&number)?;
        let rings = channel.rings.get_mut(party)?;
        if self.is_adopted || rings.len() >= RINGS_OF_A_DIRECTION {
            return None;
        }
        let ring = self.rings.take(log2)?;
        rings.push(ring);
        Some(ring)
    }

    /// Takes a ring back. Returns false if the party does not have it on this channel.
    pub(crate) fn shrink(&mut self, number: u32, party: usize, ring: RingPlace) -> bool {
        let rings = self.channels.get_mut(&number).and_then(|channel| channel.rings.get_mut(party));
        let Some(rings) = rings else { return false };
        let Some(at) = rings.iter().position(|own| *own == ring) else { return false };
        rings.swap_remove(at);
        self.free(ring);
        true
    }

    /// Returns the party's end of a channel, if it is in use.
    pub(crate) fn end(&self, number: u32, party: usize) -> Option<End> {
        *self.channels.get(&number)?.ends.get(party)?
    }

    /// Returns a ring for what a party sends on a channel: the first one until it was given back.
    pub(crate) fn ring(&self, number: u32, party: usize) -> Option<RingPlace> {
        self.channels.get(&number)?.rings.get(party)?.first().copied()
    }

    fn free(&mut self, ring: RingPlace) {
        self.rings.give(ring);
        // Without it the memory stays until the ring is used again.
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _kept = fallocate(self.file.as_fd(), hole, ring.offset(), ring.len());
    }
}

/// The numbers of a link's channels. A number that is free again rests while others are used.
#[derive(Debug, Default)]
struct Numbers {
    behind: u32,
    resting: VecDeque<u32>,
}

impl Numbers {
    fn take(&mut self) -> Option<u32> {
        if self.resting.len() > REST {
            return self.resting.pop_front();
        }
        let fresh = self.behind;
        if fresh >= CHANNELS {
            return None;
        }
        self.behind += 1;
        Some(fresh)
    }

    fn give(&mut self, number: u32) {
        self.resting.push_back(number);
    }
}

/// The free places for rings, a bit for each unit. A ring lies at a multiple of its size, so within one word.
#[derive(Debug)]
struct Rings(Vec<u64>);

impl Default for Rings {
    fn default() -> Self {
        let words = (LINK_LEN / RING_UNIT / 64) as usize;
        let used = (RINGS_AT / RING_UNIT) as usize;
        // The first word stands for what is before the rings.
        Self((0..words).map(|word| if word * 64 < used { 0 } else { u64::MAX }).collect())
    }
}

impl Rings {
    fn take(&mut self, log2: u8) -> Option<RingPlace> {
        let units = RingPlace::new(FIRST_UNIT, log2)?.len() / RING_UNIT;
        let mask = u64::MAX >> (64 - units);
        self.0.iter_mut().zip(0_u32..).find_map(|(word, at)| {
            let mut shifts = (0..64).step_by(usize::try_from(units).ok()?);
            let shift = shifts.find(|shift| *word & mask << shift == mask << shift)?;
            *word &= !(mask << shift);
            RingPlace::new(at * 64 + shift, log2)
        })
    }

    fn give(&mut self, ring: RingPlace) {
        let mask = u64::MAX >> (64 - ring.len() / RING_UNIT);
        if let Some(word) = self.0.get_mut(ring.unit as usize / 64) {
            *word |= mask << (ring.unit % 64);
        }
    }
}

/// So many other numbers are used before a channel's number is used again.
const REST: usize = 64;
/// A direction grows three times, while older rings may still be read.
const RINGS_OF_A_DIRECTION: usize = 4;
#[expect(clippy::cast_possible_truncation, reason = "64 units")]
const FIRST_UNIT: u32 = (RINGS_AT / RING_UNIT) as u32;
const _: () = assert!(RINGS_AT / RING_UNIT == 64);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use weft_sockets::{MAX_LOG2, MIN_LOG2};

    use super::*;

    fn link() -> Link {
        Link::create(1, [1, 2], [0, 0]).expect("a link")
    }

    fn open(link: &mut Link) -> Option<(u32, [RingPlace; 2])> {
        let address = "127.0.0.1:1".parse().expect("an address");
        let end = End { slot: 0, generation: 0 };
        link.open([end; 2], Tuple::new(1, address, address), MIN_LOG2)
    }

    #[test]
    fn a_number_rests_while_64_others_are_used() {
        let mut link = link();
        let mut last = HashSet::new();
        let mut order = Vec::new();
        for _ in 0..1000 {
            let (number, _) = open(&mut link).expect("a channel");
            assert!(link.close(number, 0).is_some_and(|(_, freed)| freed == [0; 2]));
            assert!(link.close(number, 0).is_none(), "it is closed");
            assert!(link.close(number, 1).is_some_and(|(_, freed)| freed == [1 << 16; 2]));
            order.push(number);
            last.insert(number);
        }
        assert_eq!(last.len(), REST + 1);
        assert!(order.windows(REST).all(|uses| uses.iter().collect::<HashSet<_>>().len() == REST));
    }

    #[test]
    fn a_full_link_gives_no_channel_and_a_used_one_comes_with_zeroed_words() {
        let mut link = link();
        let numbers: Vec<_> = core::iter::from_fn(|| open(&mut link).map(|(number, _)| number)).collect();
        assert_eq!(numbers.len(), CHANNELS as usize);
        for number in &numbers[..=REST] {
            let words = link.memory.channel(*number).expect("a channel");
            words.directions[1].producer.tail.store(7, Ordering::Relaxed);
            link.close(*number, 0);
            link.close(*number, 1);
        }
        let (number, _) = open(&mut link).expect("a channel");
        assert_eq!(number, 0);
        let words = link.memory.channel(number).expect("a channel");
        assert_eq!(words.directions[1].producer.tail.load(Ordering::Relaxed), 0);
        assert!(open(&mut link).is_none());
    }

    #[test]
    fn a_party_gives_back_its_own_rings_only() {
        let mut link = link();
        let (number, [first, second]) = open(&mut link).expect("a channel");
        let larger = link.grow(number, 0, 20).expect("a ring");
        assert_eq!(link.grow(number, 0, 23), None);
        assert!(!link.shrink(number, 0, second) && !link.shrink(number + 1, 0, first));
        assert!(link.shrink(number, 0, first) && !link.shrink(number, 0, first));
        assert!((0..2).all(|_| link.grow(number, 0, 16).is_some()));
        link.grow(number, 0, 16).expect("a fourth ring");
        assert_eq!(link.grow(number, 0, 16), None, "a direction has at most four");
        link.close(number, 0);
        let freed = link.close(number, 1).map(|(_, freed)| freed);
        assert_eq!(freed, Some([larger.len() + 3 * first.len(), second.len()]));
    }

    proptest! {
        #[test]
        fn rings_never_overlap(steps in proptest::collection::vec((any::<bool>(), MIN_LOG2..=MAX_LOG2, any::<u16>()), 0..400)) {
            let mut rings = Rings::default();
            let mut taken: Vec<RingPlace> = Vec::new();
            for (is_take, log2, at) in steps {
                if is_take {
                    if let Some(ring) = rings.take(log2) {
                        prop_assert!(ring.offset() >= RINGS_AT && ring.offset() + ring.len() <= LINK_LEN);
                        let is_beside = |other: &RingPlace| {
                            ring.offset() + ring.len() <= other.offset() || other.offset() + other.len() <= ring.offset()
                        };
                        prop_assert!(taken.iter().all(is_beside));
                        taken.push(ring);
                    }
                } else if !taken.is_empty() {
                    let at = usize::from(at) % taken.len();
                    rings.give(taken.swap_remove(at));
                }
            }
            taken.into_iter().for_each(|ring| rings.give(ring));
            prop_assert_eq!(rings.0, Rings::default().0);
        }
    }
}
