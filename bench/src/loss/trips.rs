//! Turns of round trips.

use std::time::Duration;

use super::conversation::{End, Guard, Stack, converse};
use super::path::Path;
use super::scene::Scene;
use super::shared::{Measured, Taken};
use super::stream::DIFFERENT;
use crate::case::{Effort, Sample, Trouble};
use crate::harness::percentile;
use crate::net::{Kind, Work, now};
use crate::process::Outcome;
use crate::watch::Watch;

/// Round trips of 64 octets, one at a time. Its figures are the microseconds that so many of 1000 do not exceed: 500,
/// 990 and 999.
pub(super) struct Trips<S> {
    pub(super) stack: S,
    pub(super) path: Path,
    /// How many times longer than others its turns are.
    pub(super) longer: u32,
}

impl<S: Stack> Measured for Trips<S> {
    fn take(&mut self, effort: &Effort) -> Outcome<Taken> {
        let scene = Scene::with(&self.path)?;
        let guard = &Guard::new(scene);
        let turn = effort.turn * self.longer;
        let ask = |mut end: S::End<'_>| ask(&mut end, guard, turn);
        let ((sample, mut micros), ()) =
            converse((scene, guard), (self.stack, TRIPS), ask, |mut end| answer(&mut end))?;
        let figures = [500, 990, 999].map(|per_mille| Ok(percentile(&mut micros, per_mille)));
        Ok(Taken { sample, figures: figures.into() })
    }

    fn floor(&self) -> Option<f64> {
        self.stack.floor()
    }
}

/// Makes round trips, and returns the microseconds of each behind those that warm up.
fn ask(end: &mut impl End, guard: &Guard<'_>, turn: Duration) -> Outcome<(Sample, Vec<f64>)> {
    let mut index = 0;
    let mut trips = |least: Duration| {
        let (begun, mut micros) = (now(), Vec::new());
        loop {
            let sent = now();
            if !end.send(index)? || !end.receive(index)? {
                return Err(Trouble::failed("the round trips have ended too early"));
            }
            index += 1;
            micros.push(sent.elapsed().as_secs_f64() * 1e6);
            if begun.elapsed() >= least {
                return Ok(micros);
            }
        }
    };
    trips(turn / 5)?;
    let mut watch = Watch::new(&Effort { turn, pairs: 1, is_tiny: false });
    let micros = watch.time(|| trips(turn))?;
    guard.end();
    let count = micros.len() as u64;
    watch.count(count, count * TRIPS.size as u64, count);
    Ok((watch.finish(), micros))
}

fn answer(end: &mut impl End) -> Outcome<()> {
    for index in 0.. {
        if !end.receive(index)? || !end.send(index)? {
            break;
        }
    }
    Ok(())
}

const TRIPS: Work = Work { kind: Kind::RoundTrips, size: 64, batch: 1, round: DIFFERENT };
