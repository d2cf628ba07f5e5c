//! A socket, as its context has it: a link behind a lock.

use core::task::Waker;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::agenda::Agenda;
use crate::error::Error;
use crate::link::Link;

/// What closes a socket when nobody has it any more.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) agenda: Arc<Agenda>,
}

/// A socket, as the context has it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) id: u64,
    link: Mutex<Link>,
}

/// A call that waits for a socket.
pub(crate) trait Wanted: Send + Sync {
    /// Stores the outcome, and returns whom to wake.
    ///
    /// # Errors
    /// Nobody waits any more. The socket comes back.
    fn deliver(&self, outcome: Result<Arc<Handle>, Error>) -> Result<Option<Waker>, Arc<Handle>>;
}

impl Endpoint {
    pub(crate) const fn new(id: u64, link: Link) -> Self {
        Self { id, link: Mutex::new(link) }
    }

    /// Lets `act` change the link at a time, and does what follows from that.
    pub(crate) fn with<R>(&self, agenda: &Agenda, act: impl FnOnce(&mut Link, Duration) -> R) -> R {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let now = agenda.now();
        link.tell(now);
        let outcome = act(&mut link, now);
        link.perform(now);
        let (next, is_over, wakers) = (link.next_time(), link.is_over(), link.take_wakers());
        // After the unlock, another thread could have noted a later time already.
        agenda.schedule(self.id, next.filter(|_| !is_over));
        drop(link);
        if is_over {
            agenda.finish(self.id);
        }
        wakers.into_iter().for_each(|waker| waker.wake());
        outcome
    }

    pub(crate) fn cancel(&self, agenda: &Agenda, op: Option<weft_exs_core::Op>) -> usize {
        self.with(agenda, |link, _| link.cancel(op))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.endpoint.with(&self.agenda, |link, now| link.close(now, None));
    }
}
