//! Deadlines of a client's calls, in real time.

use std::time::{Duration, Instant};

/// The moment at which a wait ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// Returns the moment that is `timeout` from now.
    #[expect(
        clippy::disallowed_methods,
        reason = "replicas are other processes: they are waited for in real time"
    )]
    pub(crate) fn after(timeout: Duration) -> Self {
        let now = Instant::now();
        // A day is as good as for ever.
        Self(now.checked_add(timeout).unwrap_or(now + Duration::from_secs(86_400)))
    }

    /// Returns the time that is left; `None` when the moment has passed.
    #[expect(
        clippy::disallowed_methods,
        reason = "replicas are other processes: they are waited for in real time"
    )]
    pub(crate) fn left(self) -> Option<Duration> {
        self.0.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}
