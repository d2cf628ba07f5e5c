//! What the models under loom have in the place of atomics and descriptors, and the steps that they can leave out.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::time::Duration;

use loom::sync::{Condvar, Mutex};

/// A step of the drive. Without it loom finds a deadlock in one of the models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A sleeper looks for work after it has announced itself.
    Look,
    /// A sleeper announces itself before it looks.
    Announce,
    /// A load sees the latest state.
    Order,
    /// A post wakes a thread.
    Post,
    /// A change of the objects wakes a thread.
    Change,
    /// A thread that makes an earlier deadline tells the sleepers.
    Hasten,
    /// A leader that leaves wakes the thread that follows it.
    Leave,
    /// The driver thread hands on a wake-up before it stands by.
    StandBy,
    /// Closing wakes the driver thread.
    Close,
}

/// The step that this process leaves out.
static LEFT_OUT: OnceLock<Step> = OnceLock::new();

/// Leaves out a step of all models that this process runs from now on.
pub(crate) fn leave_out(step: Step) {
    LEFT_OUT.set(step).unwrap();
}

pub(crate) fn is_left_out(step: Step) -> bool {
    LEFT_OUT.get() == Some(&step)
}

/// Takes a step. If it is left out, `act` wakes no thread.
pub(crate) fn take<T>(step: Step, act: impl FnOnce() -> T) -> T {
    let was_mute = IS_MUTE.with(|is_mute| is_mute.replace(is_mute.get() || is_left_out(step)));
    let answer = act();
    IS_MUTE.with(|is_mute| is_mute.set(was_mute));
    answer
}

/// loom orders accesses no more than by acquire and release. Here a `SeqCst` load is an exchange that changes nothing:
/// it sees the latest value, which is the rest of `SeqCst`.
#[derive(Debug)]
pub(crate) struct AtomicU64(loom::sync::atomic::AtomicU64);

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> Self {
        Self(loom::sync::atomic::AtomicU64::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        if order == SeqCst && !is_left_out(Step::Order) {
            self.0.fetch_or(0, Acquire)
        } else {
            self.0.load(Acquire)
        }
    }

    pub(crate) fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_or(value, order)
    }

    pub(crate) fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_and(value, order)
    }

    pub(crate) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_sub(value, order)
    }

    pub(crate) fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange(current, new, success, failure)
    }
}

/// As [`AtomicU64`].
#[derive(Debug)]
pub(crate) struct AtomicI64(loom::sync::atomic::AtomicI64);

impl AtomicI64 {
    pub(crate) fn new(value: i64) -> Self {
        Self(loom::sync::atomic::AtomicI64::new(value))
    }

    pub(crate) fn store(&self, value: i64, order: Ordering) {
        if order == SeqCst { _ = self.0.swap(value, Release) } else { self.0.store(value, order) }
    }

    pub(crate) fn fetch_min(&self, value: i64, order: Ordering) -> i64 {
        self.0.fetch_min(value, order)
    }
}

/// Descriptors, one for each bit, and poll(2) over them.
#[derive(Debug)]
pub(crate) struct Descriptors {
    ready: Mutex<u8>,
    changed: Condvar,
}

/// The eventfd of the sleepers.
pub(crate) const WAKEUP: u8 = 1 << 7;
/// The eventfd of a driver thread that stands by.
const SIGNAL: u8 = 1 << 6;
/// The wire, on which a frame has come. It completes the request [`PEER`].
pub(crate) const WIRE: u8 = 1 << 5;
/// An event of the application, as the lower bits are.
pub(crate) const PEER: u8 = 1 << 4;

loom::lazy_static! {
    pub(crate) static ref DESCRIPTORS: Descriptors = Descriptors { ready: Mutex::new(0), changed: Condvar::new() };
}

loom::thread_local! {
    static IS_MUTE: Cell<bool> = Cell::new(false);
}

impl Descriptors {
    pub(crate) fn set(&self, bits: u8) {
        *self.ready.lock().unwrap() |= bits;
        self.changed.notify_all();
    }

    /// Clears these descriptors. Returns those that were ready.
    pub(crate) fn clear(&self, bits: u8) -> u8 {
        let mut ready = self.ready.lock().unwrap();
        let before = *ready & bits;
        *ready &= !bits;
        before
    }

    /// Blocks until one of these descriptors is ready, or `is_timed`. Returns those that are ready.
    pub(crate) fn poll(&self, bits: u8, is_timed: bool) -> u8 {
        let mut ready = self.ready.lock().unwrap();
        while *ready & bits == 0 && !is_timed {
            ready = self.changed.wait(ready).unwrap();
        }
        *ready & bits
    }

    fn wake(&self, bit: u8) {
        if !IS_MUTE.with(Cell::get) {
            self.set(bit);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Wakeup;

impl Wakeup {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn wake(&self) {
        DESCRIPTORS.wake(WAKEUP);
    }

    pub(crate) fn clear(&self) {
        DESCRIPTORS.clear(WAKEUP);
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        unreachable!("a model sleeps on bits")
    }
}

#[derive(Debug)]
pub(crate) struct Signal;

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn wake(&self) {
        DESCRIPTORS.wake(SIGNAL);
    }

    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        DESCRIPTORS.poll(SIGNAL, timeout.is_some());
        DESCRIPTORS.clear(SIGNAL);
    }
}
