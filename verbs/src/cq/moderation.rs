//! Fewer events than completions.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// When an event that is due may be held back. Only the engine uses it, so that the order of the words does not matter.
#[derive(Debug, Default)]
pub(super) struct Moderation {
    is_on: AtomicBool,
    count: AtomicU32,
    period: AtomicU64,
    /// Completions made when no event was held back for the last time.
    seen: AtomicU64,
    /// When the held event comes at the latest; 0 while no event is held.
    deadline: AtomicU64,
}

impl Moderation {
    pub(super) fn set(&self, count: u32, period: u64) {
        self.count.store(count, Ordering::Relaxed);
        self.period.store(period, Ordering::Relaxed);
        self.deadline.store(0, Ordering::Relaxed);
        self.is_on.store(count > 1 || period > 0, Ordering::Relaxed);
    }

    /// Returns whether the event that is due at `now`, with so many completions made so far, has to wait, and until
    /// when at most.
    pub(super) fn hold(&self, produced: u64, now: u64) -> Option<Option<u64>> {
        if !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        let (count, period) = (self.count.load(Ordering::Relaxed), self.period.load(Ordering::Relaxed));
        if count > 0 && produced.saturating_sub(self.seen.load(Ordering::Relaxed)) >= u64::from(count) {
            return None;
        }
        if period == 0 {
            return Some(None);
        }
        let deadline = match self.deadline.load(Ordering::Relaxed) {
            0 => now.saturating_add(period),
            deadline => deadline,
        };
        self.deadline.store(deadline, Ordering::Relaxed);
        (deadline > now).then_some(Some(deadline))
    }

    /// Notes that no event is held back, with so many completions made so far.
    pub(super) fn settle(&self, produced: u64) {
        if self.is_on.load(Ordering::Relaxed) {
            self.seen.store(produced, Ordering::Relaxed);
            self.deadline.store(0, Ordering::Relaxed);
        }
    }
}
