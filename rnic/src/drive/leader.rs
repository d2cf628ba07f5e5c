//! The leader: which thread drives an engine that has a driver thread.
//!
//! A thread of the application leads as long as it alone waits for an event, or polls without a pause. The driver
//! thread stands by meanwhile.
//!
//! The reason is the cost of a wake-up. If a message wakes the driver thread, and that wakes the application, there
//! are two. If the message wakes the application, and that drives the engine itself, there is one. The driver thread
//! stands by for a moment longer than the wait, since a thread that has waited mostly waits again. Posts and polls
//! drive the engine meanwhile. The driver thread takes over when the moment has passed, when a second thread waits,
//! or when it is called.
//!
//! A program that polls all the time finds by itself what comes. A driver thread that woke as well would only take
//! the core or the lock. So it leaves the engine to the polls until a moment has passed with few of them, or until
//! the program asks for an event.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[cfg(not(all(loom, test)))]
use crate::drive::signal::Signal;
#[cfg(all(loom, test))]
use crate::drive::stand_ins::{Signal, Wakeup};
use crate::drive::state::{State, Wake};
#[cfg(not(all(loom, test)))]
use crate::events::channel::Wakeup;

/// Which thread drives an engine, which threads sleep meanwhile, and what wakes them.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) state: State,
    /// Wakes the threads that sleep on the engine.
    pub(crate) wakeup: Wakeup,
    /// Wakes the driver thread when it stands by.
    signal: Signal,
    /// How many polls have driven the engine, or tried to.
    drives: AtomicU32,
    /// Doorbells since the last sleep began. The count may miss some.
    rings: AtomicU32,
}

/// A thread's stay in a blocking wait. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Stay<'a> {
    lead: &'a Lead,
    leads: bool,
}

impl Lead {
    /// # Errors
    /// When the system has no file descriptor left.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            state: State::new(),
            wakeup: Wakeup::new()?,
            signal: Signal::new()?,
            drives: AtomicU32::new(0),
            rings: AtomicU32::new(0),
        })
    }

    /// Begins a wait of the calling thread. The thread leads if no other one waits. A driver thread that sleeps on the
    /// engine then wakes, and stands by.
    pub(crate) fn stay(&self) -> Stay<'_> {
        let (leads, wake) = self.state.stay();
        self.wake(wake);
        Stay { lead: self, leads }
    }

    /// Makes sure that a thread looks at a doorbell that has been rung. `try_send` sends what was posted unless another
    /// thread drives the engine, and returns whether it did.
    pub(crate) fn post(&self, try_send: impl FnOnce() -> bool) {
        // A thread that drives at this moment may have looked at the doorbells already. Then the driver thread has to
        // look, or the next poll.
        let is_done = if self.is_standing_by() {
            try_send() || self.state.word().is_left_to_polls()
        } else {
            self.is_posted_singly() && try_send()
        };
        if !is_done {
            self.kick();
        }
    }

    /// Returns true if the calling thread posts one request at a time and then waits. Its driving of the engine is
    /// cheaper than to wake the driver thread. The next request before a sleep wakes the driver thread, which sends in
    /// one call what is posted meanwhile.
    fn is_posted_singly(&self) -> bool {
        self.rings.store(self.rings.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.state.take_singly()
    }

    /// Wakes a thread after a change that it should look at.
    pub(crate) fn kick(&self) {
        self.wake(self.state.change());
    }

    /// Wakes the sleepers if the engine wants to be polled earlier than they know: no other thread may poll it in time.
    /// `next` is in microseconds of the engine's time.
    pub(crate) fn hasten(&self, next: i64) {
        self.wake(self.state.hasten(next));
    }

    /// The program is about to stop polling: the driver thread takes over if it has left the engine to the polls.
    pub(crate) fn end_polls(&self) {
        self.wake(self.state.end_polls());
    }

    /// Has the driver thread look up at once, whether it sleeps or stands by.
    pub(crate) fn call(&self) {
        self.wakeup.wake();
        self.wake(self.state.call());
    }

    /// Announces a sleeper, which then looks for work before it sleeps.
    pub(crate) fn begin_sleep(&self) {
        self.state.begin_sleep(self.rings.swap(0, Ordering::Relaxed) <= 1);
    }

    /// Ends the announcement of a sleeper. Clears the wake-up if it has ended the sleep.
    pub(crate) fn end_sleep(&self, by_doorbell: bool) {
        self.state.end_sleep();
        if by_doorbell {
            self.wakeup.clear();
        }
    }

    /// Whether a thread of the application drives the engine.
    pub(crate) fn is_led(&self) -> bool {
        self.state.word().is_led()
    }

    /// Whether the driver thread leaves the engine to the application's threads.
    pub(crate) fn is_standing_by(&self) -> bool {
        self.state.word().is_standing_by()
    }

    /// Counts a poll that drives the engine.
    pub(crate) fn note_drive(&self) {
        self.drives.fetch_add(1, Ordering::Relaxed);
    }

    /// How often [`Self::note_drive`] was called.
    pub(crate) fn drives(&self) -> u32 {
        self.drives.load(Ordering::Relaxed)
    }

    /// Blocks the driver thread until the engine needs it again. There is a leader or, with `polled`, the program
    /// polls densely. The wake-up that has ended the driver thread's sleep may have been meant for the leader: the
    /// sleepers get it.
    pub(crate) fn stand_by(&self, polled: bool) {
        self.wake(self.state.stand_by(polled));
        while !self.takes_over() {}
    }

    /// Sleeps until the current leader leaves, at most one [`MOMENT`] if there is none or it changes. Returns true if
    /// no thread led or polled densely during the last moment, or if this thread was called. Leaders that come and go
    /// need not wake it each time.
    pub(crate) fn takes_over(&self) -> bool {
        let (word, drives) = (self.state.word(), self.drives());
        if !word.is_called() && (word.is_led() || word.waiting() == 0) {
            self.signal.sleep(Some(MOMENT));
        }
        if self.state.await_leader(word.term()) {
            while self.state.word().is_awaited() {
                self.signal.sleep(None);
            }
            let word = self.state.end_await();
            if !word.is_called() && word.waiting() == 0 {
                self.signal.sleep(Some(MOMENT));
            }
        }
        self.state.take_over(word.term(), are_dense(self.drives().wrapping_sub(drives), MOMENT))
    }

    fn wake(&self, wake: Wake) {
        match wake {
            Wake::Nobody => {}
            Wake::Sleepers => self.wakeup.wake(),
            Wake::Driver => self.signal.wake(),
        }
    }
}

impl Stay<'_> {
    /// Whether this thread drives the engine.
    pub(crate) const fn leads(&self) -> bool {
        self.leads
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.lead.wake(self.lead.state.leave(self.leads));
    }
}

/// Whether so many polls in this time leave hardly anything for another thread to find. A program that looks
/// elsewhere between two polls, for example at an octet of its memory, stays far below that.
pub(crate) fn are_dense(drives: u32, time: Duration) -> bool {
    !time.is_zero() && time / DENSE <= Duration::from_micros(drives.into())
}

/// Polls that follow one another within so many microseconds are dense.
const DENSE: u32 = 5;
/// How long the driver thread leaves the engine to an application that has waited and does not wait, in real time. A
/// message that arrives meanwhile lies there for at most twice that.
const MOMENT: Duration = Duration::from_micros(500);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::state::Duty;

    #[test]
    fn only_who_waits_alone_leads() {
        let lead = Lead::new().unwrap();
        let first = lead.stay();
        assert!(first.leads() && lead.is_led());
        let second = lead.stay();
        assert!(!second.leads() && lead.is_led());
        drop(first);
        assert!(!lead.is_led(), "nobody takes over but the driver thread");
        let third = lead.stay();
        assert!(!third.leads());
        drop((second, third));
        assert!(lead.stay().leads());
    }

    #[test]
    fn the_driver_thread_is_needed_by_those_who_wait_without_a_leader_and_by_those_who_call() {
        let lead = Lead::new().unwrap();
        let (leader, _follower) = (lead.stay(), lead.stay());
        drop(leader);
        lead.stand_by(false);
        assert!(!lead.is_standing_by());
        let lead = Lead::new().unwrap();
        let _leader = lead.stay();
        lead.call();
        lead.stand_by(false);
        assert!(!lead.is_standing_by());
    }

    #[test]
    fn polls_are_dense_by_their_number_in_a_time() {
        for (drives, micros, dense) in
            [(20, 100, true), (19, 100, false), (0, 1, false), (1, 5, true), (9, 0, false)]
        {
            assert_eq!(are_dense(drives, Duration::from_micros(micros)), dense, "{drives} in {micros} us");
        }
        assert!(!are_dense(u32::MAX, Duration::from_secs(1 << 40)));
    }

    #[test]
    fn the_driver_thread_leaves_the_engine_to_polls_until_they_end_or_call() {
        let lead = Lead::new().unwrap();
        lead.stand_by(true);
        assert!(!lead.is_standing_by() && !lead.state.word().is_left_to_polls(), "nobody has polled");
        let is_left_for = |polls: u32| {
            let lead = Lead::new().unwrap();
            let is_left = std::thread::scope(|scope| {
                let driver = scope.spawn(|| lead.stand_by(true));
                while !lead.is_standing_by() && !driver.is_finished() {}
                (0..polls).for_each(|_| lead.note_drive());
                let is_left = lead.state.word().is_left_to_polls();
                lead.call();
                is_left
            });
            assert!(!lead.is_standing_by() && !lead.state.word().is_left_to_polls());
            is_left
        };
        // Each moment has enough of them, as long as this thread has its core.
        assert!((0..1000).any(|_| is_left_for(1_000_000)));
    }

    #[test]
    fn the_driver_thread_comes_back_when_the_leader_does_not() {
        let lead = Lead::new().unwrap();
        let leader = lead.stay();
        std::thread::scope(|scope| {
            let driver = scope.spawn(|| lead.stand_by(false));
            while lead.state.word().duty() != Duty::AwaitingLeader {
                std::thread::yield_now();
            }
            assert!(lead.is_standing_by() && !driver.is_finished());
            drop(leader);
        });
        assert!(!lead.is_standing_by());
    }
}
