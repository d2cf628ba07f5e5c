//! The time of a context: the host's, or that of a simulation.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time since an origin.
#[derive(Debug)]
pub(crate) enum Clock {
    /// The host's.
    Real(Instant),
    /// What [`Context::drive`](crate::Context::drive) was told last.
    Told(Mutex<Duration>),
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "peers are other processes: they are waited for in real time"
    )]
    pub(crate) fn real() -> Self {
        Self::Real(Instant::now())
    }

    pub(crate) fn told() -> Self {
        Self::Told(Mutex::default())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "peers are other processes: they are waited for in real time"
    )]
    pub(crate) fn now(&self) -> Duration {
        match self {
            Self::Real(origin) => Instant::now().duration_since(*origin),
            Self::Told(now) => *now.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Sets the time, if it is not the host's.
    pub(crate) fn tell(&self, time: Duration) {
        if let Self::Told(now) = self {
            *now.lock().unwrap_or_else(PoisonError::into_inner) = time;
        }
    }
}
