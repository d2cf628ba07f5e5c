//! What the socket and the user share of an operation: its outcome, or whom to tell of it.

use core::fmt;
use core::task::Waker;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_exs_core::Outcome;

use crate::error::Error;
use crate::in_place::Received;

/// What the socket and the user share of an operation.
pub(crate) struct Pending<T> {
    state: Mutex<State<T>>,
    /// The outcome of a transfer that does not end, with the user's memory. Nobody reaches it before the end.
    loan: Mutex<Option<T>>,
}

enum State<T> {
    /// It is under way. The waker is that of the task or the thread that waits for it.
    UnderWay(Option<Waker>),
    /// It is under way, and ends as an event.
    Queued(Box<dyn FnOnce(T) + Send>),
    /// It has ended, and the event is to be made.
    Due(Box<dyn FnOnce(T) + Send>, T),
    Done(T),
    /// The user has the outcome.
    Taken,
}

/// An outcome that may end as an event.
pub(crate) trait Post: Send + Sync {
    /// Makes the event of an outcome that is there, if it ends so. The caller holds no lock: this calls what the user
    /// has given.
    fn post(&self);
}

/// How a transfer is told its end.
pub(crate) trait Settle: Post {
    /// Gives the memory back to the user with the result, and returns whom to wake. The caller wakes, and calls
    /// [`Post::post`], when it holds no lock.
    fn end(&self, result: Result<Received, Error>) -> Option<Waker>;
}

impl<T: Send> Post for Pending<T> {
    fn post(&self) {
        let mut state = self.state();
        match core::mem::replace(&mut *state, State::Taken) {
            State::Due(post, outcome) => {
                drop(state);
                post(outcome);
            }
            before => *state = before,
        }
    }
}

impl<M: Send> Settle for Pending<(Result<Outcome, Error>, M)> {
    fn end(&self, result: Result<Received, Error>) -> Option<Waker> {
        let (_, memory) = self.take_loan()?;
        self.settle((result.map(|received| received.outcome), memory))
    }
}

impl<M: Send> Settle for Pending<(Result<Received, Error>, M)> {
    fn end(&self, result: Result<Received, Error>) -> Option<Waker> {
        let (_, memory) = self.take_loan()?;
        self.settle((result, memory))
    }
}

impl<T> Pending<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::UnderWay(None)), loan: Mutex::new(None) })
    }

    /// Makes a transfer, whose memory is in `loan`.
    pub(crate) fn lent(loan: T) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::UnderWay(None)), loan: Mutex::new(Some(loan)) })
    }

    /// Makes an operation that has ended already.
    pub(crate) fn ended(outcome: T) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::Done(outcome)), loan: Mutex::new(None) })
    }

    /// Stores the outcome, and returns whom to wake. The caller wakes, and calls [`Post::post`], when it holds no lock.
    pub(crate) fn settle(&self, outcome: T) -> Option<Waker> {
        let mut state = self.state();
        match core::mem::replace(&mut *state, State::Taken) {
            State::UnderWay(waker) => {
                *state = State::Done(outcome);
                waker
            }
            State::Queued(post) => {
                *state = State::Due(post, outcome);
                None
            }
            before @ (State::Due(..) | State::Done(_) | State::Taken) => {
                *state = before;
                None
            }
        }
    }

    /// Takes the outcome; before there is one, leaves a waker.
    pub(crate) fn take(&self, waker: &Waker) -> Option<T> {
        let mut state = self.state();
        match core::mem::replace(&mut *state, State::Taken) {
            State::Done(outcome) => Some(outcome),
            State::UnderWay(_) => {
                *state = State::UnderWay(Some(waker.clone()));
                None
            }
            before => {
                *state = before;
                None
            }
        }
    }

    /// Hands the outcome to `post`: at once if it is there, or when it comes.
    pub(crate) fn hand_to(&self, post: impl FnOnce(T) + Send + 'static) {
        let mut state = self.state();
        if let State::Done(outcome) = core::mem::replace(&mut *state, State::Taken) {
            drop(state);
            post(outcome);
        } else {
            *state = State::Queued(Box::new(post));
        }
    }

    /// Returns whether the outcome is there, and nobody has taken it.
    pub(crate) fn is_done(&self) -> bool {
        matches!(*self.state(), State::Done(_))
    }

    pub(crate) fn take_loan(&self) -> Option<T> {
        self.loan.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

impl fmt::Debug for dyn Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Post")
    }
}

impl fmt::Debug for dyn Settle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Settle")
    }
}
