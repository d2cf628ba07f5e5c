//! Turns of two connections at one bottleneck.

use core::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::conversation::{End, Guard, SLICE, Stack, both, converse};
use super::path::Path;
use super::scene::Scene;
use super::seen::Seen;
use super::shared::{Measured, Taken};
use super::stream::{STREAM, source};
use crate::case::{Effort, Sample, Trouble};
use crate::net::now;
use crate::process::Outcome;

/// Two streams, of which the first one begins earlier. The figures are the share of the line that the `told` one gets
/// in the last three quarters of their time together, and the frames that the queue has lost, or 1 if it has lost none.
pub(super) struct Fair<A, B> {
    pub(super) first: A,
    pub(super) second: B,
    pub(super) told: usize,
}

impl<A: Stack, B: Stack> Measured for Fair<A, B> {
    fn take(&mut self, effort: &Effort) -> Outcome<Taken> {
        let scene = Scene::with(&Path::bottleneck(DELAY))?;
        let guard = &Guard::new(scene);
        let (turn, &mut Self { first, second, told }) = (effort.turn * LONGER, self);
        let (of_first, of_second) = std::thread::scope(|scope| {
            let of_first = scope.spawn(move || stream(scene, guard, first));
            // If this fails, the streams know why.
            let _failed = wait_for_streams(1, scene, guard);
            std::thread::sleep(turn / LATER);
            let of_second = scope.spawn(move || stream(scene, guard, second));
            if let Ok(begun) = wait_for_streams(2, scene, guard) {
                while begun.elapsed() < turn && guard.goes_on().is_ok() {
                    std::thread::sleep(SLICE.min(turn / LATER));
                }
            }
            guard.end();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Outcome<usize>>| {
                thread.join().unwrap_or_else(|_| Err(Trouble::failed("a stream has panicked")))
            };
            (join(of_first), join(of_second))
        });
        let (one, other) = both(of_first, of_second)?;
        let messages = (one + other) as u64;
        let octets = messages * STREAM.size as u64;
        let sample =
            Sample { wall: turn, transfers: messages, octets, checked: messages, ..Sample::default() };
        let seen = scene.relay.look()?;
        let share = share(&seen, [first.source(), second.source()], told, turn);
        Ok(Taken { sample, figures: vec![share, Ok(seen.lost.max(1) as f64)] })
    }

    fn floor(&self) -> Option<f64> {
        self.first.floor().or_else(|| self.second.floor())
    }
}

/// Waits until so many streams have sent data. Returns the time.
fn wait_for_streams(count: usize, scene: &Scene, guard: &Guard<'_>) -> Outcome<Instant> {
    while scene.relay.look()?.flows.len() < count {
        guard.may_connect()?;
        std::thread::sleep(SLICE / 10);
    }
    Ok(now())
}

/// Has messages go until the guard ends them. Returns how many have come.
fn stream<S: Stack>(scene: &Scene, guard: &Guard<'_>, stack: S) -> Outcome<usize> {
    let sink = |mut end: S::End<'_>| {
        let mut index = 0;
        while guard.goes_on()? && end.receive(index)? {
            index += 1;
        }
        Ok(index)
    };
    let (_, received) = converse((scene, guard), (stack, STREAM), |mut end| source(&mut end), sink)?;
    Ok(received)
}

/// Returns the share that one of two connections got in the last three quarters of their time together.
fn share(seen: &Seen, sources: [Ipv4Addr; 2], told: usize, turn: Duration) -> Outcome<f64> {
    let [first, second] = seen.flows.as_slice() else {
        return Err(Trouble::failed(format!("{} connections at the bottleneck", seen.flows.len())));
    };
    if !first.is_from(sources[0]) || !second.is_from(sources[1]) {
        return Err(Trouble::failed("the second connection has sent data first"));
    }
    let [from, until] = [turn / 4, turn].map(|time| second.first + time.into());
    let octets = [first, second].map(|flow| flow.octets(from, until));
    match octets.iter().sum::<u64>() {
        0 => Err(Trouble::failed("nothing has come through the bottleneck")),
        all => Ok(octets[told] as f64 / all as f64),
    }
}

/// Of the bottleneck, each way.
const DELAY: weft_netif::Duration = weft_netif::Duration::from_millis(10);
/// How many times longer than others these turns are.
const LONGER: u32 = 10;
/// The second stream begins this part of a turn behind the first.
const LATER: u32 = 20;
