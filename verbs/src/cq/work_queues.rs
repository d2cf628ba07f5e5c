//! The work queues that complete to a completion queue. A poll frees the places of the requests whose completions it
//! takes, as mlx5 and cxgb4 do: so requests that are not polled never are more than the work queues hold.

use std::sync::Arc;

use crate::completion::{PackedCompletion, join, split};
use crate::queues::QpQueues;
use crate::ring::{Ring, WORD};
use crate::srq::SharedRecvQueue;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A work queue whose requests complete to a completion queue.
#[derive(Debug)]
pub(crate) enum WorkQueue {
    /// The send queue of a queue pair.
    Send(Arc<QpQueues>),
    /// The receive queue of a queue pair.
    Recv(Arc<QpQueues>),
    /// A shared receive queue, as one queue pair uses it, and how many of that queue pair's completions were polled.
    Shared(Arc<SharedRecvQueue>, u64),
    /// Polls free nothing, since the engine does.
    Abandoned,
    /// The queue pair is destroyed, so that no poll returns its completions.
    Destroyed,
}

/// Says what the poll of a completion frees: the places of all requests before `end` in the work queue `number`. Of a
/// shared receive queue it is one place, and `end` counts the completions that the queue pair has made with it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frees {
    pub(crate) number: u32,
    pub(crate) end: u64,
}

impl Frees {
    /// Returns the places before `end` of the work queue `number`; nothing without a number.
    #[inline(always)]
    pub(crate) fn of(number: Option<u32>, end: u64) -> Self {
        Self { number: number.unwrap_or(u32::MAX), end }
    }

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
    /// Work queues of destroyed queue pairs, of which completions may be in the ring.
    destroyed: Vec<u32>,
    /// Numbers to be used again.
    unused: Vec<u32>,
}

impl WorkQueues {
    /// Gives the work queue a number.
    pub(super) fn attach(&mut self, queue: WorkQueue) -> u32 {
        if let Some(number) = self.unused.pop()
            && let Some(place) = self.by_number.get_mut(number as usize)
        {
            *place = queue;
            return number;
        }
        self.by_number.push(queue);
        u32::try_from(self.by_number.len() - 1).unwrap_or(u32::MAX)
    }

    /// Takes the number of a work queue back whose last completion frees `last`. A shared receive queue lives on, and
    /// gets the places back whose completions no poll will return.
    pub(super) fn detach(&mut self, last: Frees, ring: &Ring) {
        let Some(queue) = self.by_number.get_mut(last.number as usize) else { return };
        if let WorkQueue::Shared(queue, polled) = queue {
            queue.release(last.end.saturating_sub(*polled));
        }
        *queue = WorkQueue::Destroyed;
        self.destroyed.push(last.number);
        if ring.head() == ring.tail() {
            self.compact(ring);
        }
    }

    /// Has polls free no place of this work queue any more. Of a shared receive queue they go on: its places are
    /// counted.
    pub(super) fn abandon(&mut self, number: u32) {
        if let Some(queue) = self.by_number.get_mut(number as usize)
            && !matches!(queue, WorkQueue::Shared(..))
        {
            *queue = WorkQueue::Abandoned;
        }
    }

    #[inline]
    pub(super) fn free(&mut self, run: &Run) {
        if run.len == 0 {
            return;
        }
        match self.by_number.get_mut(run.last.number as usize) {
            Some(WorkQueue::Send(queues)) => queues.send.release(run.last.end),
            Some(WorkQueue::Recv(queues)) => queues.recv.release(run.last.end),
            Some(WorkQueue::Shared(queue, polled)) => {
                *polled = run.last.end;
                queue.release(run.len);
            }
            Some(WorkQueue::Abandoned | WorkQueue::Destroyed) | None => {}
        }
    }

    /// Drops what destroyed queue pairs have left in the ring. The other completions move up to its tail, in their
    /// order: the tail counts what was made.
    #[inline]
    pub(super) fn drop_destroyed(&mut self, ring: &Ring) {
        if !self.destroyed.is_empty() {
            self.compact(ring);
        }
    }

    #[cold]
    fn compact(&mut self, ring: &Ring) {
        let (first, end) = (ring.head(), ring.tail());
        let mut next = end;
        for index in (first..end).rev() {
            let entry = ring.entry(index);
            let number = Frees::load(entry).number as usize;
            if matches!(self.by_number.get(number), Some(WorkQueue::Destroyed)) {
                continue;
            }
            next -= 1;
            if next != index {
                for (to, from) in ring.entry(next).iter().zip(entry) {
                    to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                }
            }
        }
        ring.release(next);
        self.unused.append(&mut self.destroyed);
    }
}

/// Words of an entry behind those of the completion.
const NUMBER: usize = 6;
const END: usize = 7;
const _: () = assert!(NUMBER >= PackedCompletion::WORDS && END < PackedCompletion::OCTETS / WORD);
