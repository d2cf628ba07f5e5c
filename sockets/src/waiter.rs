//! The names of sleeping threads in a link.

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
        let member = name >> 8;
        if member as usize >= MEMBERS || (name & 0xff) as usize >= WAITERS {
            return None;
        }
        Some(Self { member: member as u16, line: (name & 0xff) as u8 })
    }

    /// Returns the word that stands for this waiter in a link. It is never 0.
    #[must_use]
    pub const fn to_word(self) -> u32 {
        ((self.member as u32) << 8 | self.line as u32) + 1
    }
}

use crate::layout::{MEMBERS, WAITERS};
