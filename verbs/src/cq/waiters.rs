//! The send queues that wait for completions of a queue.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The queue pairs that wait, and for how many completions.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Their number, so that a queue without waiting queue pairs costs one load.
    count: AtomicUsize,
    /// Queue pairs, and the number of completions that each needs.
    list: Mutex<Vec<(u32, u64)>>,
}

impl Waiters {
    pub(super) fn add(&self, qp_num: u32, needed: u64) {
        self.change(|list| {
            list.retain(|&(number, _)| number != qp_num);
            list.push((qp_num, needed));
        });
    }

    pub(super) fn remove(&self, qp_num: u32) {
        self.change(|list| list.retain(|&(number, _)| number != qp_num));
    }

    /// Returns whether no queue pair waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Takes the queue pairs out whose number of completions is reached, after `produced` completions.
    pub(super) fn take_ready(&self, produced: u64, mut ready: impl FnMut(u32)) {
        self.change(|list| {
            list.retain(|&(number, needed)| {
                let waits = needed > produced;
                if !waits {
                    ready(number);
                }
                waits
            });
        });
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(u32, u64)>)) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut list);
        self.count.store(list.len(), Ordering::Relaxed);
    }
}
