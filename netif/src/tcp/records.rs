//! Small records of connections that are half-open or in TIME-WAIT, with their deadlines.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use weft_tcp::{HalfOpen, Micros, TimeWait};

use crate::demux::Tuple;
use crate::table::Keyed;

/// A half-open connection.
#[derive(Debug)]
pub(crate) struct Half {
    pub(crate) record: HalfOpen,
    pub(crate) port: u16,
    pub(crate) give_up_at: Micros,
}

/// A connection in TIME-WAIT.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) record: TimeWait,
    /// It was in another stack than its ports choose.
    pub(crate) is_moved: bool,
}

/// Records by their 4-tuples. Each has a deadline.
#[derive(Debug)]
pub(crate) struct Records<T> {
    by_tuple: HashMap<Tuple, T, Keyed>,
    /// The deadlines, and some of records that are gone or have a later one.
    due: BinaryHeap<Reverse<(Micros, Tuple)>>,
}

impl<T> Records<T> {
    /// Returns an empty set. The seed changes nothing but the time that a look-up takes.
    pub(crate) fn new(seed: u64) -> Self {
        Self { by_tuple: HashMap::with_hasher(Keyed::new(seed)), due: BinaryHeap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_tuple.len()
    }

    pub(crate) fn insert(&mut self, tuple: Tuple, record: T, deadline: Micros) {
        self.by_tuple.insert(tuple, record);
        self.arm(tuple, deadline);
    }

    /// Sets one more deadline of a record.
    pub(crate) fn arm(&mut self, tuple: Tuple, deadline: Micros) {
        if self.due.len() > 2 * self.by_tuple.len() + SLACK {
            let by_tuple = &self.by_tuple;
            self.due.retain(|Reverse((_, tuple))| by_tuple.contains_key(tuple));
        }
        self.due.push(Reverse((deadline, tuple)));
    }

    pub(crate) fn get_mut(&mut self, tuple: &Tuple) -> Option<&mut T> {
        if self.by_tuple.is_empty() { None } else { self.by_tuple.get_mut(tuple) }
    }

    pub(crate) fn contains(&self, tuple: &Tuple) -> bool {
        self.by_tuple.contains_key(tuple)
    }

    pub(crate) fn remove(&mut self, tuple: &Tuple) -> Option<T> {
        self.by_tuple.remove(tuple)
    }

    /// Removes all records that `is_over` names, and hands them out.
    pub(crate) fn take_all(&mut self, mut is_over: impl FnMut(&Tuple, &T) -> bool) -> Vec<T> {
        self.by_tuple.extract_if(|tuple, record| is_over(tuple, record)).map(|(_, record)| record).collect()
    }

    /// Returns the next deadline. There may be none at that time.
    pub(crate) fn next_due(&self) -> Option<Micros> {
        self.due.peek().map(|Reverse((deadline, _))| *deadline)
    }

    /// Returns a record whose deadline is over. The caller removes the record, or sets its next deadline.
    pub(crate) fn pop_due(&mut self, now: Micros) -> Option<Tuple> {
        while self.next_due().is_some_and(|deadline| deadline <= now) {
            let Reverse((_, tuple)) = self.due.pop()?;
            if self.contains(&tuple) {
                return Some(tuple);
            }
        }
        None
    }

    /// Returns the record with the first deadline.
    pub(crate) fn pop_first(&mut self) -> Option<Tuple> {
        self.pop_due(Micros(u64::MAX))
    }
}

/// Deadlines of no record that do not matter.
const SLACK: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_of_what_is_gone_are_passed_over_and_do_not_pile_up() {
        let tuple = |port| Tuple { local: ([10, 0, 0, 1], 7).into(), remote: ([10, 0, 0, 2], port).into() };
        let mut records = Records::new(1);
        records.insert(tuple(1), "one", Micros(30));
        records.insert(tuple(2), "two", Micros(10));
        records.insert(tuple(3), "three", Micros(20));
        assert_eq!(records.remove(&tuple(2)), Some("two"));
        assert_eq!((records.pop_due(Micros(9)), records.pop_due(Micros(20))), (None, Some(tuple(3))));
        assert_eq!((records.next_due(), records.pop_first()), (Some(Micros(30)), Some(tuple(1))));
        for number in 0..1000 {
            records.arm(tuple(9), Micros(number));
        }
        assert!(records.due.len() < 100);
        assert_eq!(records.pop_due(Micros(1000)), None);
        assert_eq!(records.take_all(|_, record| *record == "one"), ["one"]);
        assert_eq!(records.len(), 1);
    }
}
