//! Turns of messages one way, for as long as the turn lasts.

use std::time::Duration;

use super::conversation::{End, Guard, Stack, converse};
use super::path::Path;
use super::scene::Scene;
use super::seen::Seen;
use super::shared::{Measured, Taken};
use crate::case::{Effort, Sample, Trouble};
use crate::net::{Kind, Work, now};
use crate::process::Outcome;
use crate::watch::Watch;

/// A stream on a path. Its figure is the share of segments that were sent again in vain.
pub(super) struct Stream<S> {
    pub(super) stack: S,
    pub(super) path: Path,
    /// How many times longer than others its turns are.
    pub(super) longer: u32,
}

/// Messages of 64 KiB.
pub(super) const STREAM: Work = Work { kind: Kind::Stream, size: 1 << 16, batch: 1, round: DIFFERENT };
/// Messages after which the same octets come again. No number of places for them divides it, so that an old message is
/// never taken for a new one.
pub(super) const DIFFERENT: usize = 257;

impl<S: Stack> Measured for Stream<S> {
    fn take(&mut self, effort: &Effort) -> Outcome<Taken> {
        let scene = Scene::with(&self.path)?;
        let guard = &Guard::new(scene);
        let turn = effort.turn * self.longer;
        let sink = |mut end: S::End<'_>| sink(&mut end, guard, [turn / 5, turn]);
        let ((), sample) =
            converse((scene, guard), (self.stack, STREAM), |mut end| source(&mut end).map(drop), sink)?;
        Ok(Taken { sample, figures: vec![repeated(&scene.relay.look()?)] })
    }

    fn floor(&self) -> Option<f64> {
        self.stack.floor()
    }
}

/// Sends messages until they are not wanted any more, and returns how many.
pub(super) fn source(end: &mut impl End) -> Outcome<usize> {
    let mut index = 0;
    while end.send(index)? {
        index += 1;
    }
    Ok(index)
}

/// Receives messages for some time that does not count, and then for some that does. Each time begins and ends with a
/// message.
pub(super) fn sink(end: &mut impl End, guard: &Guard<'_>, [warm_up, turn]: [Duration; 2]) -> Outcome<Sample> {
    let mut index = 0;
    let mut receive = |least: Duration| {
        let (begun, first) = (now(), index);
        loop {
            if !end.receive(index)? {
                return Err(Trouble::failed("the messages have ended too early"));
            }
            index += 1;
            if begun.elapsed() >= least {
                return Ok((index - first) as u64);
            }
        }
    };
    receive(Duration::ZERO)?;
    receive(warm_up)?;
    let mut watch = Watch::new(&Effort { turn, pairs: 1, is_tiny: false });
    let count = watch.time(|| receive(turn))?;
    guard.end();
    watch.count(count, count * STREAM.size as u64, count);
    Ok(watch.finish())
}

/// Returns the share of segments that were sent again. On a path without loss all of these were in vain.
fn repeated(seen: &Seen) -> Outcome<f64> {
    let sum = |count: fn(&super::seen::Flow) -> u64| seen.flows.iter().map(count).sum::<u64>();
    match sum(|flow| flow.segments) {
        0 => Err(Trouble::Skipped("the first second of a stream does not count".to_owned())),
        segments => Ok(sum(|flow| flow.repeated) as f64 / segments as f64),
    }
}
