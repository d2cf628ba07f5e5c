//! Moments of real time at which patience ends.

use std::time::{Duration, Instant};

/// A moment of real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// The moment `timeout` from now on.
    #[expect(clippy::disallowed_methods, reason = "other processes are waited for in real time")]
    pub(crate) fn after(timeout: Duration) -> Self {
        Self(Instant::now() + timeout)
    }

    /// Returns how long it is until then; zero when the moment has passed.
    #[expect(clippy::disallowed_methods, reason = "other processes are waited for in real time")]
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}
