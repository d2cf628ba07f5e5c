//! Real time. The endpoints under test know no other.

use std::time::{Duration, Instant};

/// The moment at which a wait ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

/// A clock that starts when it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "the target lives in real time")]
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// Returns the time that is left; `None` after the deadline.
    #[expect(clippy::disallowed_methods, reason = "the target lives in real time")]
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        (left > Duration::ZERO).then_some(left)
    }
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the target lives in real time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
