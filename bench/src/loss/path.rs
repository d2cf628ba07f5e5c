//! What lies between the two hosts.

use core::num::NonZeroU64;
use core::ops::Range;

use weft_netif::{Bursts, Duration, ImpairmentConfig, Instant};

use crate::process::next_number;

/// What frames meet between the two hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Path {
    /// On the way of the data.
    pub(super) there: ImpairmentConfig,
    /// On the way of the acknowledgements.
    pub(super) back: ImpairmentConfig,
    /// When both ways are down, counted from the moment in which the path is laid.
    pub(super) outage: Option<Range<Duration>>,
}

impl Path {
    /// Returns a path with this delay in each direction.
    pub(super) fn new(delay: Duration) -> Self {
        let way = ImpairmentConfig { delay, ..ImpairmentConfig::default() };
        Self { there: way.clone(), back: way, outage: None }
    }

    /// Returns a path that loses this share of the frames of each direction.
    pub(super) fn lossy(loss: f64, delay: Duration) -> Self {
        let Self { there, back, .. } = Self::new(delay);
        Self {
            there: ImpairmentConfig { loss, ..there },
            back: ImpairmentConfig { loss, ..back },
            outage: None,
        }
    }

    /// Returns a path that loses 1 % of the frames of each direction, 8 in a row on average.
    pub(super) fn bursts(delay: Duration) -> Self {
        let Self { there, back, .. } = Self::new(delay);
        let bursts = Some(Bursts::of(8.0, 0.01));
        Self {
            there: ImpairmentConfig { bursts, ..there },
            back: ImpairmentConfig { bursts, ..back },
            outage: None,
        }
    }

    /// Returns a path on which 5 % of the data frames come 0.1 to 1.1 ms late. All delay is on the way back, since an
    /// impairment holds frames longer on a way with a delay.
    pub(super) fn reordering(delay: Duration) -> Self {
        let there = ImpairmentConfig { reorder: 0.05, ..ImpairmentConfig::default() };
        let back = ImpairmentConfig { delay: delay + delay, ..ImpairmentConfig::default() };
        Self { there, back, outage: None }
    }

    /// Returns a path whose way of the data is a line of 200 Mbit/s, with a queue of the octets that are under way in
    /// one round trip.
    pub(super) fn bottleneck(delay: Duration) -> Self {
        let Self { there, back, .. } = Self::new(delay);
        let rate = NonZeroU64::new(LINE);
        let queue = Some(LINE / 8 * 2 * delay.total_micros() / 1_000_000);
        Self { there: ImpairmentConfig { rate, queue, ..there }, back, outage: None }
    }

    /// Returns the impairments of both directions, if the path is laid at `now`. Each path has other random numbers.
    pub(super) fn laid(&self, now: Instant) -> [ImpairmentConfig; 2] {
        let down = self.outage.as_ref().map(|outage| now + outage.start..now + outage.end);
        [&self.there, &self.back].map(|way| ImpairmentConfig {
            seed: next_number().into(),
            down: down.clone(),
            ..way.clone()
        })
    }
}

/// The line of a bottleneck, in bit/s.
const LINE: u64 = 200_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bottleneck_has_room_for_one_round_trip() {
        let path = Path::bottleneck(Duration::from_millis(10));
        assert_eq!((path.there.queue, path.back.queue), (Some(500_000), None));
    }

    #[test]
    fn an_outage_begins_when_the_path_is_laid_and_no_two_paths_are_alike() {
        let millis = Duration::from_millis;
        let path = Path { outage: Some(millis(5)..millis(7)), ..Path::lossy(0.01, millis(1)) };
        let now = Instant::from_millis(100);
        let ways = path.laid(now);
        for way in &ways {
            assert_eq!(way.down, Some(Instant::from_millis(105)..Instant::from_millis(107)));
            assert!(way.loss > 0.0 && way.delay == millis(1));
        }
        assert_ne!(ways[0].seed, ways[1].seed);
        assert_ne!(ways, path.laid(now));
    }
}
