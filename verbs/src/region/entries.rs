//! The entries of a send queue as registered memory.

use core::ptr::NonNull;
use std::sync::Arc;

use super::{Home, Region};
use crate::doorbell::Doorbells;
use crate::queues::QpQueues;

/// The entries of a send queue, and how to have them looked at after a change.
pub(super) struct Entries {
    queues: Arc<QpQueues>,
    doorbells: Arc<Doorbells>,
    slot: usize,
}

impl Region {
    /// The entries of a send queue, without its head and tail. Whatever changes them rings its doorbell, which is `slot` of
    /// `doorbells`. The ring stays for as long as the region does.
    pub fn send_queue(queues: Arc<QpQueues>, doorbells: Arc<Doorbells>, slot: usize) -> Self {
        let (address, len) = (queues.send.ring().address(), queues.send.ring().octets());
        // Only its address is used; the octets are reached through the ring.
        let start = NonNull::new(core::ptr::without_provenance_mut(address)).unwrap_or(NonNull::dangling());
        let entries = Some(Entries { queues, doorbells, slot });
        Self { start, len, home: Home::Elsewhere, writable: false, entries }
    }
}

impl Entries {
    pub(super) fn copy_in(&self, offset: usize, octets: &[u8]) -> bool {
        let copied = self.queues.send.ring().copy_in(offset, octets);
        self.doorbells.ring(self.slot);
        copied
    }

    pub(super) fn copy_out(&self, offset: usize, octets: &mut [u8]) -> bool {
        self.queues.send.ring().copy_out(offset, octets)
    }

    pub(super) fn update(&self, offset: usize, change: impl Fn(u64) -> u64) -> Option<u64> {
        let before = self.queues.send.ring().update(offset, change);
        self.doorbells.ring(self.slot);
        before
    }
}
