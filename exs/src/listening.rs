//! A listener, as its context has it: sockets that wait for calls, or calls that wait for sockets.

use core::fmt;
use core::task::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_exs_core::Kind;

use crate::endpoint::{Handle, Wanted};
use crate::error::Error;
use crate::options::Options;

/// A listener, as the context has it.
pub(crate) struct Listening {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) options: Options,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Connections that are not established yet.
    starting: usize,
    /// Sockets that nobody has accepted.
    ready: VecDeque<Arc<Handle>>,
    /// Calls that want one. Some may have been dropped.
    waiting: VecDeque<Box<dyn Wanted>>,
}

impl Listening {
    pub(crate) fn new(id: u64, kind: Kind, options: Options) -> Self {
        Self { id, kind, options, state: Mutex::default() }
    }

    /// Reserves a place for a connection. Returns whether there was one.
    pub(crate) fn admit(&self) -> bool {
        let mut state = self.state();
        let has_room = state.starting + state.ready.len() < self.options.backlog;
        state.starting += usize::from(has_room);
        has_room
    }

    /// Gives the place of a connection back that was not established.
    pub(crate) fn fail(&self) {
        let mut state = self.state();
        state.starting = state.starting.saturating_sub(1);
    }

    /// Takes an established connection. Returns whom to wake.
    pub(crate) fn establish(&self, mut handle: Arc<Handle>) -> Option<Waker> {
        self.fail();
        loop {
            let mut state = self.state();
            let Some(wanted) = state.waiting.pop_front() else {
                state.ready.push_back(handle);
                return None;
            };
            drop(state);
            match wanted.deliver(Ok(handle)) {
                Ok(waker) => return waker,
                Err(back) => handle = back,
            }
        }
    }

    /// Takes a socket that nobody has accepted. Without one, `wanted` gets the next.
    pub(crate) fn take(&self, wanted: impl FnOnce() -> Box<dyn Wanted>) -> Option<Arc<Handle>> {
        let mut state = self.state();
        let ready = state.ready.pop_front();
        if ready.is_none() {
            state.waiting.push_back(wanted());
        }
        ready
    }

    /// Closes the sockets that nobody has accepted, and ends the calls that wait for one.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        let (ready, waiting) = (core::mem::take(&mut state.ready), core::mem::take(&mut state.waiting));
        drop(state);
        drop(ready);
        for wanted in waiting {
            if let Ok(Some(waker)) = wanted.deliver(Err(Error::Canceled)) {
                waker.wake();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").field("id", &self.id).finish_non_exhaustive()
    }
}
