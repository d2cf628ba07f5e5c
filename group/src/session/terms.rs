//! The terms of a session.

use crate::durability::Durability;

/// What the client and the replicas have agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How many replicas a chain has.
    pub replicas: usize,
    /// Slots: a power of two.
    pub window: u32,
    /// Octets of the session's range.
    pub len: u64,
    /// The longest write of one slot, in octets.
    pub piece: u32,
    /// The epoch of the group.
    pub epoch: u64,
    /// The session.
    pub session: u64,
    /// What the memory of the replicas survives. It decides whether a flush is work for them.
    pub durability: Durability,
}

impl Terms {
    /// Returns where the memory of a slot begins that has `len` octets for each.
    pub(crate) fn place(&self, number: u64, len: usize) -> usize {
        let slot = number & u64::from(self.window - 1);
        usize::try_from(slot).unwrap_or(0) * len
    }
}
