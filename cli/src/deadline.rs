//! Deadlines in real time.

use std::time::{Duration, Instant};

/// The moment of real time at which a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// Returns the moment that is `timeout` from now.
    #[expect(clippy::disallowed_methods, reason = "other processes are waited for in real time")]
    pub(crate) fn after(timeout: Duration) -> Self {
        Self(Instant::now() + timeout)
    }

    /// Returns the time that is left; zero when the moment has passed.
    #[expect(clippy::disallowed_methods, reason = "other processes are waited for in real time")]
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}
