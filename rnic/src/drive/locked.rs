//! An engine behind its lock, and the threads that drive it, wait for it, or sleep for it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use weft_netif::Instant;
use weft_verbs::Doorbells;

use crate::clock::Clock;
use crate::counters::Counters;
use crate::drive::leader::Lead;
use crate::drive::sleeps::Sleeps;
use crate::engine::tables::Engine;
use crate::events::channel::Wakeup;

/// The descriptors of a wire, and whether each is to become writable.
pub(crate) type Watched = Vec<(Arc<OwnedFd>, bool)>;

/// One engine of a device.
#[derive(Debug)]
pub(crate) struct Motor {
    engine: Mutex<Engine>,
    /// Threads that wait for the engine to change something; whoever drives it lets them in first.
    waiting: AtomicUsize,
    doorbells: Arc<Doorbells>,
    pub(crate) wakeup: Wakeup,
    pub(crate) lead: Lead,
    sleepers: AtomicUsize,
    /// When the sleepers' engine wants to be polled again, as far as they know, in microseconds.
    slept_until: AtomicI64,
    pub(crate) sleeps: Sleeps,
    /// Doorbells since the last sleep began; some may be missed.
    rings: AtomicU32,
    /// There was one at most between the last two sleeps.
    is_posted_singly: AtomicBool,
    /// Somebody else has closed what it works and sleeps by.
    is_lost: AtomicBool,
    clock: Clock,
}

impl Motor {
    /// An engine that is driven by this clock.
    pub(crate) fn new(engine: Engine, clock: Clock) -> io::Result<Self> {
        Ok(Self {
            doorbells: Arc::clone(engine.doorbells()),
            engine: Mutex::new(engine),
            waiting: AtomicUsize::new(0),
            wakeup: Wakeup::new()?,
            lead: Lead::new()?,
            sleepers: AtomicUsize::new(0),
            slept_until: AtomicI64::new(i64::MAX),
            sleeps: Sleeps::default(),
            rings: AtomicU32::new(0),
            is_posted_singly: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            clock,
        })
    }

    /// The engine, for a change of the objects in it.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        engine
    }

    /// One round of the engine, for the driver thread.
    pub(crate) fn drive(&self) -> (Instant, Option<Instant>) {
        while self.waiting.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        (now, engine.poll(now))
    }

    /// Drives the engine unless another thread does so at this moment.
    pub(crate) fn progress(&self) {
        self.lead.note_drive();
        if self.waiting.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        if !self.try_drive(Engine::move_on_posted_first) {
            // Whoever drives may be waiting for this thread's core.
            std::thread::yield_now();
        }
    }

    /// Says that a queue pair has news.
    pub(crate) fn ring(&self, slot: usize) {
        self.doorbells.ring(slot);
        // Whoever drives at this moment may have looked at the doorbells already, so that the driver thread has to, or the next poll.
        let is_done = if self.lead.is_standing_by() {
            self.try_drive(Engine::send_posted) || self.lead.is_left_to_polls()
        } else {
            self.sends_at_once()
        };
        if !is_done {
            self.kick();
        }
    }

    /// Sends what one has posted who posts one request at a time and then waits for what comes of it, unless another thread drives: that
    /// costs less than to wake the sleeping one. For the next request that is woken, to send in one call what is posted meanwhile.
    fn sends_at_once(&self) -> bool {
        self.rings.store(self.rings.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.sleepers.load(Ordering::SeqCst) > 0
            && self.is_posted_singly.swap(false, Ordering::Relaxed)
            && self.try_drive(Engine::send_posted)
    }

    /// Wakes the driver after a change that it should look at.
    pub(crate) fn kick(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wakeup.wake();
        } else if self.lead.is_standing_by() {
            self.lead.call();
        }
    }

    /// The program polls no more.
    pub(crate) fn end_polls(&self) {
        if self.lead.is_left_to_polls() {
            self.lead.call();
        }
    }

    /// Wakes the driver if another engine has rung: what that places may be in a send queue of this one.
    pub(crate) fn kick_if_rung(&self) {
        if self.doorbells.any() {
            self.kick();
        }
    }

    /// How much faster than real time its clock runs.
    pub(crate) const fn clock_scale(&self) -> u32 {
        self.clock.scale()
    }

    pub(crate) fn wake(&self) {
        self.wakeup.wake();
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// What was counted in the engine, below, and around it.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = self.engine().counters();
        self.sleeps.add_to(&mut counters.engine);
        counters
    }

    /// Announces a sleeper, and answers what it sleeps on besides the doorbell: the descriptors of the wire, and the time until the
    /// engine wants to be polled. There are no descriptors any more, not even the doorbell's, when the program has closed them
    /// underneath.
    pub(crate) fn begin_sleep(&self) -> (Option<Watched>, Option<Duration>) {
        // First of all, so that whoever changes something from now on wakes this thread; what was changed before shows.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        self.is_posted_singly.store(self.rings.swap(0, Ordering::Relaxed) <= 1, Ordering::Relaxed);
        let (wires, next, has_lost) = {
            let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
            let next = engine.poll_at(self.now());
            // Before anybody else can change it, or what he says of that would be written over.
            self.slept_until.store(next.map_or(i64::MAX, |next| next.total_micros()), Ordering::SeqCst);
            (engine.wait_fds(), next, engine.is_lost())
        };
        if has_lost {
            self.lose();
        }
        let until_next = next.and_then(|next| self.clock.real_delay(next));
        // A wire without a descriptor has to be looked at now and then.
        let blind = wires.is_none().then_some(BLIND_SLEEP);
        let is_lost = self.is_lost.load(Ordering::Relaxed);
        let longest = [until_next, blind, is_lost.then_some(LOST_SLEEP)].into_iter().flatten().min();
        ((!is_lost).then(|| wires.unwrap_or_default()), longest)
    }

    /// Ends all connections of an engine whose descriptors are closed, as some programs close whatever is open: it goes on without.
    pub(crate) fn lose(&self) {
        if !self.is_lost.swap(true, Ordering::Relaxed) {
            self.engine().lose(self.now());
        }
    }

    /// Takes a sleeper back, and the wake-up if it was one that has ended the sleep.
    pub(crate) fn end_sleep(&self, by_doorbell: bool) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        if by_doorbell {
            self.wakeup.clear();
        }
    }

    /// Drives the engine by `act` unless another thread does so at this moment, and says whether it did.
    fn try_drive(&self, act: impl FnOnce(&mut Engine, Instant)) -> bool {
        let mut engine = match self.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let now = self.now();
        act(&mut engine, now);
        // Whoever begins to sleep from now on takes the lock first, and asks the engine.
        let next = if self.sleepers.load(Ordering::SeqCst) > 0 { engine.poll_at(now) } else { None };
        drop(engine);
        if let Some(next) = next {
            self.hasten(next);
        }
        true
    }

    /// Wakes the sleepers when the engine wants to be polled earlier than they know, since nobody else may do it.
    fn hasten(&self, next: Instant) {
        let next = next.total_micros();
        if self.slept_until.fetch_min(next, Ordering::SeqCst) > next {
            self.wakeup.wake();
        }
    }
}

const BLIND_SLEEP: Duration = Duration::from_millis(1);
/// There is nothing left to miss.
const LOST_SLEEP: Duration = Duration::from_millis(10);
