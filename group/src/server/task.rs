//! What replicas do for a change of epoch that takes long: they read each other's memory, and make it durable.
//!
//! ```text
//! coordinator ── Copy ──► target ── Fetch ──► source
//!                           │      ◄── Lent ──   │     both hash their blocks
//!                           │  reads the hashes, then the blocks that differ (RDMA Read)
//!                           └─ SYNC of the whole memory, then Done
//! ```
//! A seal drops the tasks of older epochs with all that was registered for them. So neither end has to look at its seal for
//! each block.

use weft_rnic::Mr;

use crate::control::{Copying, Lent, Named};
use crate::link::Link;
use crate::resync::Hashing;

use super::fetching::Fetching;

/// What a control connection has asked for.
#[derive(Debug)]
pub(super) enum Task {
    Lend(Lend),
    Copy(Box<CopyTask>),
    Flush(Flushing),
}

/// Another replica reads the memory.
#[derive(Debug)]
pub(super) struct Lend {
    pub(super) named: Named,
    pub(super) hashing: Hashing,
    /// The memory, and the hashes once they are made.
    pub(super) data: Mr,
    pub(super) hashes: Option<Mr>,
}

/// This replica fetches what differs from another one.
#[derive(Debug)]
pub(super) struct CopyTask {
    pub(super) copy: Copying,
    pub(super) number: u64,
    pub(super) link: Link,
    pub(super) hashing: Hashing,
    pub(super) lent: Option<Lent>,
    pub(super) fetching: Option<Fetching>,
    /// The hashes are there, and blocks are fetched.
    pub(super) is_compared: bool,
}

/// The whole memory becomes durable.
#[derive(Debug)]
pub(super) struct Flushing {
    pub(super) named: Named,
    pub(super) memory: Mr,
    pub(super) flushed: u64,
    pub(super) under_way: u64,
}

impl Task {
    pub(super) const fn named(&self) -> Named {
        match self {
            Self::Lend(lend) => lend.named,
            Self::Copy(copying) => copying.copy.to,
            Self::Flush(flushing) => flushing.named,
        }
    }
}

impl CopyTask {
    /// Returns how many octets of `size` are fetched, or need not be.
    pub(super) fn fetched(&self, size: u64) -> u64 {
        let missing = self.fetching.as_ref().filter(|_| self.is_compared).map(|fetching| fetching.missing);
        missing.map_or(0, |missing| size - missing)
    }
}
