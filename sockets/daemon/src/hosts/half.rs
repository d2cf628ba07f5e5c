//! A channel that only one of two daemons has.

use core::time::Duration;

use weft_sockets::{Claimant, RingPlace, Secret};

/// A channel of a process with this daemon, before the other daemon has its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Half {
    pub(crate) claimant: Claimant,
    /// When it was made.
    pub(crate) since: Duration,
    pub(crate) link: u64,
    pub(crate) number: u32,
    pub(crate) party: usize,
    /// The ring for what the process sends.
    pub(crate) own_ring: RingPlace,
    /// The ring for what the other end sends.
    pub(crate) ring: RingPlace,
    /// The memory of the rings, for the other daemon.
    pub(crate) stag: u32,
    /// What the ends of the channel know each other by in the kernel's stream.
    pub(crate) secret: Secret,
}
