//! Queues of events, for callers without futures.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use weft_exs_core::Outcome;

use crate::buf::Buf;
use crate::context::Context;
use crate::error::Error;
use crate::service::Service;

/// A queue of events. An operation goes there by [`Op::on`](crate::Op::on). Clones are handles to the same queue.
///
/// Its descriptor is readable exactly while an event waits.
#[derive(Clone, Debug)]
pub struct Queue {
    shared: Arc<Shared>,
    service: Arc<Service>,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Event {
    /// The handle that [`Op::on`](crate::Op::on) was given.
    pub handle: u64,
    /// How it has ended.
    pub result: Result<Outcome, Error>,
    /// Its memory.
    pub buf: Buf,
}

#[derive(Debug)]
struct Shared {
    depth: usize,
    state: Mutex<State>,
    fd: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    /// Operations under way that end here.
    reserved: usize,
    /// Threads that wait, with the number of events that each waits for.
    waiters: Vec<(usize, Waker)>,
}

impl Context {
    /// Makes a queue for `depth` events, 1 to 2^20. Each operation under way counts as one.
    ///
    /// # Errors
    /// [`Error::InvalidOption`], or [`Error::System`] when the system has no descriptor left.
    pub fn queue(&self, depth: usize) -> Result<Queue, Error> {
        if !(1..=MAX_DEPTH).contains(&depth) {
            return Err(Error::InvalidOption("depth"));
        }
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(Shared { depth, state: Mutex::default(), fd });
        Ok(Queue { shared, service: Arc::clone(self.service()) })
    }
}

impl Queue {
    /// Returns the next event, if there is one. It does not wait.
    pub fn next(&self) -> Option<Event> {
        let mut out = Vec::new();
        self.take(1, &mut out);
        out.pop()
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
        out: &mut Vec<Event>,
    ) -> usize {
        let wanted = at_least.min(at_most).min(self.shared.depth);
        let is_there = |waker: &Waker| {
            let mut state = self.state();
            let is_there = state.events.len() >= wanted;
            state.waiters.retain(|(_, other)| !other.will_wake(waker));
            if !is_there {
                state.waiters.push((wanted, waker.clone()));
            }
            is_there.then_some(())
        };
        self.service.wait(timeout, is_there);
        self.take(at_most, out)
    }

    /// Reserves an event. Returns whether there was room.
    pub(crate) fn reserve(&self) -> bool {
        let mut state = self.state();
        let has_room = state.reserved + state.events.len() < self.shared.depth;
        state.reserved += usize::from(has_room);
        has_room
    }

    /// Puts an event in the place that was reserved for it.
    pub(crate) fn post(&self, event: Event) {
        let mut state = self.state();
        state.reserved = state.reserved.saturating_sub(1);
        if state.events.is_empty() {
            // An eventfd refuses only when its counter is at the top. Then it is readable already.
            let _readable = rustix::io::write(&self.shared.fd, &1_u64.to_ne_bytes());
        }
        state.events.push_back(event);
        let there = state.events.len();
        let met: Vec<(usize, Waker)> = state.waiters.extract_if(.., |(wanted, _)| *wanted <= there).collect();
        drop(state);
        met.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn take(&self, at_most: usize, out: &mut Vec<Event>) -> usize {
        let mut state = self.state();
        let taken = at_most.min(state.events.len());
        out.extend(state.events.drain(..taken));
        if taken > 0 && state.events.is_empty() {
            let mut count = [0; 8];
            // It fails only if it is not readable, which is what is wanted.
            let _cleared = rustix::io::read(&self.shared.fd, &mut count);
        }
        taken
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.fd.as_fd()
    }
}

/// The most events of a queue.
const MAX_DEPTH: usize = 1 << 20;
