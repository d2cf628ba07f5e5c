//! Waits in real time. Every wait of the harness has an end.

use std::time::{Duration, Instant};

/// The moment at which a wait ends. `None` is a moment beyond any clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "guests live in real time")]
    pub(crate) fn after(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    /// Returns the time that is left, or zero when the wait is over.
    #[expect(clippy::disallowed_methods, reason = "guests live in real time")]
    pub(crate) fn left(self) -> Duration {
        self.0.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
    }
}

/// Measures a duration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "guests live in real time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
