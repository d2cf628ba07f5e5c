//! What the engine and the application share of a completion queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

use weft_verbs::CompletionQueue;

use crate::engine::registry::CqEntry;
use crate::events::asynchronous::AsyncQueue;
use crate::events::channel::Channel;
use crate::ids::CqId;

/// What the engine and the application share of a completion queue.
#[derive(Debug)]
pub(crate) struct CqShared {
    pub(crate) id: CqId,
    /// The engine of all queue pairs that use it.
    pub(crate) engine: usize,
    pub(crate) queue: Arc<CompletionQueue>,
    pub(crate) channel: Option<Arc<Channel<CqId>>>,
    /// The engine has seen that the queue is overrun.
    overrun_seen: AtomicBool,
    /// When an event that is held back comes at the latest. Only the engine uses it.
    pub(super) held_until: AtomicI64,
    vain_polls: VainPolls,
    events: Arc<AsyncQueue>,
    /// Keeps its place among the device's completion queues.
    _entry: CqEntry,
}

/// Polls since the last one that found a completion, in a cache line of their own: the engine reads the fields around.
#[derive(Debug, Default)]
#[repr(align(64))]
struct VainPolls(AtomicU32);

impl CqShared {
    /// The queue of `entry`, for queue pairs of the engine number `engine`.
    pub(crate) fn new(
        entry: CqEntry,
        engine: usize,
        channel: Option<Arc<Channel<CqId>>>,
        events: Arc<AsyncQueue>,
    ) -> Self {
        Self {
            id: entry.id,
            engine,
            queue: Arc::clone(&entry.queue),
            channel,
            overrun_seen: AtomicBool::new(false),
            held_until: AtomicI64::new(NEVER),
            vain_polls: VainPolls::default(),
            events,
            _entry: entry,
        }
    }

    /// Notes a poll that has found a completion.
    #[inline]
    pub(crate) fn note_found(&self) {
        self.vain_polls.0.store(0, Ordering::Relaxed);
    }

    /// Notes a poll that has found nothing. Returns how many polls right before it have found nothing.
    #[inline]
    pub(crate) fn note_vain_poll(&self) -> u32 {
        self.vain_polls.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the queue was overrun since the last call.
    pub(super) fn is_newly_overrun(&self) -> bool {
        self.queue.is_overrun() && !self.overrun_seen.swap(true, Ordering::AcqRel)
    }
}

impl Drop for CqShared {
    fn drop(&mut self) {
        self.events.withdraw_cq(self.id);
    }
}

/// The time of an event that is not held back, or held back without a limit.
pub(super) const NEVER: i64 = i64::MAX;
