//! Wall and CPU time of the timed parts of a turn.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::case::{Effort, Sample};

/// Adds up the timed parts of a turn.
#[derive(Debug)]
pub(crate) struct Watch {
    budget: Duration,
    sample: Sample,
}

impl Watch {
    pub(crate) fn new(effort: &Effort) -> Self {
        Self { budget: effort.turn, sample: Sample::default() }
    }

    /// Returns true while the turn goes on. The first round always takes place.
    pub(crate) fn goes_on(&self) -> bool {
        self.sample.transfers == 0 || self.sample.wall < self.budget
    }

    /// Does some work and times it.
    #[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
    pub(crate) fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let cpu = cpu_time();
        let start = Instant::now();
        let result = work();
        self.sample.wall += start.elapsed();
        self.sample.cpu += cpu_time().saturating_sub(cpu);
        result
    }

    /// Counts the transfers of the timed part, and how many of them were checked.
    pub(crate) const fn count(&mut self, transfers: u64, octets: u64, checked: u64) {
        self.sample.transfers += transfers;
        self.sample.octets += octets;
        self.sample.checked += checked;
    }

    /// Returns the sums.
    pub(crate) const fn finish(self) -> Sample {
        self.sample
    }
}

/// Returns the CPU time of all threads of this process.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
