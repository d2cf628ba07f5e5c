//! A socket, as its context has it: a link behind a lock.

use core::task::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::agenda::Agenda;
use crate::error::Error;
use crate::in_place::Recycle;
use crate::link::{Ended, Link};
use crate::pending::Post;

/// What closes a socket when nobody has it any more.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) Arc<Endpoint>);

/// A socket, as the context has it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) id: u64,
    agenda: Arc<Agenda>,
    link: Mutex<Link>,
    told: Mutex<Told>,
}

/// What has ended of a socket, in order.
#[derive(Debug, Default)]
struct Told {
    ended: VecDeque<Arc<dyn Post>>,
    /// A thread makes the events of these.
    is_telling: bool,
}

/// A thread that makes events.
struct Telling<'a>(&'a Endpoint);

/// A call that waits for a socket.
pub(crate) trait Wanted: Send + Sync {
    /// Stores the outcome, and returns whom to wake.
    ///
    /// # Errors
    /// Nobody waits any more. The socket comes back.
    fn deliver(&self, outcome: Result<Arc<Handle>, Error>) -> Result<Option<Waker>, Arc<Handle>>;
}

impl Endpoint {
    pub(crate) fn new(id: u64, agenda: &Arc<Agenda>, mut link: Link) -> Arc<Self> {
        Arc::new_cyclic(|endpoint| {
            let recycles: Weak<Self> = Weak::clone(endpoint);
            link.recycles_to(recycles);
            Self { id, agenda: Arc::clone(agenda), link: Mutex::new(link), told: Mutex::default() }
        })
    }

    /// Lets `act` change the link at a time, and does what follows from that.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Link, Duration) -> R) -> R {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.agenda.now();
        link.tell(now);
        let outcome = act(&mut link, now);
        link.perform(now);
        link.tell_ready();
        let (next, is_over) = (link.next_time(now), link.is_over());
        let mut told = self.told();
        let mut wakers = Vec::new();
        told.ended.extend(link.take_ended().map(|Ended { waker, outcome }| {
            wakers.extend(waker);
            outcome
        }));
        drop(told);
        // After the unlock, another thread could have noted a later time already.
        self.agenda.schedule(self.id, next.filter(|_| !is_over));
        drop(link);
        if is_over {
            self.agenda.finish(self.id);
        }
        wakers.into_iter().for_each(Waker::wake);
        self.tell();
        outcome
    }

    /// Asks the link for something that changes nothing.
    pub(crate) fn ask<R>(&self, question: impl FnOnce(&Link) -> R) -> R {
        question(&self.link.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the events of what has ended, without the lock of the link. Another thread that does so makes all of them.
    fn tell(&self) {
        let mut told = self.told();
        if told.ended.is_empty() || core::mem::replace(&mut told.is_telling, true) {
            return;
        }
        drop(told);
        let telling = Telling(self);
        while let Some(ended) = telling.next() {
            // Memory that nobody wants any more is freed here.
            ended.post();
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cancel(&self, op: Option<weft_exs_core::Op>) -> usize {
        self.with(|link, _| link.cancel(op))
    }
}

impl Telling<'_> {
    /// Takes what is next. After the last one it may be another thread's turn.
    fn next(&self) -> Option<Arc<dyn Post>> {
        let mut told = self.0.told();
        let next = told.ended.pop_front();
        told.is_telling = next.is_some();
        next
    }
}

impl Drop for Telling<'_> {
    /// What a user has given may have panicked.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.told().is_telling = false;
        }
    }
}

impl Recycle for Endpoint {
    fn recycle(&self, slot: u16) {
        self.with(|link, _| link.recycle(slot));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.with(|link, now| link.close(now, None));
    }
}
