//! Contexts on virtual time, over a wire.

use weft_exs::{Context, Error, Messages, Op, Options, Outcome, Stream};
use weft_netif::{Duration, Instant};
use weft_rnic::{Clock, Config, Device, Progress};

use crate::world::octets;

/// Two contexts that a test drives.
struct Stepped {
    now: Instant,
    clock: Clock,
    sides: [Context; 2],
}

impl Stepped {
    fn new() -> Self {
        let (left, right) = weft_netif::pair(1500);
        let clock = Clock::virtual_time();
        let side = |wire, ip: &str, seed| {
            let mut config =
                Config { progress: Progress::External, ..Config::new(ip.parse().unwrap(), seed) };
            config.clock = clock.clone();
            Context::stepped(&Device::open(wire, config).unwrap()).unwrap()
        };
        let sides = [side(left, "10.0.0.1/24", 1), side(right, "10.0.0.2/24", 2)];
        Self { now: Instant::ZERO, clock, sides }
    }

    /// Drives both until the operation has ended. No thread sleeps.
    fn end<T>(&mut self, op: Op<T>) -> T {
        let mut op = op;
        for _ in 0..100_000 {
            match op.wait_timeout(std::time::Duration::ZERO) {
                Ok(outcome) => return outcome,
                Err(back) => op = back,
            }
            self.step();
        }
        panic!("it does not end, at {}", self.now)
    }

    fn step(&mut self) {
        self.clock.set(self.now);
        let next = self.sides.iter().filter_map(|side| side.drive(self.now)).min();
        let soon = self.now + Duration::from_micros(10);
        // Frames between the two come at once.
        self.now = next.map_or(soon, |next| next.clamp(soon, self.now + Duration::from_millis(1)));
    }
}

#[test]
fn sockets_work_on_virtual_time_and_close_in_it() {
    let mut world = Stepped::new();
    let options = Options::default();
    let listener = world.sides[1].listen::<Messages>(5000, &options).unwrap();
    let (accepting, peer) = (listener.accept(), world.sides[1].device().address(5000));
    let connecting = world.sides[0].connect::<Messages>(peer, &options);
    let ours = world.end(connecting).unwrap();
    let theirs = world.end(accepting).unwrap();
    for len in [10, 100_000] {
        let mut buf = world.sides[0].buffer(len).unwrap();
        buf.copy_from_slice(&octets(len, len));
        let sending = ours.send(buf, ..);
        let receiving = theirs.recv(world.sides[1].buffer(len).unwrap(), ..);
        let (received, buf) = world.end(receiving);
        assert_eq!(received.map(|outcome| outcome.octets as usize), Ok(len));
        assert!(buf[..] == octets(len, len));
        assert!(world.end(sending).0.is_ok());
    }
    // A peer that does not close holds a close for the time of the option.
    let receiving = theirs.recv(world.sides[1].buffer(10).unwrap(), ..);
    let before = world.now;
    let close = ours.close();
    assert_eq!(world.end(close), Err(Error::TimedOut));
    let (before, after) = (before, world.now);
    assert!(after - before >= Duration::from_secs(30), "{before} {after}");
    // The shutdown has come before that.
    assert_eq!(world.end(receiving).0, Ok(Outcome::END));
    let sending = theirs.send(world.sides[1].buffer(10).unwrap(), ..);
    assert_eq!(world.end(sending).0, Err(Error::Reset));
}

#[test]
fn the_same_seeds_give_the_same_run() {
    let run = || {
        let mut world = Stepped::new();
        let options = Options { ring: 8192, window: 8, ..Options::default() };
        let listener = world.sides[1].listen::<Stream>(5000, &options).unwrap();
        let (accepting, peer) = (listener.accept(), world.sides[1].device().address(5000));
        let connecting = world.sides[0].connect::<Stream>(peer, &options);
        let (ours, theirs) = (world.end(connecting).unwrap(), world.end(accepting).unwrap());
        let mut buf = world.sides[0].buffer(200_000).unwrap();
        buf.copy_from_slice(&octets(1, 200_000));
        let sending = ours.send(buf, ..);
        let mut came = Vec::new();
        let mut modes = Vec::new();
        while came.len() < 200_000 {
            let receiving = theirs.recv(world.sides[1].buffer(7001).unwrap(), ..);
            let (received, buf) = world.end(receiving);
            let received = received.unwrap();
            came.extend_from_slice(&buf[..received.octets as usize]);
            modes.push((received.octets, received.mode, world.now));
        }
        assert!(world.end(sending).0.is_ok());
        assert!(came == octets(1, 200_000));
        modes
    };
    assert_eq!(run(), run());
}

/// Nothing waits for a time that would end it anyway.
#[test]
fn a_close_of_both_sides_needs_no_time_limit() {
    let mut world = Stepped::new();
    let options = Options::default();
    let listener = world.sides[1].listen::<Messages>(5000, &options).unwrap();
    let (accepting, peer) = (listener.accept(), world.sides[1].device().address(5000));
    let connecting = world.sides[0].connect::<Messages>(peer, &options);
    let (ours, theirs) = (world.end(connecting).unwrap(), world.end(accepting).unwrap());
    let sending = ours.send(world.sides[0].buffer(10).unwrap(), ..);
    let receiving = theirs.recv(world.sides[1].buffer(10).unwrap(), ..);
    assert!(world.end(receiving).0.is_ok() && world.end(sending).0.is_ok());
    let before = world.now;
    let closes = [theirs.close(), ours.close()];
    assert!(closes.into_iter().all(|close| world.end(close) == Ok(())));
    drop((ours, theirs));
    while world.sides.iter().any(|side| side.sockets() > 0) {
        world.step();
        assert!(world.now - before < Duration::from_millis(500), "before any limit is over");
    }
}
