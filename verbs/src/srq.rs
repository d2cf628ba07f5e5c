//! The shared receive queue: the application posts, and all queue pairs of one engine that were made with it consume.
//!
//! A message takes the oldest request when its first segment comes, and the queue pair keeps a copy of it until the
//! message has ended. The engine is the only consumer, so that its own fields need no lock. Requests may end in another
//! order than they were taken in. So places are counted, and the poll of a completion frees one of them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use crate::entry::BadEntry;
use crate::recv_queue::{RecvRing, RecvWork};
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};
use crate::work::{PostError, RecvWr};

/// A receive queue for any number of queue pairs.
#[derive(Debug)]
pub struct SharedRecvQueue {
    /// The ring to post to. A thread that posts holds the lock, and a change of size replaces the ring.
    posting: Mutex<Arc<SharedRing>>,
    /// An event is due when fewer requests than this are left; 0 asks for none.
    limit: AtomicU32,
    events: AtomicU8,
    /// Whether there are waiters, so that posting looks for them only then.
    is_awaited: AtomicBool,
    waiters: Mutex<Waiters>,
    /// Places that were freed so far, mostly by polls of completions.
    freed: AtomicU64,
}

/// The ring of a shared receive queue, and how far the engine has come in it.
#[derive(Debug)]
pub(crate) struct SharedRing {
    ring: RecvRing,
    taken: AtomicU64,
}

/// Queue pairs whose messages wait for a request, the one that has waited for the longest time first.
#[derive(Debug, Default)]
struct Waiters {
    by_ticket: BTreeMap<u64, u32>,
    last: u64,
}

/// What has happened to a shared receive queue since the last call of [`SharedRecvQueue::take_events`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqEvents {
    /// Fewer requests are left than the limit says.
    pub limit_reached: bool,
    /// An entry of the ring made no sense.
    pub damaged: bool,
}

/// More requests are posted than the new size could hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSmall;

impl SharedRecvQueue {
    /// Makes a queue for at least `entries` requests of up to `max_sge` elements, with a limit of `limit` requests (0:
    /// none).
    pub fn new(entries: u32, max_sge: usize, limit: u32) -> Self {
        Self {
            posting: Mutex::new(Arc::new(SharedRing::new(entries, max_sge))),
            limit: AtomicU32::new(limit),
            events: AtomicU8::new(0),
            is_awaited: AtomicBool::new(false),
            waiters: Mutex::default(),
            freed: AtomicU64::new(0),
        }
    }

    /// Queues a request. Returns the number of the queue pair whose doorbell is to be rung, if one waits for the
    /// request.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post(&self, wr: &RecvWr<'_>) -> Result<Option<u32>, PostError> {
        let current = self.lock();
        let freed = self.freed.load(Ordering::Acquire);
        current.ring.push_all(core::slice::from_ref(wr), freed).map_err(|(_none, error)| error)?;
        drop(current);
        // The counterpart is in `wait`.
        fence(Ordering::SeqCst);
        Ok(if self.is_awaited.load(Ordering::SeqCst) { self.next_waiter() } else { None })
    }

    /// Asks for one event as soon as a message leaves fewer than `limit` requests, or finds none. 0 asks for none.
    pub fn arm(&self, limit: u32) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the limit, 0 when no event is asked for or the event has come.
    pub fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Makes room for at least `entries` requests. The engine must stand still meanwhile, and every queue pair has to
    /// [follow](crate::QueuePair::follow_srq) before the engine goes on.
    ///
    /// # Errors
    /// [`TooSmall`]; nothing has changed then.
    pub fn resize(&self, entries: u32) -> Result<(), TooSmall> {
        let mut current = self.lock();
        let waiting = current.waiting();
        if waiting.end - waiting.start > u64::from(entries) {
            return Err(TooSmall);
        }
        let fresh = SharedRing::new(entries, current.ring.max_sge());
        fresh.taken.store(waiting.start, Ordering::Relaxed);
        fresh.ring.take_over(&current.ring, waiting);
        *current = Arc::new(fresh);
        Ok(())
    }

    /// Returns the number of requests that fit.
    pub fn capacity(&self) -> u64 {
        self.lock().ring.capacity()
    }

    /// Returns the elements that a request can have.
    pub fn max_sge(&self) -> usize {
        self.lock().ring.max_sge()
    }

    /// Returns the number of requests that no message has taken yet.
    pub fn waiting(&self) -> u64 {
        let waiting = self.lock().waiting();
        waiting.end - waiting.start
    }

    /// Returns what has happened since the last call. Only the engine calls it.
    pub fn take_events(&self) -> SrqEvents {
        if self.events.load(Ordering::Relaxed) == 0 {
            return SrqEvents::default();
        }
        let events = self.events.swap(0, Ordering::Relaxed);
        SrqEvents { limit_reached: events & LIMIT_REACHED != 0, damaged: events & DAMAGED != 0 }
    }

    /// Returns the queue pair to have its turn next, if one waits and a request is there. The engine calls it after the
    /// turn of each queue pair: a queue pair whose doorbell was rung may have ended instead, or found its request
    /// taken.
    pub fn next_to_wake(&self) -> Option<u32> {
        if !self.is_awaited.load(Ordering::SeqCst) || self.waiting() == 0 {
            return None;
        }
        self.next_waiter()
    }

    /// Takes the oldest request for a message; `None` when there is none.
    pub(crate) fn take(&self, ring: &SharedRing, work: &mut RecvWork) -> Option<Result<(), BadEntry>> {
        let waiting = ring.waiting();
        if waiting.is_empty() {
            self.note_left(0);
            return None;
        }
        let loaded = ring.ring.load(waiting.start, work);
        if loaded.is_err() {
            self.note(DAMAGED);
        }
        ring.taken.store(waiting.start + 1, Ordering::Release);
        self.note_left(waiting.end - waiting.start - 1);
        Some(loaded)
    }

    /// Returns whether there is no request for a message. Then the queue pair waits for one behind those that waited
    /// before; `ticket` is its place there.
    pub(crate) fn wait(&self, ring: &SharedRing, number: u32, ticket: &mut u64) -> bool {
        if !ring.waiting().is_empty() {
            return false;
        }
        {
            let mut waiters = self.waiters();
            if !waiters.by_ticket.contains_key(ticket) {
                waiters.last += 1;
                *ticket = waiters.last;
                waiters.by_ticket.insert(*ticket, number);
            }
            self.is_awaited.store(true, Ordering::SeqCst);
        }
        self.note_left(0);
        // The counterpart of the one in `post`: either the poster sees the waiter, or the waiter sees the request.
        fence(Ordering::SeqCst);
        let is_empty = ring.waiting().is_empty();
        if !is_empty {
            self.leave(*ticket);
        }
        is_empty
    }

    /// Frees so many places: the completions of their requests were polled, or will never be polled.
    pub(crate) fn release(&self, places: u64) {
        self.freed.fetch_add(places, Ordering::Release);
    }

    /// Forgets that the queue pair with this ticket waits.
    pub(crate) fn leave(&self, ticket: u64) {
        let mut waiters = self.waiters();
        waiters.by_ticket.remove(&ticket);
        self.is_awaited.store(!waiters.by_ticket.is_empty(), Ordering::SeqCst);
    }

    /// Returns the present ring.
    pub(crate) fn ring(&self) -> Arc<SharedRing> {
        Arc::clone(&self.lock())
    }

    fn next_waiter(&self) -> Option<u32> {
        let mut waiters = self.waiters();
        let (_, number) = waiters.by_ticket.pop_first()?;
        self.is_awaited.store(!waiters.by_ticket.is_empty(), Ordering::SeqCst);
        Some(number)
    }

    fn note_left(&self, left: u64) {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit != 0 && left < u64::from(limit) {
            self.limit.store(0, Ordering::Relaxed);
            self.note(LIMIT_REACHED);
        }
    }

    fn note(&self, event: u8) {
        self.events.fetch_or(event, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Arc<SharedRing>> {
        self.posting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedRing {
    fn new(entries: u32, max_sge: usize) -> Self {
        Self { ring: RecvRing::new(entries, max_sge), taken: AtomicU64::new(0) }
    }

    /// Returns the numbers of the requests to take.
    fn waiting(&self) -> core::ops::Range<u64> {
        // In this order: a request that was taken was posted before.
        self.taken.load(Ordering::Acquire)..self.ring.posted()
    }
}

const LIMIT_REACHED: u8 = 0x01;
const DAMAGED: u8 = 0x02;

#[cfg(test)]
mod tests {
    use super::*;

    fn post(queue: &SharedRecvQueue, wr_id: u64) -> Result<Option<u32>, PostError> {
        queue.post(&RecvWr { wr_id, sges: &[] })
    }

    /// Takes a request, and frees its place.
    fn take(queue: &SharedRecvQueue) -> Option<u64> {
        let mut work = RecvWork::new();
        queue.take(&queue.ring(), &mut work).map(|loaded| {
            assert_eq!(loaded, Ok(()));
            queue.release(1);
            work.wr_id
        })
    }

    const NOTHING: SrqEvents = SrqEvents { limit_reached: false, damaged: false };
    const LIMIT: SrqEvents = SrqEvents { limit_reached: true, ..NOTHING };

    #[test]
    fn the_oldest_request_is_taken_and_its_place_is_free_again() {
        let queue = SharedRecvQueue::new(2, 1, 0);
        assert_eq!(take(&queue), None);
        for round in 0..5 {
            assert_eq!([post(&queue, round), post(&queue, 10 + round)], [Ok(None); 2]);
            assert_eq!(post(&queue, 99), Err(PostError::QueueFull));
            assert_eq!(take(&queue), Some(round));
            assert_eq!((post(&queue, 20 + round), queue.waiting()), (Ok(None), 2));
            assert_eq!(
                [take(&queue), take(&queue), take(&queue)],
                [Some(10 + round), Some(20 + round), None]
            );
        }
    }

    #[test]
    fn the_limit_makes_one_event_when_it_is_passed() {
        let queue = SharedRecvQueue::new(8, 1, 2);
        (0..4).for_each(|wr_id| assert_eq!(post(&queue, wr_id), Ok(None)));
        take(&queue);
        take(&queue);
        assert_eq!(
            (queue.take_events(), queue.limit()),
            (NOTHING, 2),
            "two are left, which is not below two"
        );
        take(&queue);
        assert_eq!((queue.take_events(), queue.limit()), (LIMIT, 0));
        take(&queue);
        assert_eq!(queue.take_events(), NOTHING, "it was not asked for again");
        queue.arm(1);
        assert_eq!(queue.take_events(), NOTHING, "asking alone makes none");
        assert_eq!((take(&queue), queue.take_events()), (None, LIMIT));
    }

    #[test]
    fn another_size_keeps_what_is_posted() {
        let queue = SharedRecvQueue::new(4, 3, 0);
        (0..4).for_each(|wr_id| assert_eq!(post(&queue, wr_id), Ok(None)));
        take(&queue);
        assert_eq!(queue.resize(2), Err(TooSmall));
        assert_eq!((queue.capacity(), queue.waiting()), (4, 3));
        assert_eq!(queue.resize(16), Ok(()));
        (10..23).for_each(|wr_id| assert_eq!(post(&queue, wr_id), Ok(None)));
        assert_eq!(post(&queue, 99), Err(PostError::QueueFull));
        assert_eq!((queue.capacity(), queue.max_sge()), (16, 3));
        let taken: Vec<_> = core::iter::from_fn(|| take(&queue)).collect();
        assert_eq!(taken, [1, 2, 3].into_iter().chain(10..23).collect::<Vec<_>>());
        assert_eq!((queue.resize(1), queue.capacity()), (Ok(()), 1));
    }

    #[test]
    fn the_queue_pair_that_has_waited_longest_is_woken_first() {
        let queue = SharedRecvQueue::new(8, 1, 0);
        let ring = queue.ring();
        let mut tickets = [0; 3];
        for (number, ticket) in (2..).zip(&mut tickets) {
            assert!(queue.wait(&ring, number, ticket));
            assert!(queue.wait(&ring, number, ticket), "asking twice keeps the place");
        }
        assert_eq!(queue.next_to_wake(), None, "nothing is posted");
        queue.leave(tickets[1]);
        assert_eq!([post(&queue, 1), post(&queue, 2), post(&queue, 3)], [Ok(Some(2)), Ok(Some(4)), Ok(None)]);
        assert!(!queue.wait(&ring, 2, &mut tickets[0]), "there are requests");
        (0..3).for_each(|_| assert!(take(&queue).is_some()));
        assert!(queue.wait(&ring, 2, &mut tickets[0]));
        assert!(queue.wait(&ring, 4, &mut tickets[2]));
        assert_eq!(post(&queue, 4), Ok(Some(2)));
        assert_eq!(queue.next_to_wake(), Some(4), "should the first one not take it");
        assert_eq!(queue.next_to_wake(), None);
    }

    #[test]
    fn an_entry_without_sense_is_told() {
        let queue = SharedRecvQueue::new(2, 1, 0);
        post(&queue, 5).unwrap();
        queue.ring().ring.spoil(0);
        let mut work = RecvWork::new();
        assert_eq!(queue.take(&queue.ring(), &mut work), Some(Err(BadEntry)));
        assert_eq!((work.wr_id, queue.take_events()), (5, SrqEvents { damaged: true, ..NOTHING }));
    }
}
