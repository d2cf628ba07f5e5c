//! The legs of a direction: from which position on the octets go by TCP or by which ring.

use crate::layout::{LINK_LEN, RING_UNIT, RINGS_AT};

/// A stretch of one direction. It begins at a position that stands beside it, and ends where the next leg begins.
///
/// A direction begins in leg 0, which is TCP, so that zeroed words are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leg {
    /// Counts the legs of the direction. The sender publishes the next leg only when the reader is in the latest.
    pub number: u16,
    /// What carries the octets.
    pub carrier: Carrier,
}

/// What carries the octets of a leg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// The kernel's socket.
    #[default]
    Tcp,
    /// A ring of the link.
    Ring(RingPlace),
}

/// Where a ring lies in its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlace {
    /// The offset, in units of 64 KiB.
    pub unit: u32,
    /// The logarithm of the number of octets.
    pub log2: u8,
}

impl RingPlace {
    /// Returns a place, or `None` if no such ring fits into a link.
    #[inline]
    #[must_use]
    pub const fn new(unit: u32, log2: u8) -> Option<Self> {
        if log2 < MIN_LOG2 || log2 > MAX_LOG2 || (unit as u64) * RING_UNIT < RINGS_AT {
            return None;
        }
        let place = Self { unit, log2 };
        if place.offset() + place.len() > LINK_LEN { None } else { Some(place) }
    }

    /// Octets from the start of the link.
    #[inline]
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.unit as u64 * RING_UNIT
    }

    /// Octets of the ring, a power of two.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no ring is empty of memory")]
    pub const fn len(self) -> u64 {
        1 << self.log2
    }
}

impl Leg {
    /// Returns the leg in a word, which a peer may have written, or `None` if no leg has that word.
    #[inline]
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        let number = (word & 0xffff) as u16;
        let [_, _, kind, log2, ..] = word.to_le_bytes();
        let unit = (word >> 32) as u32;
        let carrier = match (kind, log2, unit) {
            (0, 0, 0) => Carrier::Tcp,
            (1, log2, unit) => Carrier::Ring(RingPlace::new(unit, log2)?),
            _ => return None,
        };
        Some(Self { number, carrier })
    }

    /// Returns the leg in a word of a family's own slab, which [`to_word`](Self::to_word) has packed, or which tells of a leg
    /// by TCP behind a [record](crate::Record).
    #[inline]
    #[must_use]
    pub const fn from_own_word(word: u64) -> Self {
        let place = RingPlace { unit: (word >> 32) as u32, log2: (word >> 24 & 63) as u8 };
        let carrier = if word >> 16 & 0xff == 1 { Carrier::Ring(place) } else { Carrier::Tcp };
        Self { number: (word & 0xffff) as u16, carrier }
    }

    /// Packs the leg: number in 16 bits, kind in 8, logarithm in 8, unit in 32.
    #[inline]
    #[must_use]
    pub fn to_word(self) -> u64 {
        let rest = match self.carrier {
            Carrier::Tcp => 0,
            Carrier::Ring(place) => u64::from(place.unit) << 32 | u64::from(place.log2) << 24 | 1 << 16,
        };
        rest | u64::from(self.number)
    }

    /// Packs the leg by TCP that a reader begins behind a [record](crate::Record), for a word of its own family. It is not 0,
    /// and no sender's.
    #[must_use]
    pub(crate) const fn word_behind_record(self) -> u64 {
        let next = self.number.wrapping_add(1);
        BY_RECORD | if next == 0 { 1 } else { next as u64 }
    }

    /// True if a word of this family's own is a leg [behind a record](Self::word_behind_record).
    #[inline]
    #[must_use]
    pub(crate) const fn is_behind_record(word: u64) -> bool {
        word & BY_RECORD != 0
    }

    /// Returns the leg behind this one.
    #[must_use]
    pub const fn next(self, carrier: Carrier) -> Self {
        Self { number: self.number.wrapping_add(1), carrier }
    }
}

/// The bit of a leg behind a record.
const BY_RECORD: u64 = 2 << 16;
/// The smallest ring: 64 KiB. In the simulation rings have a 512th of their octets.
pub const MIN_LOG2: u8 = if cfg!(stepped) { 7 } else { 16 };
/// The largest ring: 4 MiB.
pub const MAX_LOG2: u8 = MIN_LOG2 + 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_legs_are_read_back_and_others_are_refused() {
        let places =
            [(64, 16), (128, 22), (16320, 22), (16383, 16)].map(|(unit, log2)| RingPlace::new(unit, log2));
        let rings = places.into_iter().map(|place| Carrier::Ring(place.expect("a place in the link")));
        for carrier in rings.chain([Carrier::Tcp]) {
            let leg = Leg { number: 7, carrier };
            let word = leg.to_word();
            assert_eq!((Leg::from_word(word), Leg::from_own_word(word)), (Some(leg), leg));
        }
        for (unit, log2) in [(63, 16), (64, 15), (64, 23), (16384, 16), (16383, 17), (u32::MAX, 22)] {
            assert_eq!(RingPlace::new(unit, log2), None, "{unit} {log2}");
            let word = u64::from(unit) << 32 | u64::from(log2) << 24 | 1 << 16;
            assert_eq!(Leg::from_word(word), None, "{unit} {log2}");
        }
        assert_eq!(Leg::from_word(0), Some(Leg::default()));
        assert_eq!(Leg::from_word(2 << 16), None);
    }
}
