//! The decisions of a seed before the run starts.

use std::ops::Range;

use weft_netif::{Duration, ImpairmentConfig, Instant};
use weft_rnic::QpCapacity;

use super::draft::Budget;
use super::layout::RegionPlan;
use super::random::Random;
use super::request::{Receive, Request};
use super::trace::Trace;
use super::workload;

/// The plan of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) hosts: Vec<HostPlan>,
    pub(crate) ipv6: bool,
    /// RFC 6581 startup.
    pub(crate) enhanced: bool,
    pub(crate) faults: Faults,
    pub(crate) lanes: Vec<LanePlan>,
    /// Draws the decisions during the run.
    pub(crate) random: Random,
}

/// An engine and its application.
#[derive(Clone, Debug)]
pub(crate) struct HostPlan {
    pub(crate) mtu: usize,
    pub(crate) tcp_buffer: usize,
    pub(crate) congestion: bool,
    pub(crate) crc: bool,
    pub(crate) markers: bool,
    /// Number of completion queues, which the queue pairs share.
    pub(crate) cqs: usize,
    /// The application polls a queue only after its channel has announced it.
    pub(crate) notified: bool,
    /// The times in which the application does nothing.
    pub(crate) stalls: Vec<Range<Instant>>,
}

/// The faults of the network.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) impairment: ImpairmentConfig,
    /// How many of ten thousand segments are changed so that TCP does not see it.
    pub(crate) forged: usize,
    pub(crate) cuts: Vec<Cut>,
}

/// A link that carries no frames for a while, or from a moment on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) hosts: [usize; 2],
    pub(crate) from: Instant,
    pub(crate) to: Option<Instant>,
    /// Only frames of the first host are lost.
    pub(crate) one_way: bool,
}

/// A connection between two queue pairs.
#[derive(Debug)]
pub(crate) struct LanePlan {
    /// The initiator's end first.
    pub(crate) ends: [EndPlan; 2],
    pub(crate) terms: Terms,
}

/// The beginning and the end of a lane.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) connect_at: Instant,
    pub(crate) peer_to_peer: bool,
    /// The responder first rejects so many attempts.
    pub(crate) rejections: usize,
    pub(crate) private_data: [Vec<u8>; 2],
    pub(crate) fate: Fate,
}

/// One end of a lane.
#[derive(Debug)]
pub(crate) struct EndPlan {
    pub(crate) host: usize,
    pub(crate) domain: usize,
    /// Indices of the host's completion queues for both work queues.
    pub(crate) cqs: [usize; 2],
    pub(crate) capacity: QpCapacity,
    pub(crate) signal_all: bool,
    /// The requests of both work queues that may be posted and not known to be done.
    pub(crate) quota: [usize; 2],
    pub(crate) ird: u16,
    pub(crate) ord: u16,
    pub(crate) regions: Vec<RegionPlan>,
    pub(crate) requests: Vec<Request>,
    pub(crate) receives: Vec<Receive>,
    /// The values of the words for the peer's Atomics: the first one, and the one after each Atomic.
    pub(crate) words: Vec<(super::layout::Place, Vec<u64>)>,
    /// Longest pause between two bursts of posting, in microseconds.
    pub(crate) think: usize,
    pub(crate) burst: usize,
}

/// The way in which a lane ends. `by` is the end that causes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Gracefully, when all work is done.
    Orderly { by: usize },
    /// Gracefully, during the work.
    Disconnect { by: usize, at: Moment },
    /// Gracefully from both ends.
    Both { first: Moment, second: Moment },
    /// By destroying the queue pair.
    Destroy { by: usize, at: Moment },
    /// Memory in use is deregistered.
    Deregister { by: usize, region: usize, at: Moment },
    /// This request of this end is bad.
    Bad { by: usize, request: usize },
}

/// A time: when an end has posted so many requests, and a pause after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) posted: usize,
    pub(crate) delay: Duration,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let hosts = host_plans(&mut random);
        let ipv6 = hosts.iter().all(|host| host.mtu >= 1280) && random.percent(20);
        let enhanced = random.percent(85);
        let faults = faults(&mut random, hosts.len());
        let mut budget = Budget::new(&mut random, &hosts);
        let lanes = (0..random.pick(&[1, 1, 2, 2, 3, 4, 6]))
            .map(|_| workload::lane(&mut random, &hosts, enhanced, &mut budget))
            .collect();
        Self { hosts, ipv6, enhanced, faults, lanes, random }
    }

    /// Writes the plan into the trace.
    pub(crate) fn describe(&self, trace: &mut Trace) {
        let zero = Instant::ZERO;
        trace.note(zero, format_args!("IPv6 {}, RFC 6581 startup {}", self.ipv6, self.enhanced));
        trace.note(zero, format_args!("{:?}", self.faults));
        for (index, host) in self.hosts.iter().enumerate() {
            trace.note(zero, format_args!("host {index}: {host:?}"));
        }
        for (index, lane) in self.lanes.iter().enumerate() {
            trace.note(zero, format_args!("lane {index}: {:?}", lane.terms.fate));
            for (side, end) in lane.ends.iter().enumerate() {
                let EndPlan { host, domain, cqs, capacity, signal_all, quota, ird, ord, .. } = end;
                trace.note(
                    zero,
                    format_args!(
                        "lane {index}, side {side}: host {host}, domain {domain}, CQs {cqs:?}, {capacity:?}, \
                         signal_all {signal_all}, quota {quota:?}, IRD {ird}, ORD {ord}, {} receives",
                        end.receives.len()
                    ),
                );
                for (number, request) in end.requests.iter().enumerate() {
                    trace.note(zero, format_args!("lane {index}, side {side}, request {number}: {request}"));
                }
            }
        }
    }

    /// Returns true if the streams between the two hosts of a lane have CRCs. One host that wants them is enough.
    pub(crate) fn has_crc(&self, lane: &LanePlan) -> bool {
        lane.ends.iter().any(|end| self.hosts[end.host].crc)
    }
}

impl Fate {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Orderly { .. } => "orderly",
            Self::Disconnect { .. } => "disconnect in mid-transfer",
            Self::Both { .. } => "disconnect from both ends",
            Self::Destroy { .. } => "queue pair destroyed",
            Self::Deregister { .. } => "memory deregistered in use",
            Self::Bad { .. } => "bad access",
        }
    }
}

fn host_plans(random: &mut Random) -> Vec<HostPlan> {
    let count = if random.percent(25) { 3 } else { 2 };
    let common = mtu(random);
    let mixed = random.percent(20);
    let buffer = tcp_buffer(random);
    (0..count)
        .map(|_| HostPlan {
            mtu: if mixed { mtu(random) } else { common },
            tcp_buffer: if random.percent(30) { tcp_buffer(random) } else { buffer },
            congestion: random.percent(50),
            crc: random.percent(70),
            markers: random.percent(35),
            cqs: random.between(1, 3),
            notified: random.percent(30),
            stalls: stalls(random),
        })
        .collect()
}

fn mtu(random: &mut Random) -> usize {
    let any = random.between(576, 4000);
    random.pick(&[576, 577, 1280, 1500, 1500, 1500, 9000, 65_535, any])
}

fn tcp_buffer(random: &mut Random) -> usize {
    let any = random.between(1 << 10, 1 << 16);
    random.pick(&[1 << 10, 2000, 1 << 14, 1 << 16, 1 << 16, 1 << 18, any])
}

fn stalls(random: &mut Random) -> Vec<Range<Instant>> {
    let count = random.pick(&[0, 0, 0, 1, 3]);
    let mut begin = 0;
    let mut stall = |_| {
        begin += random.below(30_000);
        let end = begin + random.pick(&[10, 1000, 50_000, 3_000_000]);
        let range = micros(begin)..micros(end);
        begin = end;
        range
    };
    (0..count).map(&mut stall).collect()
}

fn faults(random: &mut Random, hosts: usize) -> Faults {
    let mut chance = |often: usize, per_mille: usize| {
        if random.percent(often) { random.below(per_mille) as f64 / 1000.0 } else { 0.0 }
    };
    let impairment = ImpairmentConfig {
        seed: 0,
        loss: chance(40, 50),
        duplicate: chance(35, 50),
        reorder: chance(35, 100),
        corrupt: chance(30, 20),
        ..ImpairmentConfig::default()
    };
    let delay = random.pick(&[0, 5, 5, 50, 500, 5000]);
    let jitter = random.pick(&[0, 0, 0, 10, 500]);
    let impairment = ImpairmentConfig {
        delay: Duration::from_micros(delay),
        jitter: Duration::from_micros(jitter),
        ..impairment
    };
    let forged = if random.percent(20) { random.pick(&[10, 50, 200]) } else { 0 };
    let count = random.pick(&[0, 0, 0, 0, 1, 2]);
    let cuts = (0..count).map(|_| cut(random, hosts)).collect();
    Faults { impairment, forged, cuts }
}

fn cut(random: &mut Random, hosts: usize) -> Cut {
    let first = random.below(hosts);
    let second = (first + random.between(1, hosts - 1)) % hosts;
    let latest = random.pick(&[500, 20_000, 200_000, 2_000_000]);
    let from = micros(random.below(latest));
    let length = random.pick(&[100, 10_000, 1_000_000, 20_000_000]);
    let to = (!random.percent(20)).then(|| from + Duration::from_micros(random.below(length) as u64));
    Cut { hosts: [first, second], from, to, one_way: random.percent(20) }
}

pub(crate) fn micros(value: usize) -> Instant {
    Instant::from_micros(i64::try_from(value).unwrap_or(i64::MAX))
}
