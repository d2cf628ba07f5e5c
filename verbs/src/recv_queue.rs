//! The receive queue: posted by the application, consumed by the engine.
//!
//! An entry, in words of 64 bits: wr_id; the number of SGEs; then each SGE as in the send queue.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use weft_ddp::Stag;

use crate::completion::{join, split};
use crate::ring::WORD;
use crate::send_queue::{BadEntry, total};
use crate::work::MAX_SGE;
use crate::{PostError, RecvWr, Ring, Sge};

/// The part of a receive queue that the application and the engine share.
#[derive(Debug)]
pub struct RecvQueue {
    ring: Ring,
    posting: Mutex<()>,
    max_sge: usize,
}

impl RecvQueue {
    /// A queue for at least `entries` requests of up to `max_sge` elements.
    pub fn new(entries: u32, max_sge: usize) -> Self {
        let max_sge = max_sge.min(MAX_SGE);
        Self {
            ring: Ring::new(entries, (HEADER_WORDS + max_sge * SGE_WORDS) * WORD),
            posting: Mutex::new(()),
            max_sge,
        }
    }

    /// Queues a request.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post(&self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        if wr.sges.len() > self.max_sge {
            return Err(PostError::TooManySges);
        }
        total(wr.sges).ok_or(PostError::TooLong)?;
        let _one_at_a_time = self.posting.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = self.ring.tail();
        if tail - self.ring.head().min(tail) >= self.ring.entries() {
            return Err(PostError::QueueFull);
        }
        let entry = self.ring.entry(tail);
        entry[0].store(wr.wr_id, Ordering::Relaxed);
        entry[1].store(wr.sges.len() as u64, Ordering::Relaxed);
        for (i, sge) in wr.sges.iter().enumerate() {
            entry[HEADER_WORDS + i * SGE_WORDS].store(sge.addr, Ordering::Relaxed);
            entry[HEADER_WORDS + i * SGE_WORDS + 1].store(join(sge.lkey.0, sge.length), Ordering::Relaxed);
        }
        self.ring.publish(tail + 1);
        Ok(())
    }

    /// Copies entry number `index` out into `work` and validates it.
    ///
    /// # Errors
    /// [`BadEntry`] when it makes no sense; `work.wr_id` is set all the same.
    pub fn load(&self, index: u64, work: &mut RecvWork) -> Result<(), BadEntry> {
        let entry = self.ring.entry(index);
        work.wr_id = entry[0].load(Ordering::Relaxed);
        work.sges.clear();
        let sges = usize::try_from(entry[1].load(Ordering::Relaxed)).map_err(|_| BadEntry)?;
        if sges > self.max_sge {
            return Err(BadEntry);
        }
        for i in 0..sges {
            let (lkey, length) = split(entry[HEADER_WORDS + i * SGE_WORDS + 1].load(Ordering::Relaxed));
            let addr = entry[HEADER_WORDS + i * SGE_WORDS].load(Ordering::Relaxed);
            work.sges.push(Sge { addr, length, lkey: Stag(lkey) });
        }
        work.capacity = total(&work.sges).ok_or(BadEntry)?;
        Ok(())
    }

    /// The number of requests posted so far.
    pub fn posted(&self) -> u64 {
        self.ring.tail()
    }

    /// Gives the entries before `index` back for posting.
    pub fn release(&self, index: u64) {
        self.ring.release(index);
    }

    /// The number of requests that fit.
    pub const fn capacity(&self) -> u64 {
        self.ring.entries()
    }
}

/// One entry of a receive queue as the engine works on it.
#[derive(Clone, Debug)]
pub struct RecvWork {
    /// The request's identifier.
    pub wr_id: u64,
    /// Where the message goes.
    pub sges: Vec<Sge>,
    /// Octets that fit.
    pub capacity: u32,
}

impl RecvWork {
    /// Room for entries of any queue, so that loading one never allocates.
    pub fn new() -> Self {
        Self { wr_id: 0, sges: Vec::with_capacity(MAX_SGE), capacity: 0 }
    }
}

impl Default for RecvWork {
    fn default() -> Self {
        Self::new()
    }
}

const HEADER_WORDS: usize = 2;
const SGE_WORDS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_out_as_they_went_in() {
        let queue = RecvQueue::new(2, 3);
        let sges = [Sge { addr: 5, length: 6, lkey: Stag(7) }; 3];
        queue.post(&RecvWr { wr_id: 1, sges: &sges }).unwrap();
        queue.post(&RecvWr { wr_id: 2, sges: &[] }).unwrap();
        assert_eq!(queue.post(&RecvWr { wr_id: 3, sges: &[] }), Err(PostError::QueueFull));
        assert_eq!(queue.post(&RecvWr { wr_id: 3, sges: &[sges[0]; 4] }), Err(PostError::TooManySges));
        let mut work = RecvWork::new();
        assert_eq!(queue.load(0, &mut work), Ok(()));
        assert_eq!((work.wr_id, work.sges.as_slice(), work.capacity), (1, &sges[..], 18));
        assert_eq!(queue.load(1, &mut work), Ok(()));
        assert_eq!((work.wr_id, work.sges.len(), work.capacity), (2, 0, 0));
        queue.ring.entry(1)[1].store(99, Ordering::Relaxed);
        assert_eq!(queue.load(1, &mut work), Err(BadEntry));
    }
}
