//! Sides whose values follow from those of other sides.

use std::time::Duration;

use crate::case::{Effort, Sample, Side};
use crate::process::Outcome;

/// A side each of whose transfers counts as several.
pub(super) struct Times {
    side: Box<dyn Side>,
    factor: u64,
}

impl Times {
    /// Returns the side of messages one way, of messages there and back.
    pub(super) fn one_way(side: Box<dyn Side>) -> Box<dyn Side> {
        Box::new(Self { side, factor: 2 })
    }
}

impl Side for Times {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let sample = self.side.turn(effort)?;
        let (transfers, checked) = (sample.transfers * self.factor, sample.checked * self.factor);
        Ok(Sample { transfers, checked, ..sample })
    }
}

/// The time that each further KiB of a message takes, or that one thing takes more than another.
pub(super) struct Slope {
    small: Box<dyn Side>,
    large: Box<dyn Side>,
    /// The difference of their messages.
    kib: u32,
}

impl Slope {
    pub(super) fn between(small: Box<dyn Side>, large: Box<dyn Side>, kib: u32) -> Box<dyn Side> {
        Box::new(Self { small, large, kib })
    }

    /// Returns what `all` takes more than its `part`.
    pub(super) fn rest(part: Box<dyn Side>, all: Box<dyn Side>) -> Box<dyn Side> {
        Self::between(part, all, 1)
    }
}

impl Side for Slope {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let half = Effort { turn: effort.turn / 2, ..*effort };
        let (small, large) = (self.small.turn(&half)?, self.large.turn(&half)?);
        let seconds = |sample: &Sample| sample.wall.as_secs_f64() / sample.transfers.max(1) as f64;
        let more = (seconds(&large) - seconds(&small)).max(0.0);
        let transfers = large.transfers * u64::from(self.kib);
        // Noise can make the smaller message the slower one.
        let wall = Duration::from_secs_f64(more * large.transfers as f64).max(Duration::from_nanos(1));
        let octets = small.octets + large.octets;
        Ok(Sample { wall, transfers, octets, checked: transfers, cpu: small.cpu + large.cpu, figure: 0.0 })
    }
}
