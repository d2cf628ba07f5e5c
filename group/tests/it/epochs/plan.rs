//! What is explored, and how it is broken.

use weft_group::Topology;

/// What is explored, and how it is broken.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Members of epoch 1.
    pub(crate) members: usize,
    pub(crate) spares: usize,
    pub(crate) coordinators: usize,
    /// How many of them have taken an epoch already, one after the other.
    pub(crate) claimed: usize,
    /// The last epoch that coordinators take.
    pub(crate) last_epoch: u64,
    /// What clients do: `W` writes, `R` reads, `B` does both at the same time. The first has a session of epoch 1.
    pub(crate) programs: &'static [&'static str],
    /// Restarts, failed flushes and power losses, together.
    pub(crate) failures: u8,
    pub(crate) power_losses: u8,
    pub(crate) failed_flushes: u8,
    /// Swaps of the record whose answers are lost.
    pub(crate) lost_answers: u8,
    pub(crate) memory: Memory,
    pub(crate) topology: Topology,
    pub(crate) broken: Option<Broken>,
}

/// What hosts keep, and what clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Each write is flushed to a file, and repairs take what is stored if nothing better is there.
    Flushed,
    /// There are files, and no write is flushed.
    Unflushed,
    /// A restart takes octets and epochs away.
    Volatile,
}

/// How the rules are broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A read is answered without an operation behind it.
    Unconfirmed,
    /// The confirming operation is sent first.
    ConfirmedEarly,
    /// A host that has copied does not flush.
    UnflushedCopy,
    /// The host from which others have copied does not flush.
    UnflushedSource,
    /// Open does not look at the incarnation.
    AnyIncarnation,
    /// Seal does not compare the coordinator's base with what the member serves.
    AnyBase,
    /// Sessions go on when their member is sealed.
    Unsealed,
    /// A member that has only what was stored passes for one that has all octets.
    AnySource,
}

/// What the octets of a host are that have never been written.
pub(crate) const BLANK: u8 = 99;
