//! The counts of one or many runs. They show that rare events really occurred.

use std::collections::BTreeMap;

/// All counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub seeds: u64,
    /// Times that the engines were polled.
    pub steps: u64,
    /// Virtual time, in microseconds.
    pub virtual_micros: u64,
    /// Octets of the operations that succeeded.
    pub octets: u64,
    /// Frames that were sent.
    pub frames: u64,
    /// Operations that succeeded, by kind.
    pub operations: BTreeMap<String, u64>,
    /// Faults of frames, links and applications, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Ends of connections, by reason.
    pub ends: BTreeMap<String, u64>,
    /// Requests that were bad on purpose and ended their connection, by kind.
    pub bad: BTreeMap<String, u64>,
    /// Completions without success, by status.
    pub statuses: BTreeMap<String, u64>,
}

impl Tally {
    /// Adds the counts of other runs.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.virtual_micros += other.virtual_micros;
        self.octets += other.octets;
        self.frames += other.frames;
        let maps = [
            (&mut self.operations, &other.operations),
            (&mut self.faults, &other.faults),
            (&mut self.ends, &other.ends),
            (&mut self.bad, &other.bad),
            (&mut self.statuses, &other.statuses),
        ];
        for (mine, theirs) in maps {
            for (name, count) in theirs {
                *mine.entry(name.clone()).or_default() += count;
            }
        }
    }

    pub(crate) fn operation(&mut self, name: &str, octets: usize) {
        count(&mut self.operations, name, 1);
        self.octets += octets as u64;
    }

    pub(crate) fn fault(&mut self, name: &str, number: u64) {
        count(&mut self.faults, name, number);
    }

    pub(crate) fn end(&mut self, name: &str) {
        count(&mut self.ends, name, 1);
    }

    pub(crate) fn bad(&mut self, name: &str) {
        count(&mut self.bad, name, 1);
    }

    pub(crate) fn status(&mut self, name: &str) {
        count(&mut self.statuses, name, 1);
    }
}

fn count(map: &mut BTreeMap<String, u64>, name: &str, number: u64) {
    match map.get_mut(name) {
        Some(count) => *count += number,
        None if number > 0 => {
            map.insert(name.to_owned(), number);
        }
        None => {}
    }
}
