//! How often threads have slept for the engine, and what woke them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::EngineCounters;

/// Counts of sleeps and of what ended them. An atomic addition is cheap beside the system call that sleeps.
#[derive(Debug, Default)]
pub(crate) struct Sleeps {
    sleeps: AtomicU64,
    by_doorbell: AtomicU64,
    by_wire: AtomicU64,
    by_event: AtomicU64,
    by_time: AtomicU64,
}

/// What has ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    Doorbell,
    Wire,
    Event,
    Time,
}

impl Sleeps {
    /// Counts a sleep that begins.
    pub(crate) fn begin(&self) {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts how a sleep has ended.
    pub(crate) fn end(&self, woken: Woken) {
        let counter = match woken {
            Woken::Doorbell => &self.by_doorbell,
            Woken::Wire => &self.by_wire,
            Woken::Event => &self.by_event,
            Woken::Time => &self.by_time,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds what was counted.
    pub(crate) fn add_to(&self, counters: &mut EngineCounters) {
        counters.sleeps += self.sleeps.load(Ordering::Relaxed);
        counters.woken_by_doorbell += self.by_doorbell.load(Ordering::Relaxed);
        counters.woken_by_wire += self.by_wire.load(Ordering::Relaxed);
        counters.woken_by_event += self.by_event.load(Ordering::Relaxed);
        counters.woken_by_time += self.by_time.load(Ordering::Relaxed);
    }
}
