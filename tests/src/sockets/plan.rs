//! What a seed decides before the run begins.

use std::cmp::Reverse;

use crate::simulate::random::Random;

/// The plan of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) random: Random,
    pub(crate) is_eager: bool,
    /// The longest usual delay of what is on its way, in microseconds.
    pub(crate) delay: usize,
    /// Both ends belong to one process.
    pub(crate) is_one_process: bool,
    /// The ends belong to two hosts.
    pub(crate) is_far: bool,
    /// The processes have no second thread.
    pub(crate) is_single: bool,
    pub(crate) connections: Vec<ConnectionPlan>,
    /// What goes wrong, and in which round, the first at the end.
    pub(crate) events: Vec<(u64, Event)>,
}

/// A connection: when it begins, and what its ends do, the left one first.
#[derive(Debug)]
pub(crate) struct ConnectionPlan {
    pub(crate) begins: u64,
    pub(crate) ends: [Script; 2],
}

/// What an end does.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// Octets to be sent.
    pub(crate) total: usize,
    /// Octets of a send and of a receive, at most.
    pub(crate) sizes: [usize; 2],
    /// Another thread sends.
    pub(crate) has_writer: bool,
    /// Then the thread that receives sends, too.
    pub(crate) both_write: bool,
    /// In which turn of its loop, and what.
    pub(crate) acts: Vec<(usize, Act)>,
}

/// What a thread does beside sending and receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// A child shares the end, and sends and receives on it, too.
    Fork,
    /// The connection goes back to TCP. Another program goes on with it if that is true.
    Lower(bool),
    /// It closes before the end of the stream.
    Close,
    /// It does nothing for so many microseconds.
    Idle(u64),
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A process is killed.
    Kill(usize),
    /// A process whose relatives go on is killed between its own words and those of the link, as soon as it is there.
    KillBetween,
    /// A process is stopped for so many microseconds.
    Stop(usize, u64),
    /// The daemon is killed, of two hosts that of either. Another one begins so many rounds later.
    KillDaemon(u64),
    /// The daemon of this host begins.
    StartDaemon(usize),
    StopDaemon(u64),
    /// The lane between two hosts is lost. With `true`, octets are placed of which nobody hears.
    LoseLane(bool),
    /// The lane is lost, and the hosts get no other one for so many microseconds.
    Part(u64),
}

impl Plan {
    pub(crate) fn new(seed: u64, is_far: bool) -> Self {
        let mut random = Random::new(seed ^ 0x5357_4c4b);
        let is_single = random.percent(40);
        let count = random.pick(&[1, 1, 2, 3]);
        let connections: Vec<_> = (0..count).map(|_| connection(&mut random, is_single)).collect();
        let mut events = Vec::new();
        if random.percent(60) {
            for _ in 0..random.between(1, 3) {
                events.push((random.below(1500) as u64, event(&mut random)));
            }
        }
        events.sort_by_key(|(at, _)| Reverse(*at));
        let is_eager = random.percent(60);
        let delay = random.pick(&[30, 200, 2000]);
        let is_one_process = random.percent(10) && !is_far;
        if is_far {
            events.clear();
            for _ in 0..random.pick(&[0, 1, 2, 6]) {
                events.push((random.below(2500) as u64, far_event(&mut random)));
            }
            events.sort_by_key(|(at, _)| Reverse(*at));
        }
        Self { is_eager, delay, is_one_process, is_far, is_single, connections, events, random }
    }
}

impl Event {
    /// Returns the name that the summary prints.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kill(_) => "process killed",
            Self::KillBetween => "process killed between two words",
            Self::Stop(..) => "process stopped",
            Self::KillDaemon(_) => "daemon killed",
            Self::StartDaemon(_) => "daemon started again",
            Self::StopDaemon(_) => "daemon stopped",
            Self::LoseLane(_) => "lane lost",
            Self::Part(_) => "no lane for a while",
        }
    }
}

fn connection(random: &mut Random, is_single: bool) -> ConnectionPlan {
    let begins = random.pick(&[0, 0, 500, 20_000]);
    ConnectionPlan { begins, ends: [(); 2].map(|()| script(random, is_single)) }
}

fn script(random: &mut Random, is_single: bool) -> Script {
    let sizes = [(); 2].map(|()| random.pick(&[1, 8, 60, LARGEST]));
    let total = random.pick(&[0, 20, 100, 400, 1000]).min(sizes[0] * 60);
    let mut acts = Vec::new();
    for _ in 0..random.pick(&[0, 0, 0, 1, 2]) {
        let act = match random.below(10) {
            0 | 1 => Act::Fork,
            2..5 => Act::Lower(random.percent(50)),
            5 => Act::Close,
            6 | 7 => Act::Idle(random.between(1, 12) as u64 * 1_000_000),
            _ => Act::Idle(random.between(10, 20_000) as u64),
        };
        acts.push((random.below(25), act));
    }
    acts.sort_by_key(|(turn, _)| *turn);
    let (has_writer, both_write) = (!is_single && random.percent(50), random.percent(40));
    Script { total, sizes, has_writer, both_write, acts }
}

fn event(random: &mut Random) -> Event {
    match random.below(12) {
        10.. => Event::KillBetween,
        0..4 => Event::Kill(random.below(4)),
        4..6 => Event::Stop(random.below(4), random.between(100, 200_000) as u64),
        6..8 => Event::KillDaemon(random.between(1, 500) as u64),
        _ => Event::StopDaemon(random.between(100, 200_000) as u64),
    }
}

fn far_event(random: &mut Random) -> Event {
    match random.below(16) {
        14.. => Event::KillDaemon(random.pick(&[1, 100, 2000, NEVER])),
        12.. => Event::Part(random.between(1000, 8_000_000) as u64),
        0..2 => Event::Kill(random.below(4)),
        2..4 => Event::Stop(random.below(4), random.between(100, 200_000) as u64),
        4..6 => Event::StopDaemon(random.between(100, 200_000) as u64),
        _ => Event::LoseLane(random.percent(50)),
    }
}

/// No run has so many rounds.
const NEVER: u64 = 1_000_000;
/// The most octets of a call.
pub(crate) const LARGEST: usize = 110;
