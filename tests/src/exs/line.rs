//! A line of a limited rate between two sockets: what arrives is what arithmetic allows.

use core::num::NonZeroU64;

use weft_exs::{Context, Mode, Options};
use weft_exs_core::Kind;
use weft_netif::{Duration, ImpairmentConfig, Instant};
use weft_rnic::Clock;

use super::socket::{Coming, Listener, Socket, Transfer, connect, taken};
use super::world::context;
use crate::simulate::hub::Hub;
use crate::simulate::random::Random;
use crate::simulate::trace::Trace;

/// Two sockets on a line.
struct Line {
    clock: Clock,
    hub: Hub,
    contexts: Vec<Context>,
    sockets: [Socket; 2],
}

impl Line {
    fn new(kind: Kind) -> Self {
        let faults = ImpairmentConfig {
            rate: NonZeroU64::new(RATE),
            delay: Duration::from_micros(5),
            ..ImpairmentConfig::default()
        };
        let (mut hub, wires) = Hub::new(2, MTU, &faults, &mut Random::new(1));
        hub.is_faulty = true;
        let clock = Clock::virtual_time();
        let contexts: Vec<_> =
            wires.into_iter().enumerate().map(|(host, wire)| context(wire, host, MTU, &clock)).collect();
        let options = Options::default();
        let listener = Listener::new(&contexts[1], kind, PORT, &options).expect("a port");
        let peer = contexts[1].device().address(PORT);
        let coming = [connect(&contexts[0], kind, peer, &options), listener.accept()];
        let mut ground = Ground { clock: &clock, hub: &mut hub, contexts: &contexts };
        let sockets = coming.map(|mut coming: Coming| ground.until(&mut coming).expect("a connection"));
        Self { clock, hub, contexts, sockets }
    }

    /// Moves so many messages, or parts of a stream, all at a time. Returns the microseconds from the first send to the last
    /// octet.
    fn transfer(&mut self, len: usize, count: usize) -> u64 {
        let octets: Vec<_> = (0..count).map(|number| Random::new(number as u64).octets(len)).collect();
        let mut ground = Ground { clock: &self.clock, hub: &mut self.hub, contexts: &self.contexts };
        let [sender, receiver] = &self.sockets;
        let receives: Vec<Transfer> = (0..count)
            .map(|_| receiver.receive(self.contexts[1].buffer(len).expect("memory"), 0, len, true))
            .collect();
        // The adverts of a stream are there.
        let begun = ground.clock.now() + Duration::from_millis(1);
        ground.run_to(begun);
        let sends: Vec<Transfer> = octets
            .iter()
            .map(|octets| {
                let mut buf = self.contexts[0].buffer(len).expect("memory");
                buf.copy_from_slice(octets);
                sender.send(buf, 0, len)
            })
            .collect();
        for (mut receive, octets) in receives.into_iter().zip(&octets) {
            let (result, buf) = ground.until(|| taken(&mut receive));
            assert!(matches!(result.map(|it| it.mode), Ok(Mode::Read | Mode::Direct)), "{result:?}");
            assert!(buf[..] == octets[..], "other octets");
        }
        let took = (ground.clock.now() - begun).total_micros();
        for mut send in sends {
            assert!(ground.until(|| taken(&mut send)).0.is_ok());
        }
        took
    }
}

/// What makes the time go on.
struct Ground<'a> {
    clock: &'a Clock,
    hub: &'a mut Hub,
    contexts: &'a [Context],
}

impl Ground<'_> {
    fn until<T>(&mut self, mut outcome: impl FnMut() -> Option<T>) -> T {
        for _ in 0..MOST_STEPS {
            if let Some(outcome) = outcome() {
                return outcome;
            }
            let next = self.step().expect("something happens");
            self.clock.set(next.max(self.clock.now()));
        }
        panic!("it does not end")
    }

    fn run_to(&mut self, end: Instant) {
        while let Some(next) = self.step().filter(|next| *next < end) {
            self.clock.set(next.max(self.clock.now()));
        }
        self.clock.set(end);
    }

    /// Does all that is to be done now. Returns when to go on.
    fn step(&mut self) -> Option<Instant> {
        let now = self.clock.now();
        let mut trace = Trace::new(false);
        self.hub.forward(now, &mut trace);
        let times: Vec<_> = self.contexts.iter().filter_map(|context| context.drive(now)).collect();
        self.hub.forward(now, &mut trace);
        let devices = self.contexts.iter().filter_map(|context| context.device().poll_at(now));
        times.into_iter().chain(devices).chain(self.hub.poll_at(now)).min()
    }
}

/// A frame of 1500 octets of IP takes 1538 octets of an Ethernet, and has 1440 octets of payload: 9.363 Gbit/s.
#[test]
fn messages_and_streams_get_what_the_headers_leave_of_a_line() {
    for kind in [Kind::Message, Kind::Stream] {
        let mut line = Line::new(kind);
        // TCP's congestion window grows with the first octets.
        line.transfer(1 << 20, 4);
        for (len, count) in [(1 << 20, 16), (16 << 20, 3)] {
            let took = line.transfer(len, count);
            let shortest = ((len * count) as u64 * 8 * 1538).div_ceil(1440) * 1_000_000 / RATE;
            println!("{kind:?}, {count} of {len} octets: {took} us, at least {shortest} us");
            assert!(took >= shortest && took * 996 <= shortest * 1000, "{took} us, and not {shortest} us");
        }
    }
}

/// In bit/s.
const RATE: u64 = 10_000_000_000;
const MTU: usize = 1500;
const PORT: u16 = 7000;
const MOST_STEPS: usize = 10_000_000;
