//! The work queues that complete to a completion queue. A poll frees the places of the requests whose completions it takes, as
//! mlx5 and cxgb4 do: so requests that are not polled never are more than the work queues hold.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::completion::{PackedCompletion, join, split};
use crate::queues::QpQueues;
use crate::ring::WORD;
use crate::srq::SharedRecvQueue;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A work queue whose requests complete to a completion queue.
#[derive(Debug)]
pub(crate) enum WorkQueue {
    /// The send queue of a queue pair.
    Send(Arc<QpQueues>),
    /// The receive queue of a queue pair.
    Recv(Arc<QpQueues>),
    /// A shared receive queue, as one queue pair uses it.
    Shared(Arc<SharedRecvQueue>),
    /// Polls free nothing: it was detached, or abandoned.
    Gone,
}

/// Says what the poll of a completion frees: the places of all requests before `end` in the work queue `number`. Of a shared
/// receive queue it is one place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frees {
    pub(crate) number: u32,
    pub(crate) end: u64,
}

impl Frees {
    #[inline]
    pub(super) fn load(entry: &[AtomicU64]) -> Self {
        let [number, end] = [NUMBER, END].map(|word| entry[word].load(Ordering::Relaxed));
        Self { number: split(number).0, end }
    }

    #[inline(always)]
    pub(super) fn store(self, entry: &[AtomicU64]) {
        entry[NUMBER].store(join(self.number, 0), Ordering::Relaxed);
        entry[END].store(self.end, Ordering::Relaxed);
    }
}

/// Completions of one work queue that follow each other. The last one frees the places of all.
#[derive(Debug, Default)]
pub(super) struct Run {
    last: Frees,
    len: u64,
}

impl Run {
    pub(super) const fn of(first: Frees) -> Self {
        Self { last: first, len: 1 }
    }

    /// Adds the next completion. Returns `false` if it is of another work queue.
    #[inline]
    pub(super) const fn add(&mut self, next: Frees) -> bool {
        let fits = self.len == 0 || self.last.number == next.number;
        if fits {
            (self.last, self.len) = (next, self.len + 1);
        }
        fits
    }
}

/// The work queues of one completion queue, by number.
#[derive(Debug, Default)]
pub(super) struct WorkQueues {
    by_number: Vec<WorkQueue>,
    /// Numbers of destroyed queue pairs in the order of their end, with the completions that the queue had made by then. A number
    /// is used again when all these have been polled.
    detached: VecDeque<(u64, u32)>,
}

impl WorkQueues {
    /// Gives the work queue a number, when `polled` completions have been polled so far.
    pub(super) fn attach(&mut self, queue: WorkQueue, polled: u64) -> u32 {
        if let Some(&(_, number)) = self.detached.front().filter(|&&(end, _)| end <= polled)
            && let Some(place) = self.by_number.get_mut(number as usize)
        {
            self.detached.pop_front();
            *place = queue;
            return number;
        }
        self.by_number.push(queue);
        u32::try_from(self.by_number.len() - 1).unwrap_or(u32::MAX)
    }

    /// Takes the work queue's number back, when `produced` completions have been made so far.
    pub(super) fn detach(&mut self, number: u32, produced: u64) {
        let Some(queue) = self.by_number.get_mut(number as usize) else { return };
        // A shared receive queue lives on, and wants the places of what is still to be polled.
        if !matches!(queue, WorkQueue::Shared(_)) {
            *queue = WorkQueue::Gone;
        }
        self.detached.push_back((produced, number));
    }

    /// Has polls free no place of this work queue any more. Of a shared receive queue they go on: its places are counted.
    pub(super) fn abandon(&mut self, number: u32) {
        if let Some(queue) = self.by_number.get_mut(number as usize)
            && !matches!(queue, WorkQueue::Shared(_))
        {
            *queue = WorkQueue::Gone;
        }
    }

    #[inline]
    pub(super) fn free(&self, run: &Run) {
        if run.len == 0 {
            return;
        }
        match self.by_number.get(run.last.number as usize) {
            Some(WorkQueue::Send(queues)) => queues.send.release(run.last.end),
            Some(WorkQueue::Recv(queues)) => queues.recv.release(run.last.end),
            Some(WorkQueue::Shared(queue)) => queue.release(run.len),
            Some(WorkQueue::Gone) | None => {}
        }
    }
}

/// Words of an entry behind those of the completion.
const NUMBER: usize = 6;
const END: usize = 7;
const _: () = assert!(NUMBER >= PackedCompletion::WORDS && END < PackedCompletion::OCTETS / WORD);
