//! A socket, as its context has it: a link behind a lock.

use core::task::Waker;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::agenda::Agenda;
use crate::error::Error;
use crate::in_place::Recycle;
use crate::link::Link;

/// What closes a socket when nobody has it any more.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) Arc<Endpoint>);

/// A socket, as the context has it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) id: u64,
    agenda: Arc<Agenda>,
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
    pub(crate) fn new(id: u64, agenda: &Arc<Agenda>, mut link: Link) -> Arc<Self> {
        Arc::new_cyclic(|endpoint| {
            let recycles: Weak<Self> = Weak::clone(endpoint);
            link.recycles_to(recycles);
            Self { id, agenda: Arc::clone(agenda), link: Mutex::new(link) }
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
        let (next, is_over, ended) = (link.next_time(), link.is_over(), link.take_ended());
        // After the unlock, another thread could have noted a later time already.
        self.agenda.schedule(self.id, next.filter(|_| !is_over));
        drop(link);
        if is_over {
            self.agenda.finish(self.id);
        }
        // Memory that nobody wants any more is freed here, without the lock.
        for ended in ended {
            ended.waker.into_iter().for_each(Waker::wake);
        }
        outcome
    }

    pub(crate) fn cancel(&self, op: Option<weft_exs_core::Op>) -> usize {
        self.with(|link, _| link.cancel(op))
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
