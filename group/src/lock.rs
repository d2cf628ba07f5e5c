//! A lock between sessions: a word that each replica holds, taken by compare-and-swap at all of them.
//!
//! The session that gets the word of replica 0 keeps what it has and tries the other replicas again. A session that does
//! not get it gives back what it has, and tries again later. So one of them gets on, and none waits for another in a circle.

use core::num::NonZeroU16;
use core::time::Duration;

use crate::group::Group;
use crate::message::Originals;
use crate::op::{MAX_REPLICAS, Op, Replicas, Swap};
use crate::session::SessionError;

/// The word of a session that has a lock or tries to get it: epoch (24 bits), session (24), nonce (16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u64);

/// A lock as one session sees it: which words it has, and what it does next. It has no clock and sends nothing by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    at: u64,
    own: Owner,
    /// One bit for each replica.
    all: u16,
    /// Replicas whose word is this session's.
    held: u16,
    /// What the words of the other replicas are thought to be: 0, or a word of an older epoch.
    expected: [u64; MAX_REPLICAS],
    phase: Phase,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This compare-and-swap. [`Lock::take`] takes what it found.
    Swap(Swap),
    /// Nothing: the session has the lock.
    Owned,
    /// Nothing: another session has the lock or is about to get it, and this one has no word of it. [`Lock::acquire`] tries
    /// again, after a while.
    Busy(Owner),
    /// Nothing: the session does not want the lock.
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Free,
    Trying,
    /// Gives words back, because of a word of this session.
    Undoing(Owner),
    Busy(Owner),
    Owned,
    Releasing,
}

impl Owner {
    /// Makes the word of a session. The nonce tells apart those who share the session.
    pub const fn new(epoch: u64, session: u64, nonce: NonZeroU16) -> Self {
        Self((epoch & MASK) << 40 | (session & MASK) << 16 | nonce.get() as u64)
    }

    /// Returns the word.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Returns the last 24 bits of the epoch.
    pub const fn epoch(self) -> u64 {
        self.0 >> 40
    }

    /// Returns whether a word is free for this session: it is 0, or of an older epoch, whose sessions are over.
    const fn may_take(self, word: u64) -> bool {
        let age = self.epoch().wrapping_sub(word >> 40) & MASK;
        word == 0 || age != 0 && age < 1 << 23
    }
}

impl Lock {
    /// Makes a lock whose word lies at `at`, a multiple of 8, in the range of so many replicas. Each session has one of its
    /// own.
    pub fn new(at: u64, replicas: usize, own: Owner) -> Self {
        let all = (0..replicas.min(MAX_REPLICAS)).fold(0, |all, index| all | 1 << index);
        Self { at, own, all, held: 0, expected: [0; MAX_REPLICAS], phase: Phase::Free }
    }

    /// Begins to get the lock. Does nothing if the session has it, or gives words back just now.
    pub const fn acquire(&mut self) {
        if matches!(self.phase, Phase::Free | Phase::Busy(_)) {
            self.phase = Phase::Trying;
        }
    }

    /// Begins to give the lock back. Does nothing if the session does not have it.
    pub const fn release(&mut self) {
        if matches!(self.phase, Phase::Owned) {
            self.phase = Phase::Releasing;
        }
    }

    /// Gives back what the session has, if it has some words and not all: their other owner may be dead.
    const fn give_up(&mut self, other: Owner) {
        if matches!(self.phase, Phase::Trying) {
            self.phase = if self.held == 0 { Phase::Busy(other) } else { Phase::Undoing(other) };
        }
    }

    /// Takes what the replicas found in their words. Returns whether all of them had what they had to have: the word that the
    /// compare-and-swap of [`Self::next`] compares with.
    pub fn take(&mut self, found: &Originals) -> bool {
        let Step::Swap(swap) = self.next() else { return false };
        let on = |index: &usize| swap.on.contains(*index);
        let is_whole = (0..MAX_REPLICAS).filter(on).all(|index| found[index] == swap.compare);
        match self.phase {
            Phase::Trying => self.take_tried(swap, found),
            Phase::Undoing(other) => (self.held, self.phase) = (0, Phase::Busy(other)),
            _ => (self.held, self.phase) = (0, Phase::Free),
        }
        is_whole
    }

    /// Returns what comes next.
    pub fn next(&self) -> Step {
        let swap = |compare, swap, on| Step::Swap(Swap { at: self.at, compare, swap, on: Replicas(on) });
        match self.phase {
            Phase::Free => Step::Free,
            Phase::Busy(other) => Step::Busy(other),
            Phase::Owned => Step::Owned,
            Phase::Undoing(_) | Phase::Releasing => swap(self.own.0, 0, self.held),
            Phase::Trying => {
                let missing = self.all & !self.held;
                let compare = self.expected[missing.trailing_zeros() as usize % MAX_REPLICAS];
                let with = |index: &usize| missing >> index & 1 == 1 && self.expected[*index] == compare;
                let on = (0..MAX_REPLICAS).filter(with).fold(0, |on, index| on | 1 << index);
                swap(compare, self.own.0, on)
            }
        }
    }

    fn take_tried(&mut self, swap: Swap, found: &Originals) {
        let mut first = None;
        for index in (0..MAX_REPLICAS).filter(|index| swap.on.contains(*index)) {
            let word = found[index];
            self.expected[index] = 0;
            if word == swap.compare {
                self.held |= 1 << index;
            } else if self.own.may_take(word) {
                self.expected[index] = word;
            } else if index == 0 {
                first = Some(Owner(word));
            }
        }
        if self.held == self.all {
            self.phase = Phase::Owned;
        } else if let Some(other) = first {
            self.give_up(other);
        }
    }
}

impl Lock {
    /// Tries to get the lock. Returns [`Step::Owned`], or [`Step::Busy`] with the owner's word: then the caller waits for
    /// [`backoff`] and calls again. A caller that has waited for long changes the epoch: the owner may be dead.
    ///
    /// A session that has the word of replica 0 asks the other replicas at most `rounds` times.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn try_acquire<G: Group>(&mut self, group: &mut G, rounds: u32) -> Result<Step, SessionError> {
        let mut left = rounds;
        self.acquire();
        loop {
            let Step::Swap(swap) = self.next() else { return Ok(self.next()) };
            let found = perform(group, swap)?;
            self.take(&found);
            left = left.saturating_sub(1);
            let other =
                (0..MAX_REPLICAS).find(|index| swap.on.contains(*index) && found[*index] != swap.compare);
            if let (0, Some(index)) = (left, other) {
                self.give_up(Owner(found[index]));
            }
        }
    }

    /// Gives the lock back. What it guards must be done by then: the caller has waited for its operations. Returns whether
    /// the session had the lock at all replicas; if it did not, a newer epoch has taken it.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn give_back<G: Group>(&mut self, group: &mut G) -> Result<bool, SessionError> {
        self.release();
        let Step::Swap(swap) = self.next() else { return Ok(false) };
        let found = perform(group, swap)?;
        Ok(self.take(&found))
    }
}

fn perform<G: Group>(group: &mut G, swap: Swap) -> Result<Originals, SessionError> {
    let id = group.submit(&Op { swap: Some(swap), ..Op::default() }, &[])?;
    group.wait(id)
}

/// Returns how long to wait before another attempt, at random: up to 25 us after the first one, and twice as long after each
/// further one, up to 25 ms.
pub fn backoff(random: u64, attempt: u32) -> Duration {
    Duration::from_micros(random % (25 << attempt.min(10)))
}

const MASK: u64 = 0xFF_FFFF;

#[cfg(test)]
mod tests;
