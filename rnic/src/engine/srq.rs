//! What the engine and the application share of a shared receive queue.

use std::sync::Arc;

use weft_verbs::{Doorbells, PdId, SharedRecvQueue};

use crate::engine::registry::{PdEntry, SrqEntry};
use crate::events::asynchronous::{AsyncEvent, AsyncQueue};
use crate::ids::{SrqId, qp_slot};

/// What the engine and the application share of a shared receive queue.
#[derive(Debug)]
pub(crate) struct SrqShared {
    pub(crate) id: SrqId,
    pub(crate) pd: PdId,
    /// Keeps the domain in use.
    _pd_users: Arc<()>,
    /// The engine of all queue pairs that use it, and how many there are.
    pub(crate) engine: usize,
    engines: usize,
    pub(crate) queue: Arc<SharedRecvQueue>,
    events: Arc<AsyncQueue>,
    /// Keeps its place among the device's shared receive queues.
    _entry: SrqEntry,
}

impl SrqShared {
    /// The queue of `entry`, in the domain of `pd`, for queue pairs of the engine number `engine` of `engines`.
    pub(crate) fn new(
        entry: SrqEntry,
        pd: &PdEntry,
        [engine, engines]: [usize; 2],
        events: Arc<AsyncQueue>,
    ) -> Self {
        Self {
            id: entry.id,
            pd: pd.id,
            _pd_users: Arc::clone(&pd.users),
            engine,
            engines,
            queue: Arc::clone(&entry.queue),
            events,
            _entry: entry,
        }
    }

    /// Announces the events of a turn, and wakes the next queue pair that waits for a request.
    pub(super) fn announce(&self, doorbells: &Doorbells) {
        let happened = self.queue.take_events();
        if happened.limit_reached {
            self.events.push(AsyncEvent::SrqLimitReached { srq: self.id });
        }
        if happened.damaged {
            self.events.push(AsyncEvent::SrqError { srq: self.id });
        }
        self.wake_next(doorbells);
    }

    /// The slot of the queue pair with this number, which uses this queue.
    pub(crate) const fn slot_of(&self, number: u32) -> usize {
        qp_slot(number, self.engines)
    }

    /// Rings the doorbell of the next queue pair that waits for a request, if one can have it.
    pub(super) fn wake_next(&self, doorbells: &Doorbells) {
        if let Some(number) = self.queue.next_to_wake() {
            doorbells.ring(self.slot_of(number));
        }
    }
}

impl Drop for SrqShared {
    fn drop(&mut self) {
        self.events.withdraw_srq(self.id);
    }
}
