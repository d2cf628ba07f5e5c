//! The state of a drive in one word: which thread drives an engine, who sleeps, and whom a change has to wake.
//!
//! A sleeper announces itself, and then looks whether there is work. A thread that makes work does so, and then reads
//! the word. All accesses are in one order, so that at least one of the two sees the other.
//!
//! | transition | by |
//! |---|---|
//! | [`begin_sleep`](State::begin_sleep), [`end_sleep`](State::end_sleep) | each thread that sleeps on the engine |
//! | [`stay`](State::stay), [`leave`](State::leave) | a thread in a blocking wait |
//! | [`stand_by`](State::stand_by), [`await_leader`](State::await_leader), [`end_await`](State::end_await), [`take_over`](State::take_over) | the driver thread |
//! | [`change`](State::change), [`end_polls`](State::end_polls), [`call`](State::call) | posts, objects, arming, closing |
//! | [`take_singly`](State::take_singly) | posts |
//! | [`lose`](State::lose) | a thread that finds its descriptors closed |
//!
//! A transition answers whom its caller has to wake. No thread sees the half of a transition: a leader that leaves is
//! gone and no longer counted at the same time, and the engine is left to polls only as long as no thread waits.

#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicI64, AtomicU64};

use std::sync::atomic::Ordering::SeqCst;

#[cfg(all(loom, test))]
use crate::drive::stand_ins::{AtomicI64, AtomicU64};

/// The word, and beside it the deadline that the sleepers know.
#[derive(Debug)]
pub(crate) struct State {
    word: AtomicU64,
    /// In microseconds of the engine's time.
    slept_until: AtomicI64,
}

/// The state at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

/// What the driver thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// It drives the engine, or is one of the sleepers.
    Driving,
    /// It stands by for a moment.
    StandingBy,
    /// It stands by until the leader leaves.
    AwaitingLeader,
    /// It stands by, since the program polls densely and no thread waits.
    LeftToPolls,
}

/// The threads that a transition asks its caller to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Wake {
    Nobody,
    Sleepers,
    /// The driver thread, which stands by.
    Driver,
}

impl State {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0), slept_until: AtomicI64::new(i64::MAX) }
    }

    pub(crate) fn word(&self) -> Word {
        Word(self.word.load(SeqCst))
    }

    /// Announces a sleeper. A change from now on wakes it, and it looks for an earlier change now. `singly`: at most
    /// one doorbell rang since the last sleep began.
    pub(crate) fn begin_sleep(&self, singly: bool) {
        self.update(|word| (word.with(SINGLY, singly).plus(SLEEPER), ()));
    }

    /// Ends the announcement of a sleeper.
    pub(crate) fn end_sleep(&self) {
        self.word.fetch_sub(SLEEPER, SeqCst);
    }

    /// Tells the sleepers' deadline. The caller holds the lock of the engine: without it this thread could write over
    /// an earlier deadline of another thread.
    pub(crate) fn set_deadline(&self, micros: i64) {
        self.slept_until.store(micros, SeqCst);
    }

    /// Tells an earlier deadline than the sleepers know.
    pub(crate) fn hasten(&self, micros: i64) -> Wake {
        let is_earlier = self.slept_until.fetch_min(micros, SeqCst) > micros;
        if is_earlier { Wake::Sleepers } else { Wake::Nobody }
    }

    /// Takes the mark that requests were posted singly before the present sleep. Only the first thread gets it.
    pub(crate) fn take_singly(&self) -> bool {
        let word = self.word();
        word.sleepers() > 0 && word.has(SINGLY) && Word(self.word.fetch_and(!SINGLY, SeqCst)).has(SINGLY)
    }

    /// Begins a blocking wait. Returns whether the calling thread leads: no other thread waits.
    pub(crate) fn stay(&self) -> (bool, Wake) {
        self.update(|word| {
            // The leader sleeps: from now on the polls alone are not enough.
            let next = if word.is_left_to_polls() { word.with_duty(Duty::StandingBy) } else { word };
            let next = next.plus(WAITING);
            if word.waiting() > 0 {
                return (next, (false, Wake::Nobody));
            }
            // The driver thread may sleep on the engine. This wakes it, and it stands by.
            let wake = if word.is_standing_by() { Wake::Nobody } else { word.sleeping() };
            (next.with(LED, true).plus(TERM), (true, wake))
        })
    }

    /// Ends a blocking wait of a thread that `leads` or does not.
    pub(crate) fn leave(&self, leads: bool) -> Wake {
        self.update(|word| {
            let next = word.minus(WAITING);
            if !leads {
                return (next, Wake::Nobody);
            }
            let wake = match word.duty() {
                // Another sleeper has counted on the leader. So has a driver thread that still sleeps since the leader
                // has taken its wake-up: it does not know the work and the deadlines since.
                Duty::Driving => word.sleeping(),
                Duty::AwaitingLeader => Wake::Driver,
                _ if next.waiting() > 0 => Wake::Driver,
                _ => Wake::Nobody,
            };
            (next.with(LED, false).plus(TERM), wake)
        })
    }

    /// Whom to wake after a change that a thread should look at.
    pub(crate) fn change(&self) -> Wake {
        let word = self.word();
        if word.sleepers() == 0 && word.is_standing_by() { self.call() } else { word.sleeping() }
    }

    /// Whom to wake when the program is about to stop polling.
    pub(crate) fn end_polls(&self) -> Wake {
        if self.word().is_left_to_polls() { self.call() } else { Wake::Nobody }
    }

    /// Has the driver thread take over at once, or not stand by next time.
    pub(crate) fn call(&self) -> Wake {
        self.word.fetch_or(CALLED, SeqCst);
        Wake::Driver
    }

    /// The driver thread stands by, with `polled` since the program polls densely.
    pub(crate) fn stand_by(&self, polled: bool) -> Wake {
        self.update(|word| {
            let is_polled = polled && word.waiting() == 0;
            let duty = if is_polled { Duty::LeftToPolls } else { Duty::StandingBy };
            (word.with_duty(duty), word.sleeping())
        })
    }

    /// The driver thread awaits the end of this `term` without a time limit. Returns false if there is no leader, it
    /// has changed, or the driver thread was called.
    pub(crate) fn await_leader(&self, term: u64) -> bool {
        self.update(|word| {
            let awaits = word.is_awaited() && word.term() == term;
            (if awaits { word.with_duty(Duty::AwaitingLeader) } else { word }, awaits)
        })
    }

    /// The driver thread awaits the leader no longer, and still stands by. Returns the state from then on.
    pub(crate) fn end_await(&self) -> Word {
        self.update(|word| {
            let next = word.with_duty(Duty::StandingBy);
            (next, next)
        })
    }

    /// Ends the driver thread's standing by if it was called, or nobody else drives the engine. A leader that was
    /// there in another term than this one leaves it another moment. So do dense polls. Returns whether it ended.
    pub(crate) fn take_over(&self, term: u64, is_dense: bool) -> bool {
        self.update(|word| {
            let is_polled = word.waiting() == 0 && is_dense;
            let is_left = !word.is_led() && (word.waiting() > 0 || (word.term() == term && !is_polled));
            if word.is_called() || is_left {
                return (word.with(CALLED, false).with_duty(Duty::Driving), true);
            }
            let duty = if is_polled { Duty::LeftToPolls } else { Duty::StandingBy };
            (word.with_duty(duty), false)
        })
    }

    /// Notes that the program has closed the engine's descriptors. Returns whether this is the first note.
    pub(crate) fn lose(&self) -> bool {
        !Word(self.word.fetch_or(LOST, SeqCst)).is_lost()
    }

    /// Replaces the word by what `next` makes of it. Returns `next`'s answer.
    fn update<T>(&self, next: impl Fn(Word) -> (Word, T)) -> T {
        let mut word = self.word.load(SeqCst);
        loop {
            let (Word(updated), answer) = next(Word(word));
            match self.word.compare_exchange_weak(word, updated, SeqCst, SeqCst) {
                Ok(_) => return answer,
                Err(present) => word = present,
            }
        }
    }
}

impl Word {
    /// Threads that sleep on the engine, or are about to.
    pub(crate) const fn sleepers(self) -> u64 {
        (self.0 / SLEEPER) % THREADS
    }

    /// Threads in a blocking wait.
    pub(crate) const fn waiting(self) -> u64 {
        (self.0 / WAITING) % THREADS
    }

    /// How often a thread has begun or ceased to lead. The number begins again after 16,384.
    pub(crate) const fn term(self) -> u64 {
        self.0 / TERM
    }

    /// A thread of the application drives the engine.
    pub(crate) const fn is_led(self) -> bool {
        self.has(LED)
    }

    /// The driver thread is to take over at once.
    pub(crate) const fn is_called(self) -> bool {
        self.has(CALLED)
    }

    /// The program has closed descriptors that the engine works and sleeps by.
    pub(crate) const fn is_lost(self) -> bool {
        self.has(LOST)
    }

    pub(crate) const fn duty(self) -> Duty {
        match self.0 & DUTY {
            0 => Duty::Driving,
            1 => Duty::StandingBy,
            2 => Duty::AwaitingLeader,
            _ => Duty::LeftToPolls,
        }
    }

    /// The driver thread leaves the engine to the application's threads.
    pub(crate) const fn is_standing_by(self) -> bool {
        self.0 & DUTY != 0
    }

    /// A thread leads, and nobody has called the driver thread.
    pub(crate) const fn is_awaited(self) -> bool {
        self.is_led() && !self.is_called()
    }

    /// Polls alone drive the engine.
    pub(crate) const fn is_left_to_polls(self) -> bool {
        matches!(self.duty(), Duty::LeftToPolls)
    }

    /// All sleepers.
    const fn sleeping(self) -> Wake {
        if self.sleepers() > 0 { Wake::Sleepers } else { Wake::Nobody }
    }

    const fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    const fn with(self, flag: u64, is_set: bool) -> Self {
        Self(if is_set { self.0 | flag } else { self.0 & !flag })
    }

    const fn with_duty(self, duty: Duty) -> Self {
        Self(self.0 & !DUTY | duty as u64)
    }

    /// The terms are at the top: they alone wrap.
    const fn plus(self, unit: u64) -> Self {
        Self(self.0.wrapping_add(unit))
    }

    const fn minus(self, unit: u64) -> Self {
        Self(self.0.wrapping_sub(unit))
    }
}

/// What the driver thread does: [`Duty`].
const DUTY: u64 = 0b11;
/// A thread of the application drives the engine.
const LED: u64 = 1 << 2;
/// The driver thread is to take over.
const CALLED: u64 = 1 << 3;
/// The program has closed the engine's descriptors.
const LOST: u64 = 1 << 4;
/// At most one doorbell rang between the last two sleeps.
const SINGLY: u64 = 1 << 5;
/// One of the threads that sleep.
const SLEEPER: u64 = 1 << 6;
/// One of the threads in a blocking wait.
const WAITING: u64 = SLEEPER * THREADS;
/// One term.
const TERM: u64 = WAITING * THREADS;
/// More threads than Linux can have.
const THREADS: u64 = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_not_enough_for_a_leader_that_sleeps() {
        let state = State::new();
        assert_eq!(state.stand_by(true), Wake::Nobody);
        assert!(state.word().is_left_to_polls());
        assert_eq!(state.stay(), (true, Wake::Nobody));
        assert!(state.word().is_standing_by() && !state.word().is_left_to_polls());
        assert!(!state.take_over(state.word().term(), true) && !state.word().is_left_to_polls());
        assert_eq!(state.stand_by(true), Wake::Nobody);
        assert!(!state.word().is_left_to_polls());
        assert_eq!(state.leave(true), Wake::Nobody);
    }

    #[test]
    fn a_change_wakes_a_sleeper_before_the_driver_thread() {
        let state = State::new();
        assert_eq!(state.change(), Wake::Nobody);
        assert_eq!(state.stand_by(false), Wake::Nobody);
        state.begin_sleep(false);
        assert_eq!(state.change(), Wake::Sleepers);
        state.end_sleep();
        assert!(!state.word().is_called());
        assert_eq!(state.change(), Wake::Driver);
        assert!(state.take_over(0, false) && !state.word().is_called());
    }

    #[test]
    fn a_leader_changes_places_with_a_driver_thread_that_sleeps() {
        let state = State::new();
        state.begin_sleep(false);
        assert_eq!(state.stay(), (true, Wake::Sleepers));
        assert_eq!(state.stay(), (false, Wake::Nobody));
        assert_eq!((state.leave(false), state.leave(true)), (Wake::Nobody, Wake::Sleepers));
        assert_eq!(state.stand_by(false), Wake::Sleepers);
        assert_eq!((state.stay(), state.leave(true)), ((true, Wake::Nobody), Wake::Nobody));
    }

    #[test]
    fn the_driver_thread_wakes_when_the_leader_leaves_if_it_awaits_that_or_another_thread_waits() {
        let state = State::new();
        let _nobody = state.stand_by(false);
        assert!(state.stay().0 && !state.await_leader(0), "another term");
        assert!(state.await_leader(1));
        assert_eq!(state.leave(true), Wake::Driver);
        assert!(!state.await_leader(1) && state.end_await().duty() == Duty::StandingBy);
        assert!(state.stay().0 && !state.stay().0);
        assert_eq!(state.leave(true), Wake::Driver);
        assert!(state.take_over(state.word().term(), true), "a thread waits, and no thread leads");
    }

    #[test]
    fn arming_calls_a_driver_thread_that_relies_on_polls() {
        let state = State::new();
        assert_eq!(state.end_polls(), Wake::Nobody);
        assert!(state.stand_by(true) == Wake::Nobody && !state.word().is_called());
        assert_eq!(state.end_polls(), Wake::Driver);
        assert!(state.take_over(0, true) && state.word().duty() == Duty::Driving);
    }

    #[test]
    fn a_deadline_is_told_to_the_sleepers_if_it_is_earlier() {
        let state = State::new();
        assert_eq!(
            (state.hasten(7), state.hasten(7), state.hasten(8)),
            (Wake::Sleepers, Wake::Nobody, Wake::Nobody)
        );
        state.set_deadline(i64::MAX);
        assert_eq!(state.hasten(8), Wake::Sleepers);
    }

    #[test]
    fn the_terms_wrap_and_change_nothing_else() {
        let state = State::new();
        state.begin_sleep(true);
        for _ in 0..u64::MAX / TERM {
            assert_eq!((state.stay(), state.leave(true)), ((true, Wake::Sleepers), Wake::Sleepers));
        }
        assert!(state.stay().0 && state.lose() && !state.lose());
        let word = state.word();
        assert_eq!((word.term(), word.waiting(), word.sleepers()), (u64::MAX / TERM, 1, 1));
        assert!(state.take_singly() && !state.take_singly());
    }
}
