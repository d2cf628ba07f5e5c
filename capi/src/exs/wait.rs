//! How a thread waits: until it has what it wants, its time is over, or a signal comes.

use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::io::Errno;
use weft_exs::Op;
use weft_rnic::Until;

use crate::raw::interruptible;

/// How a thread sleeps that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    /// A signal ends it.
    Interruptible,
    /// It looks again and again instead.
    Never,
}

/// Blocks until `attempt` returns something, at most for this time. Returns `None` when the time is over. `attempt`
/// waits as its argument says.
///
/// # Errors
/// `EINTR`.
pub(super) fn wait<T>(
    sleep: Sleep,
    timeout: Option<Duration>,
    mut attempt: impl FnMut(Until<'_>) -> Option<T>,
) -> Result<Option<T>, Errno> {
    let deadline = Deadline::after(timeout);
    loop {
        let is_over = deadline.left() == Some(Duration::ZERO);
        if is_over || sleep == Sleep::Never {
            let outcome = attempt(Until::Time(Duration::ZERO));
            if outcome.is_some() || is_over {
                return Ok(outcome);
            }
            core::hint::spin_loop();
            continue;
        }
        let outcome = interruptible(|poll| {
            attempt(Until::Interrupted(&|fds, sleep| {
                let left = deadline.left().and_then(|left| Timespec::try_from(left).ok());
                let shorter = sleep.copied().into_iter().chain(left).min();
                let ready = poll(fds, shorter.as_ref())?;
                let is_over = ready == 0 && deadline.left() == Some(Duration::ZERO);
                if is_over { Err(Errno::INTR) } else { Ok(ready) }
            }))
        });
        match outcome {
            Ok(Some(value)) => return Ok(Some(value)),
            Err(errno) if deadline.left() != Some(Duration::ZERO) => return Err(errno),
            Ok(None) | Err(_) => {}
        }
    }
}

/// Blocks until an operation has ended, at most for this time.
///
/// # Errors
/// `EINTR`; `EAGAIN` when the time is over. The operation goes on, and is in `under_way`.
pub(super) fn finish<T>(under_way: &mut Option<Op<T>>, timeout: Option<Duration>) -> Result<T, Errno> {
    let ended = wait(Sleep::Interruptible, timeout, |until| match under_way.take()?.wait_until(until) {
        Ok(outcome) => Some(outcome),
        Err(op) => {
            *under_way = Some(op);
            None
        }
    });
    ended?.ok_or(Errno::AGAIN)
}

/// When a wait is over; never, if there is no such time.
struct Deadline(Option<Instant>);

#[expect(clippy::disallowed_methods, reason = "programs wait in real time")]
impl Deadline {
    fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    fn left(&self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }
}
