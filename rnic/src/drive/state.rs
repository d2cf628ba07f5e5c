//! The state of a drive in one word: which thread drives an engine, who sleeps, and whom a change has to wake.
//!
//! A sleeper announces itself, and then looks whether there is work. A thread that makes work does so, and then reads
//! the word. All accesses are in one order, so that at least one of the two sees the other.
//!
//! | transition | by | afterwards |
//! |---|---|---|
//! | [`begin_sleep`](State::begin_sleep), [`end_sleep`](State::end_sleep) | each thread that sleeps on the engine | the sleeper looks for work before it sleeps |
//! | [`stay`](State::stay), [`leave`](State::leave) | a thread in a blocking wait | the leader wakes the thread that follows it |
//! | [`stand_by`](State::stand_by), [`await_leader`](State::await_leader), [`is_over`](State::is_over) | the driver thread | it sleeps, or takes over |
//! | [`change`](State::change), [`end_polls`](State::end_polls), [`call`](State::call) | posts, objects, polls that end, closing | the caller wakes as the answer says |
//! | [`lose`](State::lose) | a thread whose descriptors are closed | the first caller ends the connections |

#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicI64, AtomicU64};

use std::sync::atomic::Ordering::SeqCst;

#[cfg(all(loom, test))]
use crate::drive::model::{AtomicI64, AtomicU64};

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
        self.turn(|word| (word.with(SINGLY, singly).plus(SLEEPER), ()));
    }

    /// Ends the announcement of a sleeper.
    pub(crate) fn end_sleep(&self) {
        self.word.fetch_sub(SLEEPER, SeqCst);
    }

    /// Tells the sleepers' deadline. The caller holds the lock of the engine, or an earlier deadline of another thread
    /// would be written over.
    pub(crate) fn set_deadline(&self, micros: i64) {
        self.slept_until.store(micros, SeqCst);
    }

    /// Answers whether the sleepers know no deadline as early as this one, and tells it from now on.
    pub(crate) fn is_earlier(&self, micros: i64) -> bool {
        self.slept_until.fetch_min(micros, SeqCst) > micros
    }

    /// Takes the mark that requests were posted singly before the present sleep. Only the first thread gets it.
    pub(crate) fn take_singly(&self) -> bool {
        let word = self.word();
        word.sleepers() > 0 && word.has(SINGLY) && Word(self.word.fetch_and(!SINGLY, SeqCst)).has(SINGLY)
    }

    /// Begins a blocking wait. Returns whether the calling thread leads: no other thread waits.
    pub(crate) fn stay(&self) -> bool {
        self.turn(|word| {
            let leads = word.waiting() == 0;
            // The leader sleeps: from now on the polls alone are not enough.
            let next = if word.is_left_to_polls() { word.with_duty(Duty::StandingBy) } else { word };
            let next = next.plus(WAITING);
            (if leads { next.with(LED, true).plus(TERM) } else { next }, leads)
        })
    }

    /// Ends a blocking wait of a thread that `leads` or does not.
    pub(crate) fn leave(&self, leads: bool) -> Wake {
        self.turn(|word| {
            let next = word.minus(WAITING);
            if !leads {
                return (next, Wake::Nobody);
            }
            let follows = next.waiting() > 0 || word.duty() == Duty::AwaitingLeader;
            let wake = if follows && word.is_standing_by() { Wake::Driver } else { Wake::Nobody };
            (next.with(LED, false).plus(TERM), wake)
        })
    }

    /// Whom to wake after a change that a thread should look at.
    pub(crate) fn change(&self) -> Wake {
        let word = self.word();
        if word.sleepers() > 0 {
            Wake::Sleepers
        } else if word.is_standing_by() {
            self.call()
        } else {
            Wake::Nobody
        }
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
    pub(crate) fn stand_by(&self, polled: bool) {
        self.turn(|word| {
            let is_polled = polled && word.waiting() == 0;
            (word.with_duty(if is_polled { Duty::LeftToPolls } else { Duty::StandingBy }), ())
        });
    }

    /// The driver thread awaits the end of this `term` without a time limit. Returns false if there is no leader, it
    /// has changed, or the driver thread was called.
    pub(crate) fn await_leader(&self, term: u64) -> bool {
        self.turn(|word| {
            let awaits = word.is_led() && word.term() == term && !word.is_called();
            (if awaits { word.with_duty(Duty::AwaitingLeader) } else { word }, awaits)
        })
    }

    /// Ends the driver thread's standing by if it was called, or nobody else drives the engine. A leader that was
    /// there in another term than this one leaves it another moment. So do dense polls. Returns whether it ended.
    pub(crate) fn is_over(&self, term: u64, is_dense: bool) -> bool {
        self.turn(|word| {
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
    fn turn<T>(&self, next: impl Fn(Word) -> (Word, T)) -> T {
        let mut word = self.word.load(SeqCst);
        loop {
            let (Word(turned), answer) = next(Word(word));
            match self.word.compare_exchange_weak(word, turned, SeqCst, SeqCst) {
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

    /// How often a thread has begun or ceased to lead. The number begins again after 65,536.
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

    /// The leader that the driver thread awaits leads, and nobody has called.
    pub(crate) const fn is_awaited(self) -> bool {
        self.is_led() && !self.is_called()
    }

    /// Polls alone drive the engine.
    pub(crate) const fn is_left_to_polls(self) -> bool {
        matches!(self.duty(), Duty::LeftToPolls)
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
const SLEEPER: u64 = 1 << 8;
/// One of the threads in a blocking wait.
const WAITING: u64 = 1 << 28;
/// One term.
const TERM: u64 = 1 << 48;
/// More threads than a process can have.
const THREADS: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_not_enough_for_a_leader_that_sleeps() {
        let state = State::new();
        state.stand_by(true);
        assert!(state.word().is_left_to_polls());
        assert!(state.stay());
        assert!(state.word().is_standing_by() && !state.word().is_left_to_polls());
        state.stand_by(true);
        assert!(!state.word().is_left_to_polls());
        assert_eq!(state.leave(true), Wake::Nobody);
    }

    #[test]
    fn a_change_wakes_a_sleeper_before_the_driver_thread() {
        let state = State::new();
        assert_eq!(state.change(), Wake::Nobody);
        state.stand_by(false);
        state.begin_sleep(false);
        assert_eq!(state.change(), Wake::Sleepers);
        state.end_sleep();
        assert!(!state.word().is_called());
        assert_eq!(state.change(), Wake::Driver);
        assert!(state.is_over(0, false) && !state.word().is_called());
    }

    #[test]
    fn the_terms_wrap_and_change_nothing_else() {
        let state = State::new();
        state.begin_sleep(true);
        for _ in 0..u16::MAX {
            let leads = state.stay();
            assert_eq!((leads, state.leave(leads)), (true, Wake::Nobody));
        }
        assert!(state.stay() && state.lose() && !state.lose());
        let word = state.word();
        assert_eq!((word.term(), word.waiting(), word.sleepers()), (u64::from(u16::MAX), 1, 1));
        assert!(state.take_singly() && !state.take_singly());
    }
}
