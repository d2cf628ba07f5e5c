//! The operations under way of a session: so many slots, and which octets they use.
//!
//! The window is the only credit of a group. The slot of an operation is used again when its acknowledgement has come.

use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};

use crate::op::{Op, OpError, overlap};

/// The operations under way.
#[derive(Debug)]
pub struct Window {
    slots: u64,
    /// The number of the next operation.
    next: u64,
    flights: VecDeque<Flight>,
    /// Octets that are being changed: the end of each range by its start. No two of them overlap.
    changed: BTreeMap<u64, u64>,
}

/// What an operation under way uses.
#[derive(Debug)]
struct Flight {
    changed: [Range<u64>; 3],
    read: Option<Range<u64>>,
}

impl Window {
    /// Makes a window of so many slots, at least one.
    pub fn new(slots: u32) -> Self {
        let flights = VecDeque::with_capacity(slots as usize);
        Self { slots: slots.max(1).into(), next: 0, flights, changed: BTreeMap::new() }
    }

    /// Takes a slot for an operation, and returns its number. The slot is the number modulo the slots.
    ///
    /// # Errors
    /// [`OpError::Full`] and [`OpError::Conflict`].
    pub fn begin(&mut self, op: &Op) -> Result<u64, OpError> {
        self.check(op, 1)?;
        let changed = joined(op);
        let filled = changed.iter().filter(|range| !range.is_empty());
        self.changed.extend(filled.map(|range| (range.start, range.end)));
        self.flights.push_back(Flight { changed, read: op.read() });
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Checks whether an operation that takes so many slots can be begun now.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn check(&self, op: &Op, slots: u64) -> Result<(), OpError> {
        if self.len() + slots > self.slots {
            return Err(OpError::Full);
        }
        let is_read = |range: &Range<u64>| {
            self.flights.iter().filter_map(|flight| flight.read.as_ref()).any(|read| overlap(read, range))
        };
        let disturbs = |range: &Range<u64>| self.is_changing(range) || is_read(range);
        if joined(op).iter().any(disturbs) || op.read().is_some_and(|read| self.is_changing(&read)) {
            return Err(OpError::Conflict);
        }
        Ok(())
    }

    /// Ends the oldest operation, and returns its number; `None` if there is none.
    pub fn end(&mut self) -> Option<u64> {
        let number = self.oldest();
        let flight = self.flights.pop_front()?;
        for range in flight.changed.iter().filter(|range| !range.is_empty()) {
            self.changed.remove(&range.start);
        }
        Some(number)
    }

    /// Returns the number of the oldest operation under way, or of the next one.
    pub fn oldest(&self) -> u64 {
        self.next - self.len()
    }

    /// Returns how many operations are under way.
    pub fn len(&self) -> u64 {
        self.flights.len() as u64
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Returns whether an operation under way changes an octet of `range`.
    pub(crate) fn is_changing(&self, range: &Range<u64>) -> bool {
        let last = self.changed.range(..range.end).next_back();
        last.is_some_and(|(&start, &end)| overlap(&(start..end), range))
    }
}

/// Returns the octets that an operation changes, with no octet in two of the ranges. Some may be empty.
fn joined(op: &Op) -> [Range<u64>; 3] {
    let mut ranges = [const { 0..0 }; 3];
    for (place, range) in ranges.iter_mut().zip(op.changed()) {
        *place = range;
    }
    ranges.sort_unstable_by_key(|range| range.start);
    let [first, second, third] = &mut ranges;
    join(first, second);
    join(second, third);
    ranges
}

/// Moves the octets of a range to the next one, which does not begin before it, if the two overlap.
fn join(range: &mut Range<u64>, next: &mut Range<u64>) {
    if next.start < range.end {
        *next = range.start..range.end.max(next.end);
        *range = 0..0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::op::{Copy, Replicas, Swap};

    fn write(range: Range<u64>) -> Op {
        Op { write: Some(range), ..Op::default() }
    }

    #[test]
    fn a_slot_is_free_when_its_operation_has_ended() {
        let mut window = Window::new(2);
        assert_eq!((window.begin(&write(0..1)), window.begin(&write(1..2))), (Ok(0), Ok(1)));
        assert_eq!(window.begin(&write(2..3)), Err(OpError::Full));
        assert_eq!((window.end(), window.begin(&write(0..1))), (Some(0), Ok(2)));
        assert_eq!((window.end(), window.end(), window.end()), (Some(1), Some(2), None));
        assert_eq!((window.oldest(), window.len()), (3, 0));
    }

    #[test]
    fn flushes_conflict_with_nothing() {
        let mut window = Window::new(8);
        let flush = Op { flush: Some(0..100), ..Op::default() };
        for op in [&write(0..100), &flush, &flush] {
            window.begin(op).unwrap();
        }
    }

    fn op() -> impl Strategy<Value = Op> {
        let write = prop::option::of((0..60_u64, 0..20_u64).prop_map(|(at, len)| at..at + len));
        let copy = prop::option::of((0..60_u64, 0..60_u64, 0..12_u32));
        let swap = prop::option::of(0..8_u64);
        (write, copy, swap).prop_map(|(write, copy, swap)| Op {
            write,
            copy: copy.map(|(from, to, len)| Copy { from, to, len }),
            swap: swap.map(|at| Swap { at: at * 8, compare: 0, swap: 0, on: Replicas::ALL }),
            flush: None,
            ..Op::default()
        })
    }

    proptest! {
        /// A second implementation marks octets one by one.
        #[test]
        fn conflicts_are_those_of_single_octets(steps in prop::collection::vec(prop::option::weighted(0.7, op()), 1..60)) {
            let mut window = Window::new(5);
            let mut model: VecDeque<Op> = VecDeque::new();
            for step in steps {
                let Some(op) = step else {
                    prop_assert_eq!(window.end().is_some(), model.pop_front().is_some());
                    continue;
                };
                let uses = |op: &Op, at: u64| {
                    (op.changed().any(|range| range.contains(&at)), op.read().is_some_and(|range| range.contains(&at)))
                };
                let conflicts = |other: &Op| {
                    (0..100).any(|at| {
                        let ((changes, reads), (is_changed, is_read)) = (uses(&op, at), uses(other, at));
                        changes && (is_changed || is_read) || is_changed && reads
                    })
                };
                let expected = if model.len() == 5 {
                    Err(OpError::Full)
                } else if model.iter().any(conflicts) {
                    Err(OpError::Conflict)
                } else {
                    Ok(())
                };
                prop_assert_eq!(window.begin(&op).map(|_| ()), expected);
                if expected.is_ok() {
                    model.push_back(op);
                }
            }
        }
    }
}
