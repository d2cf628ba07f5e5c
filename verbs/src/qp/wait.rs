//! WAIT: the send queue stops until a completion queue has seen enough.

use std::sync::Arc;

use weft_rdmap::Token;

use super::QueuePair;
use crate::{BadEntry, CompletionQueue};

/// What a send queue has used of completion queues, and which one it waits for.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Numbers of completion queues, and completions that WAITs of this send queue have used up.
    used: Vec<(u32, u64)>,
    waiting: Option<Arc<CompletionQueue>>,
}

impl QueuePair {
    /// Carries out the WAIT at hand: `true` when it is done, `false` when the completions it needs have not been made.
    pub(super) fn wait(&mut self, cq: u32, count: u32) -> Result<bool, BadEntry> {
        let queue = match &self.waits.waiting {
            Some(queue) => Arc::clone(queue),
            None => self.cq_table.find(cq, self.pd).ok_or(BadEntry)?,
        };
        let place = self.waits.used.iter().position(|&(number, _)| number == cq).unwrap_or_else(|| {
            if self.waits.used.len() >= MANY {
                // The numbers of queues that are gone do not come back.
                self.waits.used.retain(|&(number, _)| self.cq_table.contains(number));
            }
            self.waits.used.push((cq, 0));
            self.waits.used.len() - 1
        });
        let used = &mut self.waits.used[place].1;
        let needed = used.saturating_add(u64::from(count));
        if queue.produced() < needed {
            if self.waits.waiting.is_none() {
                queue.await_completions(self.queues.number, needed);
                self.waits.waiting = Some(queue);
            }
            return Ok(false);
        }
        *used = needed;
        self.end_wait();
        self.finish(Token(self.started));
        Ok(true)
    }

    /// No completion queue needs to call any more.
    pub(super) fn end_wait(&mut self) {
        if let Some(queue) = self.waits.waiting.take() {
            queue.forget(self.queues.number);
        }
    }
}

/// So many numbers are kept before those of queues that are gone are looked for.
const MANY: usize = 32;
