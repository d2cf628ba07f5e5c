//! What the sockets of a context tell the thread that serves them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::timers::Timers;

/// When sockets have something to do, and which of them are over.
#[derive(Debug)]
pub(crate) struct Agenda {
    pub(crate) clock: Clock,
    timers: Mutex<Timers>,
    over: Mutex<Vec<u64>>,
    /// Wakes the thread. Any thread may take a notice, but only this one knows when it has to wake by itself.
    thread: Arc<Alarm>,
}

impl Agenda {
    pub(crate) fn new(clock: Clock, thread: Arc<Alarm>) -> Self {
        Self { clock, timers: Mutex::default(), over: Mutex::default(), thread }
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Notes when a socket has something to do.
    pub(crate) fn schedule(&self, id: u64, at: Option<Duration>) {
        if self.timers().set(id, at) {
            self.wake_thread();
        }
    }

    /// Returns when the first socket has something to do.
    pub(crate) fn first(&self) -> Option<Duration> {
        self.timers().first()
    }

    /// Takes all that have something to do now.
    pub(crate) fn take_due(&self) -> Vec<u64> {
        let now = self.now();
        let mut timers = self.timers();
        core::iter::from_fn(|| timers.take(now)).collect()
    }

    /// Notes that nothing is left to be done for a socket.
    pub(crate) fn finish(&self, id: u64) {
        self.over().push(id);
        self.wake_thread();
    }

    /// Takes the sockets for which nothing is left to be done.
    pub(crate) fn take_over(&self) -> Vec<u64> {
        core::mem::take(&mut self.over())
    }

    /// Has the thread look around, if there is one.
    pub(crate) fn wake_thread(&self) {
        self.thread.wake_by_ref();
    }

    pub(crate) fn thread(&self) -> &Alarm {
        &self.thread
    }

    fn timers(&self) -> MutexGuard<'_, Timers> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over(&self) -> MutexGuard<'_, Vec<u64>> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
