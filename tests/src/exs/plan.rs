//! What a seed decides before a run.

use std::time::Duration as RealDuration;

use weft_exs::{Options, Plain};
use weft_exs_core::Kind;
use weft_netif::{Duration, ImpairmentConfig};

use crate::simulate::random::Random;

/// What happens in a run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) mtu: usize,
    pub(super) impairment: ImpairmentConfig,
    pub(super) connections: Vec<ConnectionPlan>,
    /// What goes wrong, and after how many steps of programs: the last one first.
    pub(super) faults: Vec<(u64, Fault)>,
    pub(super) random: Random,
}

/// A connection: first the side that connects, then the one that accepts.
#[derive(Debug)]
pub(super) struct ConnectionPlan {
    pub(super) kind: Kind,
    /// The first attempt is with the other kind, and is rejected.
    pub(super) is_mistaken: bool,
    pub(super) options: [Options; 2],
    pub(super) sides: [SidePlan; 2],
}

/// What the program of a side does.
#[derive(Debug)]
pub(super) struct SidePlan {
    /// Steps until it ends.
    pub(super) steps: usize,
    /// The longest transfer.
    pub(super) longest: usize,
    /// Some operations end as events of a queue.
    pub(super) has_queue: bool,
    pub(super) end: End,
}

/// How the program of a side ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It sends nothing more, receives what the peer sends, and closes.
    Orderly,
    /// The same, but the socket is dropped instead.
    OrderlyDrop,
    /// It closes, whatever is under way.
    Close,
    /// It drops the socket, whatever is under way.
    Drop,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The device of a host ends all connections.
    Shutdown(usize),
    /// The link is cut for so long; `None`: for ever.
    Cut(Option<Duration>),
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let connections: Vec<_> =
            (0..random.pick(&[1, 1, 2, 3])).map(|_| ConnectionPlan::new(&mut random)).collect();
        let steps: usize = connections.iter().flat_map(|it| &it.sides).map(|side| side.steps).sum();
        let mut faults = Vec::new();
        for _ in 0..random.pick(&[0, 0, 0, 1, 1, 2]) {
            let fault = match random.below(8) {
                0 | 1 => Fault::Shutdown(random.below(2)),
                2 | 3 => Fault::Cut(None),
                _ => Fault::Cut(Some(Duration::from_millis(random.pick(&[1, 20, 300, 4000])))),
            };
            faults.push((random.below(steps + steps / 4 + 1) as u64, fault));
        }
        faults.sort_by_key(|(at, _)| core::cmp::Reverse(*at));
        let is_lossy = random.percent(60);
        let share = |random: &mut Random| if is_lossy { random.below(40) as f64 / 1000.0 } else { 0.0 };
        let impairment = ImpairmentConfig {
            loss: share(&mut random),
            duplicate: share(&mut random),
            reorder: share(&mut random),
            corrupt: share(&mut random) / 4.0,
            delay: Duration::from_micros(random.between(5, 400) as u64),
            ..ImpairmentConfig::default()
        };
        Self { mtu: random.pick(&[600, 1500, 9000]), impairment, connections, faults, random }
    }
}

impl ConnectionPlan {
    fn new(random: &mut Random) -> Self {
        let options = [(); 2].map(|()| options(random));
        let longest = random.pick(&[100, 3000, 20_000, 120_000]);
        let sides = [(); 2].map(|()| SidePlan {
            steps: random.between(5, 80),
            longest,
            has_queue: random.percent(40),
            end: match random.below(20) {
                0 => End::Close,
                1 => End::Drop,
                2..5 => End::OrderlyDrop,
                _ => End::Orderly,
            },
        });
        let kind = if random.percent(50) { Kind::Message } else { Kind::Stream };
        let is_mistaken = random.percent(8);
        let mut plan = Self { kind, is_mistaken, options, sides };
        if kind == Kind::Stream && random.percent(25) {
            plan.make_plain(random);
        }
        plan
    }

    /// Has both sides speak TCP alone. The listener knows that, or finds it out. Octets of the wrong kind would be data.
    fn make_plain(&mut self, random: &mut Random) {
        self.options[0].plain = Plain::Always;
        self.options[1].plain = random.pick(&[Plain::Accept, Plain::Always]);
        self.is_mistaken = false;
    }

    /// Returns whether a side may end the connection before all is done.
    pub(super) fn is_harsh(&self) -> bool {
        let is_brief = |options: &Options| options.linger.is_zero() || options.send_timeout.is_some();
        self.options.iter().any(is_brief)
            || self.sides.iter().any(|side| matches!(side.end, End::Close | End::Drop))
    }
}

fn options(random: &mut Random) -> Options {
    let millis = RealDuration::from_millis;
    Options {
        small_packet_max: random.pick(&[0, 31, 1024, 5000]),
        send_credits: random.pick(&[1, 2, 8, 32]),
        recv_credits: random.pick(&[1, 2, 8, 32]),
        window: random.pick(&[8, 9, 32]),
        adverts: random.pick(&[1, 2, 16]),
        ring: random.pick(&[0, 4096, 10_000, 256 << 10]),
        direct_min: random.pick(&[0, 1, 4096, 65_536]),
        linger: if random.percent(5) { RealDuration::ZERO } else { LINGER },
        send_timeout: random.percent(5).then(|| millis(random.pick(&[1, 50, 1000]))),
        recv_timeout: random.percent(10).then(|| millis(random.pick(&[1, 50, 1000]))),
        backlog: random.pick(&[1, 128]),
        plain: Plain::Off,
    }
}

/// Longer than any program.
const LINGER: RealDuration = RealDuration::from_secs(1200);
