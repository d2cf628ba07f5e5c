//! The receive queue: the application posts, the engine consumes. It is private memory of the process that opened the
//! device, and cannot be registered.
//!
//! An entry, in words of 64 bits: wr_id; the number of SGEs; then each SGE as in the send queue.

use std::sync::PoisonError;

use crate::completion::join;
use crate::entry::{BadEntry, load_sge, load_sges, total};
use crate::ring::{Ring, WORD};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::work::{MAX_SGE, PostError, RecvWr, Sge};

/// The part of a receive queue that the application and the engine share.
#[derive(Debug)]
pub struct RecvQueue {
    ring: RecvRing,
    posting: Mutex<()>,
    is_cyclic: AtomicBool,
}

impl RecvQueue {
    /// Makes a queue for at least `entries` requests of up to `max_sge` elements.
    pub fn new(entries: u32, max_sge: usize) -> Self {
        let (ring, posting) = (RecvRing::new(entries, max_sge), Mutex::new(()));
        Self { ring, posting, is_cyclic: AtomicBool::new(false) }
    }

    /// Queues a request.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post(&self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        self.post_all(core::slice::from_ref(wr)).map_err(|(_none, error)| error)
    }

    /// Queues requests: all of them, or those before the first that is refused.
    ///
    /// # Errors
    /// The number of requests that were queued, and why the next one was not.
    pub fn post_all(&self, wrs: &[RecvWr<'_>]) -> Result<(), (usize, PostError)> {
        let _one_at_a_time = self.posting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_cyclic() && !wrs.is_empty() {
            return Err((0, PostError::Cyclic));
        }
        self.ring.push_all(wrs, self.ring.ring.head())
    }

    /// Copies entry number `index` out into `work`.
    ///
    /// # Errors
    /// [`BadEntry`] when a field makes no sense, as after a stray write of the process itself; `work.wr_id` is set all
    /// the same.
    pub fn load(&self, index: u64, work: &mut RecvWork) -> Result<(), BadEntry> {
        self.ring.load(index, work)
    }

    /// Returns the identifier and the element of entry number `index`, if it has exactly one.
    #[inline]
    pub(crate) fn load_single(&self, index: u64) -> Option<(u64, Sge)> {
        let ([wr_id, sges], body) = self.ring.ring.entry(index).split_first_chunk()?;
        let is_single = sges.load(Ordering::Relaxed) == 1 && self.ring.max_sge > 0;
        is_single.then(|| Some((wr_id.load(Ordering::Relaxed), load_sge(body.first_chunk()?))))?
    }

    /// Returns the number of requests posted so far.
    #[inline]
    pub fn posted(&self) -> u64 {
        self.ring.posted()
    }

    /// Returns the number of requests whose places are not free.
    pub fn len(&self) -> u64 {
        self.ring.ring.tail().saturating_sub(self.ring.ring.head()).min(self.capacity())
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the entries before `index` back for posting. In a cyclic queue they are posted again as they are.
    #[inline]
    pub fn release(&self, index: u64) {
        self.ring.ring.release(index);
        if self.is_cyclic() {
            self.ring.ring.publish(index + self.capacity());
        }
    }

    /// Makes the queue cyclic if all its entries are posted, and returns whether they are. Only the engine calls it, and
    /// only for a queue whose places it frees itself.
    pub(crate) fn cycle(&self) -> bool {
        let _one_at_a_time = self.posting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = self.ring.ring.tail() == self.ring.ring.head() + self.capacity();
        self.is_cyclic.store(is_full, Ordering::Relaxed);
        is_full
    }

    /// Has no entry posted again from now on. Only the engine calls it.
    pub(crate) fn end_cycle(&self) {
        self.is_cyclic.store(false, Ordering::Relaxed);
    }

    /// Returns whether each entry is posted again as soon as its request is done.
    #[inline]
    pub fn is_cyclic(&self) -> bool {
        self.is_cyclic.load(Ordering::Relaxed)
    }

    /// Returns the number of requests that fit.
    pub const fn capacity(&self) -> u64 {
        self.ring.capacity()
    }

    /// Returns the elements that a request can have.
    pub const fn max_sge(&self) -> usize {
        self.ring.max_sge
    }
}

/// The ring of a receive queue. The caller that posts makes sure that no other thread does so at the same time.
#[derive(Debug)]
pub(crate) struct RecvRing {
    ring: Ring,
    max_sge: usize,
}

impl RecvRing {
    pub(crate) fn new(entries: u32, max_sge: usize) -> Self {
        let max_sge = max_sge.min(MAX_SGE);
        Self { ring: Ring::new(entries, (HEADER_WORDS + max_sge * SGE_WORDS) * WORD), max_sge }
    }

    /// Queues requests, when the places of all before `freed` are free again.
    pub(crate) fn push_all(&self, wrs: &[RecvWr<'_>], freed: u64) -> Result<(), (usize, PostError)> {
        let (tail, mut pushed) = (self.ring.tail(), 0);
        let mut room = self.ring.entries().saturating_sub(tail.saturating_sub(freed));
        let refused = wrs.iter().find_map(|wr| {
            let refused = self.refusal(wr).or_else(|| (room == 0).then_some(PostError::QueueFull));
            if refused.is_none() {
                self.write(tail + pushed, wr);
                (room, pushed) = (room - 1, pushed + 1);
            }
            refused
        });
        if pushed > 0 {
            self.ring.publish(tail + pushed);
        }
        refused.map_or(Ok(()), |error| Err((usize::try_from(pushed).unwrap_or(usize::MAX), error)))
    }

    #[inline]
    fn refusal(&self, wr: &RecvWr<'_>) -> Option<PostError> {
        if wr.sges.len() > self.max_sge {
            return Some(PostError::TooManySges);
        }
        if total(wr.sges).is_none() { Some(PostError::TooLong) } else { None }
    }

    #[inline]
    fn write(&self, index: u64, wr: &RecvWr<'_>) {
        let (head, body) = self.ring.entry(index).split_at(HEADER_WORDS);
        head[0].store(wr.wr_id, Ordering::Relaxed);
        head[1].store(wr.sges.len() as u64, Ordering::Relaxed);
        for (words, sge) in body.chunks_exact(SGE_WORDS).zip(wr.sges) {
            words[0].store(sge.addr, Ordering::Relaxed);
            words[1].store(join(sge.lkey.0, sge.length), Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn load(&self, index: u64, work: &mut RecvWork) -> Result<(), BadEntry> {
        let (head, body) = self.ring.entry(index).split_at(HEADER_WORDS);
        work.wr_id = head[0].load(Ordering::Relaxed);
        work.sges.clear();
        let sges = usize::try_from(head[1].load(Ordering::Relaxed)).map_err(|_| BadEntry)?;
        if sges > self.max_sge {
            return Err(BadEntry);
        }
        load_sges(&body[..sges * SGE_WORDS], &mut work.sges);
        work.capacity = total(&work.sges).ok_or(BadEntry)?;
        Ok(())
    }

    pub(crate) fn posted(&self) -> u64 {
        self.ring.tail()
    }

    pub(crate) const fn capacity(&self) -> u64 {
        self.ring.entries()
    }

    pub(crate) const fn max_sge(&self) -> usize {
        self.max_sge
    }

    /// Takes over the requests `waiting` of another ring, with their numbers.
    pub(crate) fn take_over(&self, other: &Self, waiting: core::ops::Range<u64>) {
        let end = waiting.end;
        for index in waiting {
            for (to, from) in self.ring.entry(index).iter().zip(other.ring.entry(index)) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        self.ring.publish(end);
    }

    #[cfg(test)]
    pub(crate) fn spoil(&self, index: u64) {
        self.ring.entry(index)[1].store(99, Ordering::Relaxed);
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
    /// Makes one without room for SGEs; the first entries make it.
    pub fn new() -> Self {
        Self { wr_id: 0, sges: Vec::new(), capacity: 0 }
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
    use weft_ddp::Stag;

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
        queue.ring.spoil(1);
        assert_eq!(queue.load(1, &mut work), Err(BadEntry));
    }

    #[test]
    fn requests_before_the_first_bad_one_are_queued() {
        let queue = RecvQueue::new(4, 1);
        let sge = Sge { addr: 5, length: 6, lkey: Stag(7) };
        let wrs = [1, 2, 3, 4, 5].map(|wr_id| RecvWr { wr_id, sges: &[] });
        let long = RecvWr { wr_id: 9, sges: &[sge, sge] };
        assert_eq!(queue.post_all(&[wrs[0], long, wrs[1]]), Err((1, PostError::TooManySges)));
        assert_eq!(queue.post_all(&[]), Ok(()));
        assert_eq!((queue.posted(), queue.load_single(0)), (1, None));
        assert_eq!(queue.post_all(&wrs[1..]), Err((3, PostError::QueueFull)));
        let mut work = RecvWork::new();
        let loaded = [0, 1, 2, 3].map(|index| queue.load(index, &mut work).map(|()| work.wr_id));
        assert_eq!(loaded, [Ok(1), Ok(2), Ok(3), Ok(4)]);
        queue.release(2);
        assert_eq!(queue.post_all(&[RecvWr { wr_id: 6, sges: &[sge] }]), Ok(()));
        assert_eq!((queue.posted(), queue.load_single(4)), (5, Some((6, sge))));
    }
}
