//! What a queue pair remembers of its receive requests.

use std::sync::Arc;

use crate::cq::{CompletionQueue, Frees, WorkQueue};
use crate::queues::QpQueues;
use crate::recv_queue::RecvWork;
use crate::srq::{SharedRecvQueue, SharedRing};

/// The receive request that a message is being placed into, and where the next one comes from.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) work: RecvWork,
    pub(crate) active: bool,
    /// Requests that were taken. Of a shared receive queue those are left out whose places the engine has freed.
    pub(crate) next: u64,
    /// Instead of the own receive queue.
    pub(super) shared: Option<Shared>,
    /// A message waits for a request.
    pub(super) waits: bool,
    /// The receive queue's number at its completion queue, whose polls free places; `None` where completing frees them.
    pub(super) number: Option<u32>,
}

/// A shared receive queue as one queue pair uses it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) srq: Arc<SharedRecvQueue>,
    pub(super) ring: Arc<SharedRing>,
    pub(super) ticket: u64,
    /// Nothing is taken from it any more.
    pub(super) is_left: bool,
}

impl Receiving {
    pub(super) fn new(
        srq: Option<Arc<SharedRecvQueue>>,
        queues: &Arc<QpQueues>,
        cq: &CompletionQueue,
    ) -> Self {
        let number = cq.attach(match &srq {
            Some(srq) => WorkQueue::Shared(Arc::clone(srq), 0),
            None => WorkQueue::Recv(Arc::clone(queues)),
        });
        let shared = srq.map(|srq| Shared { ring: srq.ring(), srq, ticket: 0, is_left: false });
        Self { work: RecvWork::new(), active: false, next: 0, shared, waits: false, number }
    }

    /// Has polls leave its completions out: the queue pair is destroyed.
    pub(super) fn leave(&mut self, cq: &CompletionQueue) {
        if let Some(number) = self.number.take() {
            cq.detach(Frees { number, end: self.next - u64::from(self.active) });
        }
    }

    /// Gives a request back that was taken and not completed: it makes no completion, since the queue pair is no more.
    pub(super) fn end(&self) {
        if let Some(shared) = self.shared.as_ref().filter(|_| self.active) {
            shared.srq.release(1);
        }
    }
}
