//! Turns in which the path is down for a while.

use core::ops::Range;

use weft_netif::Duration;

use super::conversation::{Guard, Stack, converse};
use super::path::Path;
use super::scene::Scene;
use super::seen::BIN;
use super::stream::{STREAM, sink, source};
use crate::case::{Effort, Sample, Side, Trouble};
use crate::process::Outcome;

/// A stream whose path is down once. Its figure is the milliseconds from then until the full rate is back.
pub(super) struct Blackout<S> {
    pub(super) stack: S,
    pub(super) outage: Duration,
}

/// Round trip of the path, in milliseconds.
pub(super) const ROUND_TRIP: u64 = 2;

impl<S: Stack> Side for Blackout<S> {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let start = Duration::from(effort.turn / 2).max(LEAST);
        let down = start..start + self.outage;
        let path =
            Path { outage: Some(down.clone()), ..Path::bottleneck(Duration::from_millis(ROUND_TRIP / 2)) };
        let scene = Scene::with(&path)?;
        let guard = &Guard::new(scene);
        let until = (down.end + Duration::from(effort.turn).max(BEHIND)).into();
        let sink = |mut end: S::End<'_>| sink(&mut end, guard, [std::time::Duration::ZERO, until]);
        let ((), sample) =
            converse((scene, guard), (self.stack, STREAM), |mut end| source(&mut end).map(drop), sink)?;
        match scene.relay.look()?.flows.as_slice() {
            [flow] => Ok(Sample { figure: recovery(&flow.delivered, &down)?, ..sample }),
            others => Err(Trouble::failed(format!("{} connections instead of one", others.len()))),
        }
    }

    fn is_fresh(&self) -> bool {
        true
    }

    fn floor(&self) -> Option<f64> {
        self.stack.floor()
    }
}

/// Returns the milliseconds from the start of the outage until four bins in a row have 0.8 of the rate before it, and
/// each of them half of it, or until the end of what was seen. The rate before it is the mean of the second half of the
/// time before it.
fn recovery(delivered: &[u64], down: &Range<Duration>) -> Outcome<f64> {
    let bin =
        |time: Duration| usize::try_from(time.total_micros() / BIN.total_micros()).unwrap_or(usize::MAX);
    let (start, end) = (bin(down.start), bin(down.end));
    let before = delivered.get(start / 2..start).unwrap_or_default();
    let rate = before.iter().sum::<u64>() as f64 / before.len().max(1) as f64;
    if rate <= 0.0 {
        return Err(Trouble::failed("nothing was delivered before the outage"));
    }
    let behind = delivered.get(end..).unwrap_or_default();
    let is_full = |bins: &[u64]| {
        let all = bins.iter().sum::<u64>() as f64;
        all >= FULL * rate * bins.len() as f64 && bins.iter().all(|&octets| octets as f64 >= rate / 2.0)
    };
    let bins = behind.windows(BINS).position(is_full).unwrap_or(behind.len());
    Ok(((end - start + bins) as u64 * BIN.total_millis()) as f64)
}

/// The least time before the outage, for a connection and its rate.
const LEAST: Duration = Duration::from_secs(2);
/// The least time behind it.
const BEHIND: Duration = Duration::from_millis(500);
/// Bins in a row that show a rate.
const BINS: usize = 4;
/// The part of the rate that counts as the full one.
const FULL: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_rate_is_back_when_it_lasts() {
        let millis = Duration::from_millis;
        let down = millis(100)..millis(150);
        // A rate of 100 on average, the outage, and a bin of what was missing.
        let mut bins = vec![10, 20, 40, 80, 100, 100, 0, 200, 90, 110];
        bins.extend([0; 6]);
        bins.extend([300, 10, 20]);
        assert_eq!(recovery(&[&bins[..], &[85, 90, 80, 75, 10]].concat(), &down), Ok(90.0));
        assert_eq!(recovery(&bins, &down), Ok(90.0), "not before the end");
        assert_eq!(recovery(&[100; 40], &down), Ok(50.0), "at once");
        assert!(recovery(&[0; 40], &down).is_err() && recovery(&[100; 3], &down).is_err());
    }
}
