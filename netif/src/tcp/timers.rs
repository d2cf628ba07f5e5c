//! Deadlines of connections: those that are far off to a tick, those that are near to a microsecond.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use smoltcp::time::Instant;
use weft_tcp::Micros;

use crate::wheel::Wheel;

/// The next deadline of each connection, by its place in the table.
#[derive(Debug)]
pub(crate) struct Timers {
    wheel: Wheel,
    /// Deadlines within the next ticks, and some that are not valid any more.
    near: BinaryHeap<Reverse<(Micros, usize)>>,
    /// The valid one of these for each key.
    near_of: Vec<Option<Micros>>,
}

impl Timers {
    pub(crate) fn new(now: Instant) -> Self {
        Self { wheel: Wheel::new(now), near: BinaryHeap::new(), near_of: Vec::new() }
    }

    /// Has `key` fire at the deadline, or before: an earlier deadline may stay.
    pub(crate) fn arm_by(&mut self, key: usize, deadline: Micros, now: Micros) {
        if deadline.since(now) >= NEAR {
            return self.wheel.arm_by(key, instant(deadline));
        }
        if self.near_of.len() <= key {
            self.near_of.resize(key + 1, None);
        }
        if self.near_of[key].is_none_or(|armed| deadline < armed) {
            self.near_of[key] = Some(deadline);
            self.near.push(Reverse((deadline, key)));
        }
    }

    pub(crate) fn cancel(&mut self, key: usize) {
        self.wheel.cancel(key);
        if let Some(near) = self.near_of.get_mut(key) {
            *near = None;
        }
    }

    /// Takes out one key whose deadline has come. The caller repeats this until it returns `None`.
    pub(crate) fn pop_due(&mut self, now: Micros) -> Option<usize> {
        while let Some(&Reverse((deadline, key))) = self.near.peek().filter(|due| due.0.0 <= now) {
            self.near.pop();
            if self.near_of[key] == Some(deadline) {
                self.near_of[key] = None;
                return Some(key);
            }
        }
        self.wheel.pop_due(instant(now))
    }

    /// Returns the time for the next [`Self::pop_due`]. It is never late.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let near = self.near.peek().map(|Reverse((deadline, _))| instant(*deadline));
        [near, self.wheel.next_deadline()].into_iter().flatten().min()
    }
}

/// Returns a point in time in microseconds.
pub(crate) fn micros(now: Instant) -> Micros {
    Micros(u64::try_from(now.total_micros()).unwrap_or(0))
}

/// Returns a point in time as the stack's users have it.
pub(crate) fn instant(time: Micros) -> Instant {
    Instant::from_micros(i64::try_from(time.0).unwrap_or(i64::MAX))
}

/// Deadlines within this time are exact. The wheel rounds others up to its tick of a millisecond.
const NEAR: Micros = Micros::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_deadlines_are_exact_and_far_ones_not_late() {
        let mut timers = Timers::new(Instant::ZERO);
        let start = Micros(0);
        timers.arm_by(5, Micros(1700), start);
        timers.arm_by(5, Micros(1900), start);
        timers.arm_by(3, Micros(777), start);
        timers.arm_by(4, Micros(30_500), start);
        assert_eq!((timers.next_deadline(), timers.pop_due(Micros(776))), (Some(instant(Micros(777))), None));
        assert_eq!([0; 3].map(|_| timers.pop_due(Micros(1700))), [Some(3), Some(5), None]);
        timers.arm_by(3, Micros(2500), Micros(1700));
        timers.cancel(3);
        timers.arm_by(5, Micros(3000), Micros(1700));
        timers.arm_by(5, Micros(2900), Micros(1700));
        assert_eq!([0; 2].map(|_| timers.pop_due(Micros(3000))), [Some(5), None]);
        let next = timers.next_deadline().unwrap();
        assert!(next <= instant(Micros(31_000)));
        assert_eq!([0; 2].map(|_| timers.pop_due(Micros(31_000))), [Some(4), None]);
        assert_eq!(timers.next_deadline(), None);
    }
}
