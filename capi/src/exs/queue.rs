//! Queues of events.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use weft_exs::{Context, Op, Waiting};

use super::event::Event;
use super::wait::{Sleep, wait};

/// A queue of events.
#[derive(Debug)]
pub(crate) struct Queue {
    queue: weft_exs::Queue<Event>,
    depth: usize,
    /// Operations under way that end here.
    under_way: AtomicUsize,
}

/// The place of an event that is to come. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    place: weft_exs::Place<Event>,
    count: Count,
}

/// Counts an operation of a queue as long as it lives.
#[derive(Debug)]
struct Count(Arc<Queue>);

/// An attribute of a queue: `EXS_QATTR_...`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attribute {
    Depth,
    Events,
    Wait,
}

impl Queue {
    /// # Errors
    /// `EINVAL` for a depth that no queue has; `ENOMEM` when the system has no descriptor left.
    pub(crate) fn new(context: &Context, depth: i32) -> Result<Arc<Self>, Errno> {
        let depth = usize::try_from(depth).map_err(|_| Errno::INVAL)?;
        let queue = context.queue(depth).map_err(|error| error.errno())?;
        Ok(Arc::new(Self { queue, depth, under_way: AtomicUsize::new(0) }))
    }

    /// Reserves the place of an event.
    ///
    /// # Errors
    /// `EAGAIN` if there is none.
    pub(crate) fn reserve(self: &Arc<Self>) -> Result<Place, Errno> {
        let place = self.queue.reserve().map_err(|error| error.errno())?;
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Ok(Place { place, count: Count(Arc::clone(self)) })
    }

    /// Blocks until `at_least` events are there, or the time is over, and takes at most `at_most` of those that are
    /// there.
    ///
    /// # Errors
    /// `EINTR`, if there were none.
    pub(crate) fn take(
        &self,
        at_least: usize,
        at_most: usize,
        timeout: Option<Duration>,
    ) -> Result<Vec<Event>, Errno> {
        let mut events = Vec::new();
        let at_least = at_least.min(self.depth);
        let sleep = match self.queue.waiting() {
            Waiting::BusyPoll => Sleep::Never,
            _ => Sleep::Interruptible,
        };
        let waited = wait(sleep, timeout, |until| {
            let there = events.len();
            self.queue.wait_until(
                at_least.saturating_sub(there),
                at_most.saturating_sub(there),
                until,
                &mut events,
            );
            (events.len() >= at_least).then_some(())
        });
        match waited {
            Err(errno) if events.is_empty() => Err(errno),
            _ => Ok(events),
        }
    }

    /// Returns the value of an attribute.
    pub(crate) fn status(&self, attribute: Attribute) -> i32 {
        let value = match attribute {
            Attribute::Depth => self.depth,
            Attribute::Events => self.queue.len(),
            Attribute::Wait => {
                let waiting = self.queue.waiting();
                WAITS.iter().position(|one| *one == waiting).unwrap_or_default()
            }
        };
        i32::try_from(value).unwrap_or(i32::MAX)
    }

    /// # Errors
    /// `EINVAL` for a value that the attribute cannot have; `EOPNOTSUPP` for one that does not change.
    pub(crate) fn modify(&self, attribute: Attribute, value: i32) -> Result<(), Errno> {
        match attribute {
            Attribute::Wait => {
                let value = usize::try_from(value).map_err(|_| Errno::INVAL)?;
                self.queue.set_waiting(*WAITS.get(value).ok_or(Errno::INVAL)?);
                Ok(())
            }
            Attribute::Events => Err(Errno::INVAL),
            Attribute::Depth if usize::try_from(value) == Ok(self.depth) => Ok(()),
            Attribute::Depth => Err(Errno::OPNOTSUPP),
        }
    }

    /// Returns whether operations are under way that end here.
    pub(crate) fn is_busy(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// Returns the descriptor, for C.
    pub(crate) fn descriptor(&self) -> i32 {
        self.queue.as_fd().as_raw_fd()
    }
}

impl Place {
    /// Puts the event there.
    pub(crate) fn post(self, event: Event) {
        drop(self.count);
        self.place.post(event);
    }

    /// Has an operation end as an event there.
    pub(crate) fn follow<T: Send + 'static>(
        self,
        op: Op<T>,
        event: impl FnOnce(T) -> Event + Send + 'static,
    ) {
        let Self { place, count } = self;
        op.on(place, move |outcome| {
            drop(count);
            event(outcome)
        });
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// `EXS_WAIT_ADAPTIVE`, `EXS_WAIT_NOTIFY`, `EXS_WAIT_BUSY_POLL`: 0, 1, 2.
const WAITS: [Waiting; 3] = [Waiting::Adaptive, Waiting::Notify, Waiting::BusyPoll];
