//! SYNCs: a request waits until its memory is durable, and the engine goes on meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use weft_netif::Instant;
use weft_verbs::{SyncJob, Syncer};

use crate::engine::tables::Engine;

/// A SYNC that a queue pair waits for.
#[derive(Debug)]
pub(crate) struct BegunSync {
    pub(crate) job: Arc<SyncJob>,
    /// The engine of the queue pair, and its slot there, whose doorbell is to be rung when it is done.
    pub(crate) engine: usize,
    pub(crate) slot: usize,
}

/// SYNCs of all engines of a device, for its flusher thread.
#[derive(Debug, Default)]
pub(crate) struct SyncQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    begun: Vec<BegunSync>,
    is_closed: bool,
}

impl SyncQueue {
    /// Blocks until there is a SYNC, and moves all that are there to `begun`. Returns false if there is none and the
    /// queue was closed.
    pub(crate) fn take(&self, begun: &mut Vec<BegunSync>) -> bool {
        let mut waiting = self.waiting();
        while waiting.begun.is_empty() {
            if waiting.is_closed {
                return false;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        begun.append(&mut waiting.begun);
        true
    }

    /// Has the thread that takes from the queue end when it is empty, or the next one begin.
    pub(crate) fn set_closed(&self, is_closed: bool) {
        self.waiting().is_closed = is_closed;
        self.changed.notify_all();
    }

    fn push(&self, begun: BegunSync) {
        self.waiting().begun.push(begun);
        self.changed.notify_one();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the SYNCs of an engine go.
#[derive(Debug, Default)]
pub(super) struct Syncing {
    /// To the flusher thread. Without it the engine carries them out by itself.
    queue: Option<Arc<SyncQueue>>,
    /// Those that the engine carries out, each with its time.
    waiting: VecDeque<(Instant, BegunSync)>,
    syncer: Syncer,
}

impl Syncing {
    /// When the engine wants to carry out the next one.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.front().map(|&(at, _)| at)
    }
}

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
