//! The send queues that wait for completions of a queue.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The queue pairs that wait, and for how many completions.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Their number, so that a queue without waiting queue pairs costs one load.
    count: AtomicUsize,
    list: Mutex<Vec<Waiter>>,
}

/// A queue pair that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) qp_num: u32,
    /// Completions since the creation of the completion queue.
    pub(super) needed: u64,
    /// All of them have to be good.
    pub(super) strict: bool,
}

impl Waiters {
    pub(super) fn add(&self, waiter: Waiter) {
        self.change(|list| {
            list.retain(|other| other.qp_num != waiter.qp_num);
            list.push(waiter);
        });
    }

    pub(super) fn remove(&self, qp_num: u32) {
        self.change(|list| list.retain(|waiter| waiter.qp_num != qp_num));
    }

    /// Returns whether no queue pair waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Takes the queue pairs out whose wait is over, after `produced` completions of which the first `good` are good. A
    /// strict one need not wait for a number that it can reach only with a failed completion.
    pub(super) fn take_ready(&self, produced: u64, good: u64, mut ready: impl FnMut(u32)) {
        self.change(|list| {
            list.retain(|waiter| {
                let waits = waiter.needed > produced && !(waiter.strict && waiter.needed > good);
                if !waits {
                    ready(waiter.qp_num);
                }
                waits
            });
        });
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Waiter>)) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut list);
        self.count.store(list.len(), Ordering::Relaxed);
    }
}
