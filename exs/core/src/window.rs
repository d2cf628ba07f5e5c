//! How many Sends of any kind each side may send before the other one tells that it has taken some.
//!
//! Each side has WINDOW slots posted, and tells in every message its limit: how many Sends it has taken, and WINDOW
//! more. A Send counts as taken when another slot is posted in its place, whatever the user does.
//!
//! A sender keeps its last place for CREDIT. A side owes when the other one does not know of WINDOW / 2 Sends that it
//! has taken. Whatever it sends then tells, and with nothing to send it sends CREDIT. Therefore no two sides wait for
//! each other: a side without a place but its last one has a peer that owes, and the peer can tell it unless its own
//! last place is used. Then this side owes as well and has its last place, unless it is used, too. Both cannot be:
//! each would have used it after it had taken the other one's CREDIT.

use crate::fault::Fault;

/// The places of one side among the other one's slots, and what it owes. All counts are modulo 2^16.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    /// Own WINDOW.
    size: u16,
    /// Sends taken.
    taken: u16,
    /// The limit that the other side knows, or will when what is on the way arrives.
    told: u16,
    /// The other side's WINDOW.
    peer: u16,
    /// Sends sent.
    sent: u16,
    /// The limit that the other side has told.
    limit: u16,
}

impl Window {
    /// Makes the window of a side with so many slots posted, whose peer has `peer` posted.
    pub(crate) const fn new(size: u16, peer: u16) -> Self {
        Self { size, taken: 0, told: size, peer, sent: 0, limit: peer }
    }

    /// Takes a Send that tells this limit. Another slot has to be posted before the next message is sent.
    ///
    /// # Errors
    /// [`Fault::BeyondCredits`] if the peer had no place, [`Fault::OutOfOrder`] if its limit is below the last one or
    /// beyond what it can have taken.
    pub(crate) fn handle_send(&mut self, limit: u16) -> Result<(), Fault> {
        if self.told == self.taken {
            return Err(Fault::BeyondCredits);
        }
        let least = self.places();
        let told = limit.wrapping_sub(self.sent);
        if told < least || told > self.peer {
            return Err(Fault::OutOfOrder);
        }
        self.taken = self.taken.wrapping_add(1);
        self.limit = limit;
        Ok(())
    }

    /// Uses a place, and returns the limit that the message has to tell.
    ///
    /// The caller has asked [`Self::may_send`], or [`Self::may_send_credit`], before.
    pub(crate) const fn send(&mut self) -> u16 {
        self.sent = self.sent.wrapping_add(1);
        self.told = self.taken.wrapping_add(self.size);
        self.told
    }

    /// Returns whether there is a place for a message other than CREDIT.
    pub(crate) const fn may_send(&self) -> bool {
        self.places() > 1
    }

    /// Returns whether there is a place for CREDIT, or for the last message of all.
    pub(crate) const fn may_send_credit(&self) -> bool {
        self.places() > 0
    }

    /// Returns whether the peer has to hear of what was taken.
    pub(crate) const fn owes(&self) -> bool {
        self.taken.wrapping_add(self.size).wrapping_sub(self.told) >= self.size.div_ceil(2)
    }

    /// Returns how many places are used, and how many there are.
    pub(crate) fn used(&self) -> [u32; 2] {
        [self.peer.saturating_sub(self.places()), self.peer].map(u32::from)
    }

    /// Returns how many Sends the peer takes before it tells another limit. At most its WINDOW.
    const fn places(&self) -> u16 {
        self.limit.wrapping_sub(self.sent)
    }
}

#[cfg(test)]
mod tests;
