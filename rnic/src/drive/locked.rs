//! An engine behind its lock, and the protocol between the threads that post, drive, wait and sleep.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use weft_netif::Instant;
use weft_verbs::Doorbells;

use crate::clock::Clock;
use crate::counters::Counters;
use crate::drive::leader::Lead;
use crate::drive::sleeps::Sleeps;
use crate::engine::tables::Engine;

/// The descriptors of a wire, and whether each is to become writable.
pub(crate) type Watched = Vec<(Arc<OwnedFd>, bool)>;

/// One engine of a device, behind its lock.
#[derive(Debug)]
pub(crate) struct Motor {
    engine: Mutex<Engine>,
    /// Threads that wait for the lock to change something. A thread that drives lets them in first. This belongs to the
    /// lock: no thread sleeps or wakes by it.
    waiting: AtomicUsize,
    doorbells: Arc<Doorbells>,
    pub(crate) lead: Lead,
    pub(crate) sleeps: Sleeps,
    clock: Clock,
}

impl Motor {
    /// Puts an engine behind a lock. `clock` is its time.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub(crate) fn new(engine: Engine, clock: Clock) -> io::Result<Self> {
        Ok(Self {
            doorbells: Arc::clone(engine.doorbells()),
            engine: Mutex::new(engine),
            waiting: AtomicUsize::new(0),
            lead: Lead::new()?,
            sleeps: Sleeps::default(),
            clock,
        })
    }

    /// Locks the engine, for a change of the objects in it.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        engine
    }

    /// Drives the engine once, for the driver thread. Returns the time, and when the engine wants to be polled again.
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
            // The thread that drives may be waiting for this thread's core.
            std::thread::yield_now();
        }
    }

    /// Rings the doorbell of the queue pair in `slot`, and makes sure that a thread looks at it.
    pub(crate) fn ring(&self, slot: usize) {
        self.doorbells.ring(slot);
        self.lead.post(|| self.try_drive(Engine::send_posted));
    }

    /// Rings the doorbell of the queue pair in `slot`, and has another thread than the calling one look at it.
    pub(crate) fn wake(&self, slot: usize) {
        self.doorbells.ring(slot);
        self.kick();
    }

    /// Wakes a thread after a change that it should look at.
    pub(crate) fn kick(&self) {
        self.lead.kick();
    }

    /// Wakes the driver thread if another engine has rung a doorbell: it may have placed an entry in a send queue of
    /// this engine.
    pub(crate) fn kick_if_rung(&self) {
        if self.doorbells.any() {
            self.kick();
        }
    }

    /// How much faster than real time the engine's clock runs.
    pub(crate) const fn clock_scale(&self) -> u32 {
        self.clock.scale()
    }

    /// The engine's time.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The counters of the engine, of the layers below, and of the sleeps.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = self.engine().counters();
        self.sleeps.add_to(&mut counters.engine);
        counters
    }

    /// Announces a sleeper. Returns what it sleeps on besides the doorbell: the descriptors of the wire, and the time
    /// until the engine wants to be polled. After the program has closed them there are no descriptors, not even the
    /// doorbell's.
    pub(crate) fn begin_sleep(&self) -> (Option<Watched>, Option<Duration>) {
        // This comes first: a change from now on wakes this thread, and an earlier change shows below.
        self.lead.begin_sleep();
        let (wires, next, has_lost) = {
            let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
            let next = engine.poll_at(self.now());
            // Still under the lock, or an earlier deadline of another thread would be written over.
            self.lead.state.set_deadline(next.map_or(i64::MAX, |next| next.total_micros()));
            (engine.wait_fds(), next, engine.is_lost())
        };
        if has_lost {
            self.lose();
        }
        let until_next = next.and_then(|next| self.clock.real_delay(next));
        // A wire without a descriptor is polled at intervals.
        let blind = wires.is_none().then_some(BLIND_SLEEP);
        let is_lost = self.lead.state.word().is_lost();
        let longest = [until_next, blind, is_lost.then_some(LOST_SLEEP)].into_iter().flatten().min();
        ((!is_lost).then(|| wires.unwrap_or_default()), longest)
    }

    /// Ends all connections after the program has closed the engine's descriptors. Some programs close whatever is
    /// open.
    pub(crate) fn lose(&self) {
        if self.lead.state.lose() {
            self.engine().lose(self.now());
        }
    }

    /// Drives the engine by `act` unless another thread drives it. Returns whether it did.
    fn try_drive(&self, act: impl FnOnce(&mut Engine, Instant)) -> bool {
        let mut engine = match self.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let now = self.now();
        act(&mut engine, now);
        // A thread that begins to sleep from now on takes the lock first and asks the engine for its deadline.
        let next = if self.lead.state.word().sleepers() > 0 { engine.poll_at(now) } else { None };
        drop(engine);
        if let Some(next) = next {
            self.lead.hasten(next.total_micros());
        }
        true
    }
}

const BLIND_SLEEP: Duration = Duration::from_millis(1);
/// How long a thread sleeps on an engine without descriptors.
const LOST_SLEEP: Duration = Duration::from_millis(10);
