//! The names of sleeping threads in a link.

use crate::layout::{EVERYBODY, MEMBERS, WAITERS};
use crate::sync::{AtomicU64, Ordering};

/// A thread that sleeps: a member of the party's family and the line of that member's status page.
///
/// ```
/// use weft_sockets::WaiterName;
/// let name = WaiterName { member: 3, line: 5 };
/// assert_eq!(WaiterName::from_word(name.to_word()), Some(name));
/// assert_eq!(WaiterName::from_word(0), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterName {
    /// The member's place in its family's slab.
    pub member: u16,
    /// The line of its status page.
    pub line: u8,
}

impl WaiterName {
    /// Returns the name in a word that a peer may have written, or `None` if the word names no waiter.
    #[must_use]
    pub const fn from_word(word: u32) -> Option<Self> {
        let Some(name) = word.checked_sub(1) else { return None };
        let [line, low, high, rest] = name.to_le_bytes();
        let member = u16::from_le_bytes([low, high]);
        if rest != 0 || member as usize >= MEMBERS || line as usize >= WAITERS {
            return None;
        }
        Some(Self { member, line })
    }

    /// Returns the word that stands for this waiter in a link. It is never 0.
    #[must_use]
    pub const fn to_word(self) -> u32 {
        ((self.member as u32) << 8 | self.line as u32) + 1
    }
}

/// A sleep: of which waiter, and which of its sleeps.
///
/// So another thread of the family sees whether a waiter that once slept on a direction still does, or sleeps
/// elsewhere by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// The waiter.
    pub waiter: WaiterName,
    /// Stays the same as long as the waiter sleeps on the same directions.
    pub number: u32,
}

impl Sleep {
    fn from_word(word: u64) -> Option<Self> {
        let (name, number) = (word & 0xffff_ffff, word >> 32);
        let waiter = WaiterName::from_word(name.try_into().ok()?)?;
        Some(Self { waiter, number: number.try_into().ok()? })
    }

    fn to_word(self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.waiter.to_word())
    }
}

/// The threads that a word of a link names as sleepers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleepers {
    /// This one, if its line says that it is asleep.
    One(WaiterName),
    /// Several: the daemon rings all that are asleep.
    Everybody,
}

impl Sleepers {
    /// Returns the sleepers in a word that a peer may have written, or `None` if it names nobody.
    #[inline]
    #[must_use]
    pub const fn from_word(word: u32) -> Option<Self> {
        match word {
            0 => None,
            EVERYBODY => Some(Self::Everybody),
            word => match WaiterName::from_word(word) {
                Some(name) => Some(Self::One(name)),
                None => None,
            },
        }
    }

    /// Adds a sleep to those on a direction and returns the word that names all of them. `goes_on` tells of the others
    /// whether they go on.
    pub(crate) fn add(sleeps: &[AtomicU64; 3], sleep: Sleep, goes_on: impl Fn(Sleep) -> bool) -> u32 {
        let (mut place, mut is_alone) = (None, true);
        for word in sleeps {
            let known = word.load(Ordering::Relaxed);
            let other =
                Sleep::from_word(known).filter(|other| other.waiter != sleep.waiter && goes_on(*other));
            if known == CROWD || other.is_some() {
                is_alone = false;
            } else {
                word.store(0, Ordering::Relaxed);
                place = place.or(Some(word));
            }
        }
        match (place, &sleeps[0]) {
            (Some(place), _) => place.store(sleep.to_word(), Ordering::Relaxed),
            // There is no room to tell when they end.
            (None, first) => first.store(CROWD, Ordering::Relaxed),
        }
        if is_alone { sleep.waiter.to_word() } else { EVERYBODY }
    }
}

/// In the place of the first sleep: there were too many at a time to know them all.
const CROWD: u64 = u64::MAX;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_direction_names_its_only_sleeper_or_everybody() {
        let sleeps = [const { AtomicU64::new(0) }; 3];
        let sleep = |line, number| Sleep { waiter: WaiterName { member: 1, line }, number };
        let add = |line, number, others: &[Sleep]| {
            Sleepers::add(&sleeps, sleep(line, number), |other| others.contains(&other))
        };
        let name = |line| WaiterName { member: 1, line }.to_word();
        assert_eq!(add(0, 1, &[]), name(0));
        assert_eq!(add(0, 2, &[]), name(0), "its next sleep");
        assert_eq!(add(1, 1, &[sleep(0, 2)]), EVERYBODY);
        assert_eq!(add(1, 2, &[sleep(0, 2)]), EVERYBODY);
        assert_eq!(add(1, 3, &[sleep(0, 3)]), name(1), "the other one sleeps elsewhere");
        let three = [sleep(0, 4), sleep(1, 4), sleep(2, 4)];
        assert_eq!(
            [add(0, 4, &three), add(1, 4, &three), add(2, 4, &three)],
            [name(0), EVERYBODY, EVERYBODY]
        );
        assert_eq!(add(3, 1, &three), EVERYBODY, "more than can be known");
        assert_eq!(add(3, 2, &[]), EVERYBODY, "from now on");
    }
}
