//! What the memory of replicas may hold.
//!
//! Operations of a session are as if they were carried out one after the other. A replica has carried out all that were
//! acknowledged, and of those under way any part. So each octet has a value that it had behind one of these operations.

use weft_group::{Op, Originals, UNTOUCHED};

/// The contents of a session's range behind each of its operations.
#[derive(Debug)]
pub(super) struct Oracle {
    /// Behind the last acknowledged operation, and behind each one that was begun since.
    states: Vec<Vec<u8>>,
    replicas: usize,
}

impl Oracle {
    pub(super) fn new(len: usize, replicas: usize) -> Self {
        Self { states: vec![vec![0; len]], replicas }
    }

    /// An operation was begun. Returns what each replica finds in the word of a swap.
    pub(super) fn begin(&mut self, op: &Op, octets: &[u8]) -> Originals {
        let mut state = self.states.last().cloned().unwrap_or_default();
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(write) = &op.write {
            state[at(write.start)..at(write.end)].copy_from_slice(octets);
        }
        if let Some(copy) = op.copy {
            state.copy_within(at(copy.from)..at(copy.from) + copy.len as usize, at(copy.to));
        }
        let mut originals = [UNTOUCHED; 16];
        if let Some(swap) = op.swap {
            let word = at(swap.at)..at(swap.at) + 8;
            let found = state[word.clone()].first_chunk().map_or(0, |octets| u64::from_ne_bytes(*octets));
            originals[..self.replicas].fill(found);
            if found == swap.compare {
                state[word].copy_from_slice(&swap.swap.to_ne_bytes());
            }
        }
        self.states.push(state);
        originals
    }

    /// The oldest operation under way was acknowledged.
    pub(super) fn acknowledge(&mut self) {
        self.states.remove(0);
    }

    /// Checks the memory of a replica. The reason tells the first octet that is wrong.
    pub(super) fn check(&self, contents: &[u8]) -> Result<(), String> {
        let is_possible = |at: usize| self.states.iter().any(|state| state[at] == contents[at]);
        match (0..contents.len()).find(|at| !is_possible(*at)) {
            None => Ok(()),
            Some(at) => Err(format!(
                "octet {at} is {:#04x}, and was {:#04x} behind the last acknowledged operation; {} are under way",
                contents[at],
                self.states[0][at],
                self.states.len() - 1
            )),
        }
    }
}
