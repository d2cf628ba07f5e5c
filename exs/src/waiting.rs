//! How a thread waits.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// How a thread waits for the end of an operation, or for events of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// It drives the device without a sleep for 50 microseconds at first, as long as a round trip takes, and then
    /// sleeps.
    #[default]
    Adaptive,
    /// It sleeps at once.
    Notify,
    /// It does not sleep, unless another thread drives the device. A core is busy as long as it waits.
    BusyPoll,
}

/// How threads wait, which may change.
#[derive(Debug)]
pub(crate) struct Manner(AtomicU8);

impl Waiting {
    /// Returns how long a thread does not sleep.
    pub(crate) const fn spin(self) -> Duration {
        match self {
            Self::Adaptive => Duration::from_micros(50),
            Self::Notify => Duration::ZERO,
            Self::BusyPoll => Duration::MAX,
        }
    }
}

impl Manner {
    pub(crate) const fn new() -> Self {
        Self(AtomicU8::new(Waiting::Adaptive as u8))
    }

    pub(crate) fn set(&self, waiting: Waiting) {
        self.0.store(waiting as u8, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Waiting {
        match self.0.load(Ordering::Relaxed) {
            value if value == Waiting::Notify as u8 => Waiting::Notify,
            value if value == Waiting::BusyPoll as u8 => Waiting::BusyPoll,
            _ => Waiting::Adaptive,
        }
    }
}
