//! Counts the calls of the program.

use std::collections::BTreeMap;
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

/// The calls so far, by their names.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    calls: Mutex<BTreeMap<&'static str, Count>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    calls: u64,
    errors: u64,
    took: Duration,
}

impl Tally {
    pub(crate) fn count(&self, name: &'static str, took: Duration, has_failed: bool) {
        let mut calls = self.calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let count = calls.entry(name).or_default();
        count.calls += 1;
        count.errors += u64::from(has_failed);
        count.took += took;
    }

    /// Returns a table; the calls that took longest come first. It is empty if the process ends while a thread counts,
    /// as in a signal handler.
    pub(crate) fn report(&self, name: impl Fn(&str) -> String) -> Vec<String> {
        let calls = match self.calls.try_lock() {
            Ok(calls) => calls,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Vec::new(),
        };
        let mut rows: Vec<_> = calls.iter().map(|(call, count)| (name(call), *count)).collect();
        rows.sort_by(|a, b| b.1.took.cmp(&a.1.took).then_with(|| a.0.cmp(&b.0)));
        let head = format!("{:>10} {:>8} {:>12}  call", "calls", "errors", "seconds");
        let row = |(name, count): (String, Count)| {
            let seconds = count.took.as_secs_f64();
            format!("{:>10} {:>8} {seconds:>12.6}  {name}", count.calls, count.errors)
        };
        core::iter::once(head).chain(rows.into_iter().map(row)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_name_and_the_slowest_comes_first() {
        let tally = Tally::default();
        tally.count("a", Duration::from_micros(3), false);
        tally.count("b", Duration::from_micros(9), true);
        tally.count("a", Duration::from_micros(4), true);
        let report = tally.report(|name| format!("ibv_{name}"));
        let words: Vec<Vec<_>> = report.iter().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["1", "1", "0.000009", "ibv_b"]);
        assert_eq!(words[2], ["2", "1", "0.000007", "ibv_a"]);
    }
}
