//! The names of sleeping threads in a link.

use crate::layout::{EVERYBODY, MEMBERS, WAITERS};

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

    /// Returns the word that names `sleeper` beside those of `word`. Those who do not sleep any more are forgotten.
    pub(crate) fn join(word: u32, sleeper: WaiterName, sleeps: impl FnOnce(WaiterName) -> bool) -> u32 {
        match Self::from_word(word) {
            Some(Self::One(other)) if other != sleeper && sleeps(other) => EVERYBODY,
            Some(Self::Everybody) => EVERYBODY,
            _ => sleeper.to_word(),
        }
    }
}
