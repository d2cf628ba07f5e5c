//! Events of an object that the program has taken and must acknowledge before the object can go.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Counts the events that are not acknowledged yet.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    outstanding: Mutex<u64>,
    acknowledged: Condvar,
}

impl Acks {
    /// Counts an event that the program has got.
    pub(crate) fn deliver(&self) {
        *self.lock() += 1;
    }

    /// Counts `events` as acknowledged, at most as many as there are.
    pub(crate) fn acknowledge(&self, events: u64) {
        let mut outstanding = self.lock();
        *outstanding = outstanding.saturating_sub(events);
        self.acknowledged.notify_all();
    }

    /// Blocks until none is left, as the functions of libibverbs that destroy objects do.
    pub(crate) fn wait(&self) {
        let mut outstanding = self.lock();
        while *outstanding > 0 {
            outstanding = self.acknowledged.wait(outstanding).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.outstanding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_every_event() {
        let acks = Acks::default();
        acks.wait();
        acks.deliver();
        acks.deliver();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| acks.wait());
            acks.acknowledge(1);
            assert!(!waiter.is_finished());
            acks.acknowledge(9);
        });
        acks.wait();
    }
}
