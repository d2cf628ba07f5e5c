//! SYNCs: a request waits until its memory is durable, and the engine goes on meanwhile.

use std::sync::Arc;

use weft_netif::Instant;

use crate::engine::sync_queue::{BegunSync, SyncQueue};
use crate::engine::tables::Engine;

impl Engine {
    /// Leaves SYNCs to the thread that takes from `queue`.
    pub(crate) fn leave_syncs_to(&mut self, queue: Arc<SyncQueue>) {
        self.syncing.queue = Some(queue);
    }

    /// Has the SYNC of a queue pair carried out, if its turn has come to one.
    #[inline]
    pub(super) fn begin_sync(&mut self, slot: Option<usize>, now: Instant) {
        let Some(index) = slot else { return };
        let Some(Some(slot)) = self.qps.get_mut(index) else { return };
        let Some(job) = slot.qp.take_sync() else { return };
        let begun = BegunSync { job, engine: self.index, slot: index };
        match &self.syncing.queue {
            Some(queue) => queue.push(begun),
            None => self.syncing.waiting.push_back((now + self.config.sync_after, begun)),
        }
    }

    /// Carries out the SYNCs whose time has come, if there is no thread that does it.
    pub(super) fn carry_out_syncs(&mut self, now: Instant) {
        let due = self.syncing.waiting.iter().take_while(|&&(at, _)| at <= now).count();
        if due == 0 {
            return;
        }
        let begun = self.syncing.waiting.iter().take(due);
        self.syncing.syncer.carry_out(begun.map(|(_, begun)| &begun.job));
        for (_, begun) in self.syncing.waiting.drain(..due) {
            self.doorbells.ring(begun.slot);
        }
    }
}
