//! Where an engine's time comes from.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use weft_netif::{Duration, Instant};

/// The time of an engine: virtual, as a simulation sets it, or the machine's, scaled.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
}

impl Clock {
    /// A clock that stands still until [`Clock::set`] moves it. Clones show the same time.
    pub fn virtual_time() -> Self {
        Self { source: Source::Virtual(Arc::new(AtomicI64::new(0))) }
    }

    /// The machine's monotonic clock, `scale` times as fast. smoltcp's shortest retransmission timeout is one second,
    /// so that a scale of 4 makes it 250 ms of real time, near to what other stacks use.
    #[expect(clippy::disallowed_methods, reason = "this is the one place where the stack reads the clock")]
    pub fn real_time(scale: u32) -> Self {
        let scale = scale.max(1);
        Self { source: Source::Real { start: std::time::Instant::now(), scale } }
    }

    /// Moves a virtual clock. Returns false for the machine's clock, which cannot be set.
    pub fn set(&self, now: Instant) -> bool {
        match &self.source {
            Source::Virtual(micros) => {
                micros.store(now.total_micros(), Ordering::Release);
                true
            }
            Source::Real { .. } => false,
        }
    }

    /// The present time.
    pub fn now(&self) -> Instant {
        match &self.source {
            Source::Virtual(micros) => Instant::from_micros(micros.load(Ordering::Acquire)),
            Source::Real { start, scale } => {
                let micros = start.elapsed().as_micros().saturating_mul(u128::from(*scale));
                Instant::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
            }
        }
    }

    /// How much faster than real time the clock runs; a virtual one stands for real time itself.
    pub const fn scale(&self) -> u32 {
        match self.source {
            Source::Virtual(_) => 1,
            Source::Real { scale, .. } => scale,
        }
    }

    /// How long to sleep in real time until this clock shows `deadline`; `None` for a virtual clock, for which no
    /// thread can wait.
    pub fn real_delay(&self, deadline: Instant) -> Option<std::time::Duration> {
        match &self.source {
            Source::Virtual(_) => None,
            Source::Real { scale, .. } => {
                let now = self.now();
                let delay = if deadline > now { deadline - now } else { Duration::ZERO };
                Some(std::time::Duration::from_micros(delay.total_micros().div_ceil(u64::from(*scale))))
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Source {
    Virtual(Arc<AtomicI64>),
    Real { start: std::time::Instant, scale: u32 },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_clocks_are_shared_and_never_waited_for() {
        let clock = Clock::virtual_time();
        let other = clock.clone();
        assert!(clock.set(Instant::from_millis(5)));
        assert_eq!(other.now(), Instant::from_millis(5));
        assert_eq!(other.real_delay(Instant::from_secs(9)), None);
    }

    #[test]
    fn real_time_runs_scaled() {
        let clock = Clock::real_time(1000);
        assert!(!clock.set(Instant::from_secs(1)));
        let deadline = clock.now() + Duration::from_secs(3600);
        let delay = clock.real_delay(deadline).unwrap();
        assert!(delay <= std::time::Duration::from_millis(3600), "{delay:?}");
    }
}
