//! WAIT: the send queue stops until a completion queue has made enough completions.

use std::sync::Arc;

use crate::cq::CompletionQueue;
use crate::cq_table::CqTable;

/// The completions that a send queue has used, and the completion queue for which it waits.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Numbers of completion queues, and completions that WAITs of this send queue have used up.
    used: Vec<(u32, u64)>,
    waiting: Option<Arc<CompletionQueue>>,
}

impl Waits {
    /// Uses `count` completions of `queue` that no earlier WAIT has used. If `queue` has not made them, it tells queue
    /// pair `qp_num` when it has. With `strict` all completions up to the last of them have to be good.
    pub(super) fn take(
        &mut self,
        queue: &Arc<CompletionQueue>,
        (count, strict): (u32, bool),
        qp_num: u32,
        table: &CqTable,
    ) -> Taken {
        let place = self.used.iter().position(|&(number, _)| number == queue.number()).unwrap_or_else(|| {
            if self.used.len() >= MANY {
                // The numbers of queues that are gone are not used again.
                self.used.retain(|&(number, _)| table.contains(number));
            }
            self.used.push((queue.number(), 0));
            self.used.len() - 1
        });
        let used = &mut self.used[place].1;
        let needed = used.saturating_add(u64::from(count));
        let is_made = queue.produced() >= needed;
        if strict && needed > queue.good() {
            return Taken::Failed;
        }
        if !is_made {
            if self.waiting.is_none() {
                queue.await_completions(qp_num, needed, strict);
                self.waiting = Some(Arc::clone(queue));
            }
            return Taken::NotYet;
        }
        *used = needed;
        self.end(qp_num);
        Taken::Done
    }

    /// Has no completion queue tell queue pair `qp_num` any more.
    pub(super) fn end(&mut self, qp_num: u32) {
        if let Some(queue) = self.waiting.take() {
            queue.forget(qp_num);
        }
    }

    /// Returns the completion queue for which the WAIT in progress waits.
    pub(super) fn waiting(&self) -> Option<Arc<CompletionQueue>> {
        self.waiting.clone()
    }
}

/// What a WAIT has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Done,
    NotYet,
    /// It is strict, and one of its completions has failed.
    Failed,
}

/// With so many numbers, those of queues that are gone are removed.
const MANY: usize = 32;
