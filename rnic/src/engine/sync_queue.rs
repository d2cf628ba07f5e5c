//! SYNCs that have begun and are not done.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use weft_netif::Instant;
use weft_verbs::{SyncJob, Syncer};

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

    pub(super) fn push(&self, begun: BegunSync) {
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
    pub(super) queue: Option<Arc<SyncQueue>>,
    /// Those that the engine carries out, each with its time.
    pub(super) waiting: VecDeque<(Instant, BegunSync)>,
    pub(super) syncer: Syncer,
}

impl Syncing {
    /// When the engine wants to carry out the next one.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.front().map(|&(at, _)| at)
    }
}
