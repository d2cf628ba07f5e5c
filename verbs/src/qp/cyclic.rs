//! Cyclic queues: all entries are posted for ever.
//!
//! The request in an entry is posted again the moment it is done, with what stands in the entry then. So a queue whose
//! entries a peer rewrites needs no program for the next lap. The memory is fixed, and nothing is counted that did not
//! count before. WAITs count relative to what their queue has used, so that one that comes again is right as it is.

use super::QueuePair;
use crate::entry::{Operation, peek};

/// Why a queue cannot be made cyclic. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleError {
    /// Not every entry holds a request that is posted and not done.
    NotFull,
    /// No entry of the send queue is a WAIT, so that nothing would ever hold it back.
    NoWait,
    /// Its completions go to a queue that has to be polled.
    Polled,
    /// The receives come from a shared receive queue.
    SharedQueue,
    /// The queue pair behaves as InfiniBand's.
    AsInfiniband,
}

impl core::fmt::Display for CycleError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NotFull => "the queue is not full: post as many requests as it holds first",
            Self::NoWait => "no request of the queue is a WAIT: nothing would hold it back",
            Self::Polled => "the completion queue has to be polled: make it with ignore_overrun",
            Self::SharedQueue => "the queue pair takes its receives from a shared receive queue",
            Self::AsInfiniband => "the queue pair behaves as one of InfiniBand",
        })
    }
}

impl core::error::Error for CycleError {}

impl QueuePair {
    /// Makes the send queue cyclic: from now on each request is posted again as soon as it is done. When the stream ends
    /// every entry is flushed once, and the queue is as others are.
    ///
    /// # Errors
    /// [`CycleError`].
    pub fn cycle_sends(&mut self) -> Result<(), CycleError> {
        self.check_cycle(self.send_number.is_some())?;
        if self.next_wait() == self.sends_posted() {
            return Err(CycleError::NoWait);
        }
        if self.queues.send.cycle() { Ok(()) } else { Err(CycleError::NotFull) }
    }

    /// Makes the own receive queue cyclic: from now on each receive is posted again as soon as it is done.
    ///
    /// # Errors
    /// [`CycleError`].
    pub fn cycle_recvs(&mut self) -> Result<(), CycleError> {
        if self.queues.has_srq {
            return Err(CycleError::SharedQueue);
        }
        self.check_cycle(self.receiving.number.is_some())?;
        if self.queues.recv.cycle() { Ok(()) } else { Err(CycleError::NotFull) }
    }

    /// Returns whether there is more to start since the last call, of which no doorbell tells. The engine calls it after
    /// each turn, and rings then.
    #[inline]
    pub fn take_goes_on(&mut self) -> bool {
        core::mem::take(&mut self.goes_on)
    }

    /// Returns the number of the first WAIT that is not done; without one, that of the request which is posted next.
    pub(super) fn next_wait(&self) -> u64 {
        let is_wait = |index: &u64| peek(self.queues.send.entry(*index)).operation == Some(Operation::Wait);
        let end = self.sends_posted();
        (self.started..end).find(is_wait).unwrap_or(end)
    }

    fn check_cycle(&self, is_polled: bool) -> Result<(), CycleError> {
        if self.queues.as_infiniband() {
            return Err(CycleError::AsInfiniband);
        }
        if is_polled { Err(CycleError::Polled) } else { Ok(()) }
    }
}
