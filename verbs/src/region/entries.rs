//! The entries of a send queue as registered memory.

use std::sync::Arc;

use crate::doorbell::Doorbells;
use crate::queues::QpQueues;

/// The entries of a send queue, and how to have them looked at after a change.
pub(crate) struct Entries {
    queues: Arc<QpQueues>,
    doorbells: Arc<Doorbells>,
    slot: usize,
}

impl Entries {
    pub(super) const fn new(queues: Arc<QpQueues>, doorbells: Arc<Doorbells>, slot: usize) -> Self {
        Self { queues, doorbells, slot }
    }

    /// Copies octets in and rings.
    pub(super) fn change(&self, offset: usize, octets: &[u8]) -> bool {
        let copied = self.copy_in(offset, octets);
        self.ring();
        copied
    }

    /// Copies octets in. The caller rings behind the last one of several copies.
    pub(crate) fn copy_in(&self, offset: usize, octets: &[u8]) -> bool {
        self.queues.send.ring().copy_in(offset, octets)
    }

    /// Has the engine look at the entries.
    pub(crate) fn ring(&self) {
        self.doorbells.ring(self.slot);
    }

    pub(super) fn copy_out(&self, offset: usize, octets: &mut [u8]) -> bool {
        self.queues.send.ring().copy_out(offset, octets)
    }

    pub(super) fn update(&self, offset: usize, change: impl Fn(u64) -> u64) -> Option<u64> {
        let before = self.queues.send.ring().update(offset, change);
        self.ring();
        before
    }
}
