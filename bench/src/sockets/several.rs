//! Several conversations at the same time.

use std::thread;

use super::pair::Pair;
use crate::case::{Effort, Sample, Side, Trouble};
use crate::process::Outcome;

/// Conversations that take their turns together.
pub(super) struct Several(Vec<Pair>);

impl Several {
    pub(super) fn of(pairs: Vec<Pair>) -> Box<dyn Side> {
        Box::new(Self(pairs))
    }
}

impl Side for Several {
    /// Returns the mean of one conversation's transfers, in the mean of their times.
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let samples: Vec<Outcome<Sample>> = thread::scope(|scope| {
            let turns: Vec<_> =
                self.0.iter_mut().map(|pair| scope.spawn(move || pair.turn(effort))).collect();
            let ended = turns.into_iter().map(thread::ScopedJoinHandle::join);
            ended.map(|turn| turn.unwrap_or_else(|_| Err(Trouble::failed("a turn panicked")))).collect()
        });
        let count = samples.len().max(1);
        let mut sum = Sample::default();
        for sample in samples {
            let sample = sample?;
            sum.wall += sample.wall;
            sum.cpu += sample.cpu;
            sum.transfers += sample.transfers;
            sum.octets += sample.octets;
            sum.checked += sample.checked;
        }
        let mean = |value: u64| value / count as u64;
        let parts = u32::try_from(count).unwrap_or(u32::MAX);
        Ok(Sample {
            wall: sum.wall / parts,
            cpu: sum.cpu / parts,
            transfers: mean(sum.transfers),
            octets: mean(sum.octets),
            checked: mean(sum.checked),
            figure: 0.0,
        })
    }
}
