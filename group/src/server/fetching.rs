//! Reads of another replica's memory.

use std::collections::VecDeque;
use std::ops::Range;

use weft_rnic::{Mr, Stag};

use crate::link::{DEPTH, Gone, Link};
use crate::resync::{Hash, next_piece};

/// Reads of a part of another replica.
#[derive(Debug)]
pub(super) struct Fetching {
    stag: Stag,
    sink: Mr,
    left: VecDeque<Range<u64>>,
    under_way: VecDeque<u64>,
    /// Octets that are not there yet.
    pub(super) missing: u64,
}

impl Fetching {
    pub(super) fn new((stag, sink): (Stag, Mr), left: VecDeque<Range<u64>>) -> Self {
        let missing = left.iter().map(|range| range.end - range.start).sum();
        Self { stag, sink, left, under_way: VecDeque::new(), missing }
    }

    /// Takes the Reads that are done, and begins others.
    pub(super) fn advance(&mut self, link: &mut Link) -> Result<(), Gone> {
        for _ in 0..link.take_done() {
            self.missing -= self.under_way.pop_front().ok_or(Gone)?;
        }
        while self.under_way.len() < DEPTH as usize {
            let Some(piece) = next_piece(&mut self.left) else { break };
            let end = usize::try_from(piece.end).map_err(|_| Gone)?;
            let start = usize::try_from(piece.start).map_err(|_| Gone)?;
            link.read((self.stag, piece.start), &self.sink, start..end)?;
            self.under_way.push_back(piece.end - piece.start);
        }
        Ok(())
    }

    /// Returns the hashes that were fetched.
    pub(super) fn hashes(&self, count: usize) -> Option<Vec<Hash>> {
        let mut octets = vec![0; count * size_of::<Hash>()];
        self.sink.read(0, &mut octets).ok()?;
        octets.chunks_exact(size_of::<Hash>()).map(|hash| hash.try_into().ok()).collect()
    }
}
