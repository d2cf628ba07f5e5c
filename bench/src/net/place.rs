//! Two threads, each on a core and in a network namespace of its own, that work in rounds and give up together.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::work::Work;
use super::{Outcome, say};
use crate::case::{Effort, Sample, Trouble};
use crate::cores::keep_to;
use crate::watch::Watch;

/// The core and the network namespace of one end.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The index among the cores that this process may use. On a machine with one core it is ignored.
    core: usize,
    /// A network namespace other than that of the process.
    net: Option<OwnedFd>,
}

/// One end of a connection, which does its part of each round.
pub(crate) trait End {
    /// The name of the threads. By it a profiler tells the sides of a comparison apart (`perf report --sort comm,sym`).
    const NAME: &'static str;

    /// Prepares a round. Not timed.
    fn prepare(&mut self) -> Outcome;

    /// The server's part of a round.
    fn serve(&mut self) -> Outcome;

    /// The client's part of each round, up to the server's last answer. This part is timed.
    fn ask(&mut self) -> Outcome;

    /// Compares every octet that has come in the round, and overwrites it. Not timed.
    fn check(&mut self) -> Outcome;

    /// Keeps TCP going while the other end prepares or checks.
    fn progress(&mut self) {}
}

/// The state that the two ends share: their progress, and whether one has failed.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    prepared: AtomicU64,
    begun: AtomicU64,
    is_finished: AtomicBool,
    has_failed: AtomicBool,
}

/// The patience of a spinning thread. It ends when the other end has failed, or when nothing happened for too long.
#[derive(Debug)]
pub(crate) struct Patience<'a> {
    shared: &'a Shared,
    idle: u32,
    since: Option<Instant>,
}

impl Place {
    /// Returns a place on a core, in the network namespace of the process.
    pub(crate) const fn on(core: usize) -> Self {
        Self { core, net: None }
    }

    /// Returns a place on a core, in another network namespace.
    pub(crate) const fn within(core: usize, net: OwnedFd) -> Self {
        Self { core, net: Some(net) }
    }

    /// Moves the calling thread there.
    pub(crate) fn enter(&self) -> Outcome {
        if let Some(net) = &self.net {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(net.as_fd(), kind).map_err(say("moving to a network namespace"))?;
        }
        keep_to(self.core).map_err(say("keeping to a core"))
    }
}

impl Shared {
    /// Returns the patience of a thread that spins.
    pub(crate) const fn patience(&self) -> Patience<'_> {
        Patience { shared: self, idle: 0, since: None }
    }

    /// Runs the server's rounds until the client ends them.
    fn serve(&self, mut end: impl End) -> Outcome {
        for round in 1.. {
            end.prepare()?;
            self.prepared.store(round, Ordering::Release);
            let mut patience = self.patience();
            while self.begun.load(Ordering::Acquire) < round {
                if self.is_finished.load(Ordering::Acquire) {
                    return Ok(());
                }
                end.progress();
                patience.idle()?;
            }
            end.serve()?;
            end.check()?;
        }
        Ok(())
    }

    /// Runs the client's rounds. The first ones warm buffers, windows and caches, and are not counted.
    fn ask(&self, mut end: impl End, work: &Work, effort: &Effort) -> Outcome<Sample> {
        let warm_up = Effort { turn: effort.turn / 5, ..*effort };
        let mut round = 0;
        let mut sample = Sample::default();
        for effort in [&warm_up, effort] {
            let mut watch = Watch::new(effort);
            while watch.goes_on() {
                round += 1;
                end.prepare()?;
                self.wait_for_server(round, &mut end)?;
                self.begun.store(round, Ordering::Release);
                watch.time(|| end.ask())?;
                end.check()?;
                watch.count(work.round as u64, work.octets(), work.round as u64);
            }
            sample = watch.finish();
        }
        // The server is ready for a further round only when it has checked the last one.
        self.wait_for_server(round + 1, &mut end)?;
        self.is_finished.store(true, Ordering::Release);
        Ok(sample)
    }

    fn wait_for_server(&self, round: u64, end: &mut impl End) -> Outcome {
        let mut patience = self.patience();
        while self.prepared.load(Ordering::Acquire) < round {
            end.progress();
            patience.idle()?;
        }
        Ok(())
    }
}

impl Patience<'_> {
    /// Notes that there was nothing to do.
    pub(crate) fn idle(&mut self) -> Outcome {
        core::hint::spin_loop();
        self.idle = self.idle.wrapping_add(1);
        if self.idle.is_multiple_of(LOOKS) { self.look() } else { Ok(()) }
    }

    /// Notes that something has happened.
    pub(crate) const fn rest(&mut self) {
        self.since = None;
    }

    #[cold]
    fn look(&mut self) -> Outcome {
        if self.shared.has_failed.load(Ordering::Acquire) {
            return Err(Trouble::failed(GAVE_UP));
        }
        let now = now();
        if now.duration_since(*self.since.get_or_insert(now)) > PATIENCE {
            return Err(Trouble::failed(format!("nothing happens for {} s", PATIENCE.as_secs())));
        }
        Ok(())
    }
}

/// Runs a turn: opens both ends, each on a thread in its place, and lets them do rounds of `work`. The first end is the
/// server.
pub(crate) fn turn<'a, S: End, C: End>(
    (places, shared): (&[Place; 2], &'a Shared),
    server: impl FnOnce(&'a Shared) -> Outcome<S> + Send,
    client: impl FnOnce(&'a Shared) -> Outcome<C> + Send,
    work: &Work,
    effort: &Effort,
) -> Outcome<Sample> {
    let panicked = || Trouble::failed("an end has panicked");
    let (served, asked) = std::thread::scope(|scope| {
        let serve = || shared.run(&places[0], || shared.serve(server(shared)?));
        let ask = || shared.run(&places[1], || shared.ask(client(shared)?, work, effort));
        let name = |role: &str, name: &str| std::thread::Builder::new().name(format!("{name} {role}"));
        let server = name("server", S::NAME).spawn_scoped(scope, serve).map_err(say("a thread"));
        let client = name("client", C::NAME).spawn_scoped(scope, ask).map_err(say("a thread"));
        (
            server.and_then(|server| server.join().unwrap_or_else(|_| Err(panicked()))),
            client.and_then(|client| client.join().unwrap_or_else(|_| Err(panicked()))),
        )
    });
    match (served, asked) {
        (Ok(()), asked) => asked,
        // The end that failed first knows why.
        (Err(server), Err(client)) if server == Trouble::failed(GAVE_UP) => Err(client),
        (Err(server), _) => Err(server),
    }
}

impl Shared {
    /// Runs `act` in a place. If that fails, the other end is told.
    fn run<T>(&self, place: &Place, act: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let alarm = Alarm(self);
        let result = place.enter().and_then(|()| act());
        if result.is_ok() {
            core::mem::forget(alarm);
        }
        result
    }
}

/// Tells the other end of a failure or panic when it is dropped.
struct Alarm<'a>(&'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.has_failed.store(true, Ordering::Release);
    }
}

/// The machine's clock.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The longest time in which nothing may happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Turns without work between two looks at the clock.
const LOOKS: u32 = 1 << 12;
const GAVE_UP: &str = "the other end has failed";

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails from the third round on, in one of its parts.
    struct Frail<'a> {
        patience: Patience<'a>,
        fails: Option<&'static str>,
        rounds: &'a AtomicU64,
    }

    impl Frail<'_> {
        fn part(&self, name: &str) -> Outcome {
            let fails = self.fails == Some(name) && self.rounds.load(Ordering::Relaxed) >= 3;
            if fails { Err(Trouble::failed(name)) } else { Ok(()) }
        }
    }

    impl End for Frail<'_> {
        const NAME: &'static str = "frail";

        fn prepare(&mut self) -> Outcome {
            self.part("prepare")
        }

        fn serve(&mut self) -> Outcome {
            self.part("serve")
        }

        fn ask(&mut self) -> Outcome {
            self.rounds.fetch_add(1, Ordering::Relaxed);
            self.part("ask")
        }

        fn check(&mut self) -> Outcome {
            self.patience.rest();
            self.part("check")
        }
    }

    fn take(fails: [Option<&'static str>; 2]) -> (Outcome<Sample>, u64) {
        let effort = Effort { turn: Duration::from_millis(2), pairs: 5, is_tiny: true };
        let (work, rounds, shared) = (Work::stream(1 << 20, &effort), AtomicU64::new(0), Shared::default());
        let open = |fails| {
            let rounds = &rounds;
            move |shared| Ok(Frail { patience: Shared::patience(shared), fails, rounds })
        };
        let places = [Place::on(0), Place::on(1)];
        let taken = turn((&places, &shared), open(fails[0]), open(fails[1]), &work, &effort);
        (taken, rounds.load(Ordering::Relaxed))
    }

    #[test]
    fn an_end_that_fails_ends_the_other_one_with_its_reason() {
        for part in ["prepare", "serve", "check"] {
            assert_eq!(take([Some(part), None]).0.unwrap_err(), Trouble::failed(part));
        }
        for part in ["prepare", "ask", "check"] {
            assert_eq!(take([None, Some(part)]).0.unwrap_err(), Trouble::failed(part));
        }
    }

    #[test]
    fn a_turn_lasts_as_long_as_it_should_and_all_is_checked() {
        let (taken, rounds) = take([None, None]);
        let sample = taken.unwrap();
        assert!(sample.wall >= Duration::from_millis(2), "{sample:?}");
        assert_eq!(sample.checked, sample.transfers);
        assert!(sample.transfers / 8 < rounds, "the warm-up does not count: {rounds} rounds, {sample:?}");
    }
}
