//! The completion queue.

mod moderation;
mod rings;
mod waiters;
mod work_queues;

use std::sync::PoisonError;

use self::moderation::Moderation;
use self::rings::Rings;
use self::waiters::{Waiter, Waiters};
pub(crate) use self::work_queues::{Frees, WorkQueue};
use self::work_queues::{Run, WorkQueues};
use crate::completion::{Completion, PackedCompletion, Status};
use crate::counters::CqCounters;
use crate::ring::{Counter, Ring};
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};

/// A ring of completions: one engine produces, the application polls.
#[derive(Debug)]
pub struct CompletionQueue {
    number: u32,
    rings: Rings,
    /// Held by the thread that polls.
    polling: Mutex<WorkQueues>,
    ignores_overrun: bool,
    overrun: AtomicBool,
    /// A queue pair was destroyed since the queue was full; only the engine uses it.
    has_destroyed: AtomicBool,
    /// What was pushed since the last [`CompletionQueue::take_event`]; only the engine uses it.
    pushed: AtomicU8,
    /// Events that were due; only the engine writes it.
    events: AtomicU64,
    moderation: Moderation,
    waiters: Waiters,
    /// The number of completions before the first one that failed or was lost; only the engine writes it.
    good: AtomicU64,
}

/// What the engine does about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CqNotice {
    /// Nothing.
    None,
    /// The event is due now, and was taken.
    Due,
    /// The event waits for more completions, and at most until this time of the engine (in microseconds), if there is
    /// one.
    Held(Option<u64>),
}

impl CompletionQueue {
    /// Makes a queue for at least `entries` completions, [`MAX_CQ_ENTRIES`] at most, with the number 0.
    pub fn new(entries: u32) -> Self {
        Self::numbered(0, entries, false)
    }

    /// Makes a queue with a number, by which the WAIT entries of send queues name it.
    ///
    /// With `ignores_overrun` it never is in error. Completions that are not polled in time are overwritten, oldest
    /// first, and polls return those that are still there.
    pub fn numbered(number: u32, entries: u32, ignores_overrun: bool) -> Self {
        Self {
            number,
            rings: Rings::new(entries),
            polling: Mutex::default(),
            ignores_overrun,
            overrun: AtomicBool::new(false),
            has_destroyed: AtomicBool::new(false),
            pushed: AtomicU8::new(0),
            events: AtomicU64::new(0),
            moderation: Moderation::default(),
            waiters: Waiters::default(),
            good: AtomicU64::new(u64::MAX),
        }
    }

    /// Takes up to `out.len()` completions, oldest first, and returns how many there were. This frees the places of
    /// their requests in the work queues. Completions of destroyed queue pairs are left out.
    #[inline]
    pub fn poll(&self, out: &mut [Completion]) -> usize {
        // The common case of an empty queue costs a few loads and no lock.
        let ring = self.rings.current();
        if ring.head() == ring.tail() {
            ring.count(Counter::PollsEmpty);
            return 0;
        }
        self.poll_found(out)
    }

    /// Goes on where [`Self::poll`] has seen a completion, which another thread may have taken meanwhile.
    fn poll_found(&self, out: &mut [Completion]) -> usize {
        let mut work_queues = self.polling();
        let ring = self.rings.current();
        work_queues.drop_destroyed(ring);
        let taken =
            if self.ignores_overrun { take_left(ring, out) } else { take(ring, &mut work_queues, out) };
        ring.count(if taken > 0 { Counter::PollsFound } else { Counter::PollsEmpty });
        taken
    }

    /// Asks for one event at the next completion, or with `solicited_only` at the next solicited or failed one.
    /// Requests for both count as a request for any completion.
    ///
    /// Completions that are in the queue already make no event: arm, then poll once more, as with `ibv_req_notify_cq`.
    pub fn request_notification(&self, solicited_only: bool) {
        let wanted = if solicited_only { ARMED_SOLICITED } else { ARMED_ANY };
        self.rings.with_current(|ring| {
            ring.arm().fetch_or(u64::from(wanted), Ordering::SeqCst);
        });
        fence(Ordering::SeqCst);
    }

    /// Gives the queue room for at least `entries` completions. None is lost and their order stays; threads may poll
    /// meanwhile, but the engine may not push. Memory of a larger ring is kept for the next time.
    ///
    /// # Errors
    /// [`ResizeError`]; nothing has changed then.
    pub fn resize(&self, entries: u32) -> Result<(), ResizeError> {
        if entries > MAX_CQ_ENTRIES {
            return Err(ResizeError::TooLarge);
        }
        let mut work_queues = self.polling();
        let ring = self.rings.current();
        work_queues.drop_destroyed(ring);
        let first = ring.head().max(ring.tail().saturating_sub(ring.entries()));
        if ring.tail() - first > rings::rounded(entries) {
            return Err(ResizeError::InUse);
        }
        self.rings.exchange(entries, first);
        Ok(())
    }

    /// Has an event wait for `count` completions since the last one, or for `period` microseconds of the engine's time
    /// since the first of them, if that comes first. A count of 0 or a period of 0 means that it does not matter. If
    /// both are 0, or the count is 1, no event waits. [`Self::take_event`] looks at a held event anew.
    pub fn set_moderation(&self, count: u32, period: u64) {
        self.moderation.set(count, period);
    }

    /// Has polls free the places of a work queue that completes to this queue, and returns the number by which
    /// [`Frees`] names it. Returns `None` for a queue that need not be polled: then the engine frees a place when its
    /// request completes.
    pub(crate) fn attach(&self, queue: WorkQueue) -> Option<u32> {
        (!self.ignores_overrun).then(|| self.polling().attach(queue))
    }

    /// Ends what [`Self::attach`] began: the queue pair is destroyed, and no poll returns its completions any more.
    /// `last` is what the last one of them frees.
    pub(crate) fn detach(&self, last: Frees) {
        self.has_destroyed.store(true, Ordering::Relaxed);
        self.polling().detach(last, self.rings.current());
    }

    /// Has the engine alone free the places of this work queue from now on, since a completion of it was lost: the poll
    /// of an older one would take places back. Both never write at the same time, since polls hold the lock.
    pub(crate) fn abandon(&self, number: u32) {
        self.polling().abandon(number);
    }

    /// Adds a completion, whose poll frees `frees`. Returns `false` when the completion is lost.
    ///
    /// A full queue is overrun, unless it ignores overruns. It takes no more completions then, and the caller of
    /// [`Self::is_overrun`] has to end its queue pairs.
    #[inline(always)]
    pub(crate) fn push(&self, completion: &Completion, frees: Frees) -> bool {
        let ring = self.rings.current();
        let tail = ring.tail();
        if self.ignores_overrun {
            write_over(ring.entry(tail), tail + 1, &PackedCompletion::from(completion));
        } else if self.is_overrun() || tail.saturating_sub(ring.head()) >= ring.entries() && !self.make_room()
        {
            self.end_good(tail);
            self.overrun.store(true, Ordering::Release);
            return false;
        } else {
            PackedCompletion::from(completion).store(ring.entry(tail));
            frees.store(ring.entry(tail));
        }
        let is_failed = completion.status != Status::Success;
        if is_failed {
            self.end_good(tail);
        }
        ring.publish(tail + 1);
        let urgent = completion.solicited || is_failed;
        let pushed = if urgent { ARMED_ANY | ARMED_SOLICITED } else { ARMED_ANY };
        self.pushed.store(self.pushed.load(Ordering::Relaxed) | pushed, Ordering::Relaxed);
        true
    }

    /// Returns whether a notification has become due since the last call. The engine calls it after each burst of
    /// completions, and when a held notification has waited for long enough.
    pub fn take_event(&self, now: u64) -> CqNotice {
        let pushed = self.pushed.load(Ordering::Relaxed);
        if pushed == 0 {
            return CqNotice::None;
        }
        // Without this fence the load of the arm word could come before the stores of `push`, and a consumer that arms
        // and then polls once more could miss both the completion and the event.
        fence(Ordering::SeqCst);
        let ring = self.rings.current();
        let due = ring.arm().load(Ordering::Acquire) & u64::from(pushed) != 0;
        if due && let Some(until) = self.moderation.hold(ring.tail(), now) {
            return CqNotice::Held(until);
        }
        self.pushed.store(0, Ordering::Relaxed);
        self.moderation.settle(ring.tail());
        if !due {
            return CqNotice::None;
        }
        ring.arm().store(0, Ordering::Release);
        self.events.store(self.events.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        CqNotice::Due
    }

    /// Returns whether [`Self::take_event`] has something to look at. Only the engine calls it.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.pushed.load(Ordering::Relaxed) != 0
    }

    /// Has [`Self::take_ready`] report queue pair `qp_num` as soon as this queue has made `needed` completions since
    /// its creation; with `strict` also when one of them cannot be good any more. A queue pair waits for one queue at a
    /// time.
    pub fn await_completions(&self, qp_num: u32, needed: u64, strict: bool) {
        self.waiters.add(Waiter { qp_num, needed, strict });
    }

    /// Forgets that queue pair `qp_num` waits.
    pub fn forget(&self, qp_num: u32) {
        self.waiters.remove(qp_num);
    }

    /// Hands each queue pair to `ready` whose wait is over, once. The engine calls it after each burst of
    /// completions.
    #[inline]
    pub fn take_ready(&self, ready: impl FnMut(u32)) {
        if !self.waiters.is_empty() {
            self.waiters.take_ready(self.produced(), self.good(), ready);
        }
    }

    /// Returns the number of completions made since the queue was created, polled or not, and overwritten or not.
    pub fn produced(&self) -> u64 {
        self.rings.current().tail()
    }

    /// Returns how many completions were made before the first one that failed or was lost; without such a one the
    /// largest number there is. Read it behind [`Self::produced`].
    pub fn good(&self) -> u64 {
        self.good.load(Ordering::Acquire)
    }

    /// Returns whether a completion was lost because the application did not poll in time.
    #[inline]
    pub fn is_overrun(&self) -> bool {
        self.overrun.load(Ordering::Acquire)
    }

    /// Returns whether it holds no completion, not even of a destroyed queue pair.
    pub fn is_empty(&self) -> bool {
        let ring = self.rings.current();
        ring.head() == ring.tail()
    }

    /// Returns the number of completions that it holds. Those of destroyed queue pairs may be among them.
    pub fn len(&self) -> u64 {
        let ring = self.rings.current();
        ring.tail().saturating_sub(ring.head()).min(ring.entries())
    }

    /// Returns whether a notification was asked for and is not due yet: `Some(true)` if only for a solicited or failed
    /// completion.
    pub fn armed(&self) -> Option<bool> {
        let arm = self.rings.current().arm().load(Ordering::Relaxed);
        (arm != 0).then_some(arm & u64::from(ARMED_ANY) == 0)
    }

    /// Returns what it has done so far.
    pub fn counters(&self) -> CqCounters {
        CqCounters {
            completions: self.produced(),
            polls_found: self.rings.counted(Counter::PollsFound),
            polls_empty: self.rings.counted(Counter::PollsEmpty),
            events: self.events.load(Ordering::Relaxed),
            overruns: u64::from(self.is_overrun()),
        }
    }

    /// Returns the number of completions it holds at most.
    pub fn capacity(&self) -> u64 {
        self.rings.current().entries()
    }

    /// Returns the number by which WAIT entries name it.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Notes that only the completions before number `end` are good, unless there was a failure before.
    #[cold]
    fn end_good(&self, end: u64) {
        if self.good() > end {
            self.good.store(end, Ordering::Release);
        }
    }

    /// Drops what destroyed queue pairs have left in a full queue, and returns whether there is room now.
    #[cold]
    fn make_room(&self) -> bool {
        if !self.has_destroyed.load(Ordering::Relaxed) {
            return false;
        }
        self.has_destroyed.store(false, Ordering::Relaxed);
        let ring = self.rings.current();
        self.polling().drop_destroyed(ring);
        ring.tail().saturating_sub(ring.head()) < ring.entries()
    }

    fn polling(&self) -> MutexGuard<'_, WorkQueues> {
        self.polling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a completion over an older one. No poll sees a part of it with the number of the older one.
#[inline(never)]
fn write_over(entry: &[AtomicU64], number: u64, packed: &PackedCompletion) {
    entry[SEQUENCE].store(0, Ordering::Relaxed);
    fence(Ordering::Release);
    packed.store(entry);
    entry[SEQUENCE].store(number, Ordering::Release);
}

/// Takes the oldest completions of a ring where none is written over.
fn take(ring: &Ring, work_queues: &mut WorkQueues, out: &mut [Completion]) -> usize {
    let first = ring.head();
    let taken =
        usize::try_from(ring.tail().saturating_sub(first)).map_or(out.len(), |there| there.min(out.len()));
    let mut run = Run::default();
    for (completion, next) in out[..taken].iter_mut().zip(first..) {
        let entry = ring.entry(next);
        *completion = PackedCompletion::load(entry).unpack();
        let frees = Frees::load(entry);
        if !run.add(frees) {
            free(ring, next, work_queues, &run);
            run = Run::of(frees);
        }
    }
    free(ring, first + taken as u64, work_queues, &run);
    taken
}

/// Frees the places of the completions before `head`. Their room in the ring comes first: a request that is posted to a
/// freed place must find room for its completion.
fn free(ring: &Ring, head: u64, work_queues: &mut WorkQueues, run: &Run) {
    ring.release(head);
    work_queues.free(run);
}

/// Takes the oldest completions that are left of a ring whose producer writes over them.
fn take_left(ring: &Ring, out: &mut [Completion]) -> usize {
    let mut next = ring.head();
    let mut taken = 0;
    while taken < out.len() && next != ring.tail() {
        next = next.max(ring.tail().saturating_sub(ring.entries()));
        if let Some(packed) = read(ring, next) {
            out[taken] = packed.unpack();
            taken += 1;
        }
        next += 1;
    }
    ring.release(next);
    taken
}

/// Copies an entry out, unless another one has been written over it.
fn read(ring: &Ring, index: u64) -> Option<PackedCompletion> {
    let words = ring.entry(index);
    let is_there = || words[SEQUENCE].load(Ordering::Acquire) == index + 1;
    if !is_there() {
        return None;
    }
    let packed = PackedCompletion::load(words);
    fence(Ordering::Acquire);
    is_there().then_some(packed)
}

/// Why a completion queue cannot be resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeError {
    /// More than [`MAX_CQ_ENTRIES`].
    TooLarge,
    /// More completions are in it.
    InUse,
}

impl core::fmt::Display for ResizeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "a completion queue has at most 2^22 entries",
            Self::InUse => "more completions are in the queue: poll them first",
        })
    }
}

impl core::error::Error for ResizeError {}

/// Completions of the largest queue.
pub const MAX_CQ_ENTRIES: u32 = 1 << 22;
const ARMED_SOLICITED: u8 = 0x01;
const ARMED_ANY: u8 = 0x02;
/// The word of an entry that holds its number plus one, where it can be written over.
const SEQUENCE: usize = 6;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(test)]
mod tests;
