//! Time that passes, and that this process works.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment: real time, and the time that all threads of this process have worked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    real: f64,
    cpu: f64,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self { real: seconds(ClockId::Monotonic), cpu: seconds(ClockId::ProcessCPUTime) }
    }

    /// Returns the seconds since then, and how many of them this process has worked.
    pub(super) fn since(self) -> (f64, f64) {
        let now = Self::now();
        (now.real - self.real, now.cpu - self.cpu)
    }
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// How long a peer is waited for that does not answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
