//! An operation under way.

use core::fmt;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use weft_rnic::Until;

use crate::endpoint::Endpoint;
use crate::pending::Pending;
use crate::queue::Place;
use crate::service::Service;

/// An operation under way: a future, which any executor polls, or a value to wait for.
///
/// Dropping it detaches it: the transfer goes on, and its memory is freed behind it.
#[must_use = "a dropped operation goes on, but nobody hears of its end"]
pub struct Op<T> {
    pending: Arc<Pending<T>>,
    service: Arc<Service>,
    canceler: Canceler,
}

/// Cancels an operation, also one that ends as an event.
#[derive(Clone, Debug)]
pub struct Canceler(Option<(Arc<Endpoint>, weft_exs_core::Op)>);

impl<T> Op<T> {
    /// Makes an operation that cannot be canceled.
    pub(crate) const fn new(service: Arc<Service>, pending: Arc<Pending<T>>) -> Self {
        Self { pending, service, canceler: Canceler(None) }
    }

    /// Makes an operation of a socket, which has this name there.
    pub(crate) const fn of_socket(
        service: Arc<Service>,
        pending: Arc<Pending<T>>,
        endpoint: Arc<Endpoint>,
        op: weft_exs_core::Op,
    ) -> Self {
        Self { pending, service, canceler: Canceler(Some((endpoint, op))) }
    }

    /// Makes an operation that has ended already.
    pub(crate) fn ended(service: Arc<Service>, outcome: T) -> Self {
        Self::new(service, Pending::ended(outcome))
    }

    /// Blocks until the operation has ended.
    ///
    /// This thread drives the device meanwhile unless another one does. In a context that is driven by
    /// [`Context::drive`](crate::Context::drive) another thread has to do that.
    pub fn wait(self) -> T {
        let mut op = self;
        loop {
            match op.wait_until(Until::Event) {
                Ok(outcome) => return outcome,
                Err(later) => op = later,
            }
        }
    }

    /// Blocks until the operation has ended, at most for this time.
    ///
    /// # Errors
    /// The operation, which goes on.
    pub fn wait_timeout(self, timeout: Duration) -> Result<T, Self> {
        self.wait_until(Until::Time(timeout))
    }

    /// Blocks until the operation has ended, or until a time, or a signal.
    ///
    /// # Errors
    /// The operation, which goes on.
    pub fn wait_until(self, until: Until<'_>) -> Result<T, Self> {
        let waiting = self.service.manner.get();
        self.service.wait(waiting, until, |waker| self.pending.take(waker)).ok_or(self)
    }

    /// Cancels the operation. Returns whether it has begun to end so: its outcome is the truth, for a receive of a
    /// stream may have met octets meanwhile. A message that the peer knows of cannot be canceled.
    pub fn cancel(&self) -> bool {
        self.canceler.cancel()
    }

    /// Returns what cancels the operation later.
    #[must_use]
    pub fn canceler(&self) -> Canceler {
        self.canceler.clone()
    }

    /// Has the operation end as an event in this place: what `event` makes of its outcome. An operation that has ended
    /// already makes its event at once.
    ///
    /// `event` is called when nothing is locked, and may call anything of the socket. It does not wait for another event
    /// of it: they are made one after the other.
    pub fn on<E: Send + 'static>(self, place: Place<E>, event: impl FnOnce(T) -> E + Send + 'static)
    where
        T: Send + 'static,
    {
        // Nobody else keeps a call that waits for a socket. It keeps itself until it has ended.
        let kept = Arc::clone(&self.pending);
        self.pending.hand_to(move |outcome| {
            place.post(event(outcome));
            drop(kept);
        });
    }
}

impl Canceler {
    /// As [`Op::cancel`].
    #[expect(clippy::must_use_candidate, reason = "the outcome of the operation tells as well")]
    pub fn cancel(&self) -> bool {
        self.0.as_ref().is_some_and(|(socket, op)| socket.cancel(Some(*op)) > 0)
    }
}

impl<T> Future for Op<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<T> {
        self.pending.take(task.waker()).map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> fmt::Debug for Op<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_done = self.pending.is_done();
        f.debug_struct("Op").field("is_done", &is_done).finish_non_exhaustive()
    }
}
