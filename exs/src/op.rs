//! An operation under way.

use core::fmt;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use weft_exs_core::Outcome;

use crate::buf::Buf;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::pending::Pending;
use crate::queue::{Event, Queue};
use crate::service::Service;

/// An operation under way: a future, which any executor polls, or a value to wait for.
///
/// Dropping it detaches it: the transfer goes on, and its buffer is freed behind it.
#[must_use = "a dropped operation goes on, but nobody hears of its end"]
pub struct Op<T> {
    pending: Arc<Pending<T>>,
    service: Arc<Service>,
    /// The socket and the name of the operation there, if it can be canceled.
    target: Option<(Arc<Endpoint>, weft_exs_core::Op)>,
}

impl<T> Op<T> {
    pub(crate) const fn new(
        service: Arc<Service>,
        pending: Arc<Pending<T>>,
        target: Option<(Arc<Endpoint>, weft_exs_core::Op)>,
    ) -> Self {
        Self { pending, service, target }
    }

    /// Makes an operation that has ended already.
    pub(crate) fn ended(service: Arc<Service>, outcome: T) -> Self {
        Self { pending: Pending::ended(outcome), service, target: None }
    }

    /// Blocks until the operation has ended.
    ///
    /// This thread drives the device meanwhile unless another one does. In a context that is driven by
    /// [`Context::drive`](crate::Context::drive) another thread has to do that.
    pub fn wait(self) -> T {
        loop {
            if let Some(outcome) = self.service.wait(None, |waker| self.pending.take(waker)) {
                return outcome;
            }
        }
    }

    /// Blocks until the operation has ended, at most for this time.
    ///
    /// # Errors
    /// The operation, which goes on.
    pub fn wait_timeout(self, timeout: Duration) -> Result<T, Self> {
        self.service.wait(Some(timeout), |waker| self.pending.take(waker)).ok_or(self)
    }

    /// Cancels the operation. Returns whether it has begun to end so: its outcome is the truth, for a receive of a
    /// stream may have met octets meanwhile. A message that the peer knows of cannot be canceled.
    pub fn cancel(&self) -> bool {
        self.target.as_ref().is_some_and(|(socket, op)| socket.cancel(self.service.agenda(), Some(*op)) > 0)
    }
}

impl Op<(Result<Outcome, Error>, Buf)> {
    /// Has the operation end as an event of this queue, with this handle. An operation that has ended already makes its
    /// event at once.
    ///
    /// # Errors
    /// [`Error::Full`] with the operation: as many events are reserved as the queue has.
    pub fn on(self, queue: &Queue, handle: u64) -> Result<(), (Error, Self)> {
        if !queue.reserve() {
            return Err((Error::Full, self));
        }
        let queue = queue.clone();
        let post = move |(result, buf)| queue.post(Event { handle, result, buf });
        self.pending.hand_to(post);
        Ok(())
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
