//! Queues of events, for callers without futures.

use core::fmt;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use weft_rnic::Until;

use crate::context::Context;
use crate::error::Error;
use crate::service::Service;
use crate::waiting::{Manner, Waiting};

/// A queue of events of the caller's type. An operation makes one there when it ends ([`Op::on`](crate::Op::on)).
/// Clones are handles to the same queue.
///
/// Its descriptor is readable exactly while an event waits.
pub struct Queue<E> {
    shared: Arc<Shared<E>>,
    service: Arc<Service>,
}

/// A place for an event of a queue. Dropping it gives it back.
pub struct Place<E>(Option<Arc<Shared<E>>>);

struct Shared<E> {
    depth: usize,
    state: Mutex<State<E>>,
    fd: OwnedFd,
    manner: Manner,
}

struct State<E> {
    events: VecDeque<E>,
    /// Places that were given out.
    reserved: usize,
    /// Threads that wait, with the number of events that each waits for.
    waiters: Vec<(usize, Waker)>,
}

impl Context {
    /// Makes a queue for `depth` events, 1 to 2^20. Each operation under way counts as one.
    ///
    /// # Errors
    /// [`Error::InvalidOption`], or [`Error::System`] when the system has no descriptor left.
    pub fn queue<E>(&self, depth: usize) -> Result<Queue<E>, Error> {
        if !(1..=MAX_DEPTH).contains(&depth) {
            return Err(Error::InvalidOption("depth"));
        }
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let state = State { events: VecDeque::new(), reserved: 0, waiters: Vec::new() };
        let shared = Arc::new(Shared { depth, state: Mutex::new(state), fd, manner: Manner::new() });
        Ok(Queue { shared, service: Arc::clone(self.service()) })
    }
}

impl<E> Queue<E> {
    /// Reserves a place for an event.
    ///
    /// # Errors
    /// [`Error::Full`]: as many events and places are there as the queue has.
    pub fn reserve(&self) -> Result<Place<E>, Error> {
        let mut state = self.shared.state();
        if state.reserved + state.events.len() >= self.shared.depth {
            return Err(Error::Full);
        }
        state.reserved += 1;
        drop(state);
        Ok(Place(Some(Arc::clone(&self.shared))))
    }

    /// Returns the next event, if there is one. It does not wait.
    pub fn next(&self) -> Option<E> {
        let mut state = self.shared.state();
        let event = state.events.pop_front()?;
        if state.events.is_empty() {
            self.shared.clear();
        }
        Some(event)
    }

    /// Blocks until `at_least` events are there, or the time is over, and moves those that are there to the end of
    /// `out`, `at_most` of them. Returns how many.
    ///
    /// With more than the queue has room for it would wait for ever: it waits for a full queue then.
    pub fn wait(
        &self,
        at_least: usize,
        at_most: usize,
        timeout: Option<Duration>,
        out: &mut Vec<E>,
    ) -> usize {
        self.wait_until(at_least, at_most, Until::timeout(timeout), out)
    }

    /// As [`Self::wait`], until a time, or a signal.
    pub fn wait_until(&self, at_least: usize, at_most: usize, until: Until<'_>, out: &mut Vec<E>) -> usize {
        let wanted = at_least.min(at_most).min(self.shared.depth);
        let is_there = |waker: &Waker| {
            let mut state = self.shared.state();
            let is_there = state.events.len() >= wanted;
            state.waiters.retain(|(_, other)| !other.will_wake(waker));
            if !is_there {
                state.waiters.push((wanted, waker.clone()));
            }
            is_there.then_some(())
        };
        self.service.wait(self.shared.manner.get(), until, is_there);
        let mut state = self.shared.state();
        let taken = at_most.min(state.events.len());
        out.extend(state.events.drain(..taken));
        if taken > 0 && state.events.is_empty() {
            self.shared.clear();
        }
        taken
    }

    /// Changes how threads wait for events of this queue. At first it is [`Waiting::Adaptive`].
    pub fn set_waiting(&self, waiting: Waiting) {
        self.shared.manner.set(waiting);
    }

    /// Returns how threads wait for events of this queue.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        self.shared.manner.get()
    }

    /// Returns how many events wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.state().events.len()
    }

    /// Returns whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<E> Place<E> {
    /// Puts an event there.
    pub fn post(mut self, event: E) {
        if let Some(shared) = self.0.take() {
            shared.post(event);
        }
    }
}

impl<E> Shared<E> {
    /// Puts an event in a place that was reserved.
    fn post(&self, event: E) {
        let mut state = self.state();
        state.reserved = state.reserved.saturating_sub(1);
        if state.events.is_empty() {
            // An eventfd refuses only when its counter is at the top. Then it is readable already.
            let _readable = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
        }
        state.events.push_back(event);
        let there = state.events.len();
        let met = state.waiters.extract_if(.., |(wanted, _)| *wanted <= there);
        let met: Vec<_> = met.collect();
        // A thread that wakes takes the lock at once.
        drop(state);
        met.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Makes the descriptor not readable.
    fn clear(&self) {
        // It fails only if it is not readable, which is what is wanted.
        let _cleared = rustix::io::read(&self.fd, &mut [0; 8]);
    }

    fn state(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> Drop for Place<E> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            let mut state = shared.state();
            state.reserved = state.reserved.saturating_sub(1);
        }
    }
}

impl<E> Clone for Queue<E> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), service: Arc::clone(&self.service) }
    }
}

impl<E> AsFd for Queue<E> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.fd.as_fd()
    }
}

impl<E> fmt::Debug for Queue<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("depth", &self.shared.depth)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<E> fmt::Debug for Place<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Place")
    }
}

/// The most events of a queue.
const MAX_DEPTH: usize = 1 << 20;
