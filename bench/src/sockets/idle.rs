//! A conversation in which nothing is said.

use std::time::Duration;

use super::pair::Pair;
use crate::case::{Effort, Sample, Side};
use crate::process::Outcome;

/// The CPU time of a quiet conversation, as a share of one core.
pub(super) struct Idle(Option<Pair>);

impl Idle {
    /// Returns the side of a conversation that takes a short turn first.
    pub(super) fn after(pair: Pair) -> Box<dyn Side> {
        Box::new(Self(Some(pair)))
    }

    /// Returns the side of a core that is always busy.
    pub(super) fn one() -> Box<dyn Side> {
        Box::new(Self(None))
    }
}

impl Side for Idle {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let done = Sample { wall: effort.turn, transfers: 1, checked: 1, figure: 1.0, ..Sample::default() };
        let Some(pair) = &mut self.0 else { return Ok(done) };
        pair.turn(&Effort { turn: Duration::from_millis(1), ..*effort })?;
        let before = pair.cpu()?;
        // Nothing is waited for: the time itself is what is measured.
        std::thread::sleep(effort.turn);
        let cpu = pair.cpu()?.saturating_sub(before);
        Ok(Sample { cpu, figure: cpu.as_secs_f64() / effort.turn.as_secs_f64(), ..done })
    }
}
