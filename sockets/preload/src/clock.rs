//! Times until which calls wait.

use libc::timespec;
use rustix::time::{ClockId, clock_gettime};

/// A time of the monotonic clock, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(Option<u64>);

impl Limit {
    /// The time so much behind now. `None` is never.
    pub(crate) fn behind(span: Option<timespec>) -> Self {
        let span = span.map(|span| {
            let seconds = u64::try_from(span.tv_sec).unwrap_or(0);
            seconds.saturating_mul(SECOND).saturating_add(u64::try_from(span.tv_nsec).unwrap_or(0))
        });
        Self(span.map(|span| if span == 0 { 0 } else { now().saturating_add(span) }))
    }

    /// True if the time has come.
    pub(crate) fn is_over(self) -> bool {
        self.0.is_some_and(|limit| limit == 0 || now() >= limit)
    }

    /// Returns how long it is until then. `None` is for ever.
    pub(crate) fn left(self) -> Option<timespec> {
        self.0.map(|limit| span(limit.saturating_sub(if limit == 0 { 0 } else { now() })))
    }

    /// As [`left`](Self::left), but so many nanoseconds at most.
    pub(crate) fn left_at_most(self, most: u64) -> timespec {
        span(self.0.map_or(most, |limit| limit.saturating_sub(now()).min(most)))
    }
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned().wrapping_mul(SECOND).wrapping_add(now.tv_nsec.cast_unsigned())
}

/// The low half of a count of 16 nanoseconds, by which the octets of several rings are put in order.
pub(crate) fn stamp() -> u32 {
    u32::try_from(now() >> 4 & u64::from(u32::MAX)).unwrap_or(0)
}

/// The span of so many nanoseconds.
pub(crate) fn span(nanoseconds: u64) -> timespec {
    let part = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    timespec { tv_sec: part(nanoseconds / SECOND), tv_nsec: part(nanoseconds % SECOND) }
}

const SECOND: u64 = 1_000_000_000;
