//! Comparisons of replicas whose device does the work with replicas whose program does it.

use std::thread::available_parallelism;

use weft_group::Topology;

use super::chain::Plan;
use super::network::{Delay, Network, Site};
use super::redis::{self, Asking};
use super::terms::Mode;
use super::work::{Gauge, Kind, Work};
use super::ycsb::{self, Home, Workload};
use crate::case::{Case, Effort, Quantity, Reference, Side, Sides, Target, Trouble};
use crate::hog::Hog;
use crate::process::Outcome;

/// All comparisons.
pub(super) static CASES: [Case; 34] = [
    case("group/write-1k", Quantity::Micros, DRIVEN, |_, _| beside_all(write(1024))),
    case("group/copy-1k", Quantity::Micros, DRIVEN, |_, _| beside_all(work(Kind::Copy, 1024))),
    case("group/swap", Quantity::Micros, DRIVEN, |_, _| beside_all(work(Kind::Swap, 8))),
    case("group/flush", Quantity::Micros, DRIVEN, |_, _| beside_all(work(Kind::Flush, 1024))),
    case("group/file-flush-1k", Quantity::Micros, SYNCING, |_, _| beside_syncing(flush(1024))),
    case("group/file-flush-64k", Quantity::Micros, SYNCING, |_, _| beside_syncing(flush(1 << 16))),
    case("group/file-write-flush-1k", Quantity::Micros, SYNCING, |_, _| {
        beside_syncing(work(Kind::Persist, 1024).on_files())
    }),
    case("group/hosts-1k", Quantity::Micros, BETWEEN, |_, _| between(Site::Host, Delay::None)),
    case("group/hosts-packet-1k", Quantity::Micros, BETWEEN, |_, _| between(Site::Packet, Delay::None)),
    case("group/hosts-netem-1k", Quantity::Micros, BETWEEN, |_, _| between(Site::Host, Delay::Netem)),
    case("group/hosts-netem-packet-1k", Quantity::Micros, BETWEEN, |_, _| {
        between(Site::Packet, Delay::Netem)
    }),
    case("group/rate-1k", Quantity::Rate, FASTER, |_, _| beside_all(write(1024).deep(16))),
    case("group/stream-64k", Quantity::Throughput, FASTER, |_, _| beside_all(write(1 << 16).deep(8))),
    case("group/stream-64k-hops", Quantity::Throughput, ONE_HOP, |_, _| {
        let work = write(1 << 16).deep(8);
        Ok(Sides { ours: work.start()?, references: vec![work.of(1).start()?] })
    }),
    case("group/p99-write-1k", Quantity::Measured, DRIVEN, |_, _| beside_all(write(1024).gauge(P99))),
    case("group/p99-busy-program", Quantity::Measured, &[at_most(0.3)], |_, _| {
        beside_sleep(write(1024).gauge(P99).busy(1), Work::start)
    }),
    case("group/p99-hogs", Quantity::Measured, &[Reference::shown(SLEEPING)], |_, _| {
        beside_sleep(write(1024).gauge(P99), with_hogs)
    }),
    case("group/p99-hogs-fifo", Quantity::Measured, FIFO, |_, _| {
        let work = write(1024).gauge(P99);
        let ours = with_hogs(Work { is_preferred: true, ..work })?;
        Ok(Sides { ours, references: vec![with_hogs(work.with(Mode::Sleep))?] })
    }),
    case("group/program-switches", Quantity::Switches, NO_SWITCH, |_, _| {
        beside_sleep(write(1024).gauge(Gauge::Switches), Work::start)
    }),
    case("group/program-cpu", Quantity::Measured, &[at_most(0.01)], |_, _| {
        beside_sleep(write(1024).gauge(Gauge::ProgramCpu), Work::start)
    }),
    case("group/all-cpu", Quantity::Measured, DRIVEN, |_, _| beside_all(write(1024).gauge(Gauge::AllCpu))),
    case("group/all-cpu-10-sessions", Quantity::Measured, &[Reference::shown(SLEEPING)], |_, _| {
        beside_sleep(tenants(10), Work::start)
    }),
    case("group/all-cpu-100-sessions", Quantity::Measured, &[at_most(0.7)], |_, _| {
        beside_sleep(tenants(100), Work::start)
    }),
    case("group/ycsb-a-files", Quantity::Frequency, LOCAL, |_, _| on_files(ycsb::A)),
    case("group/ycsb-b-files", Quantity::Frequency, LOCAL, |_, _| on_files(ycsb::B)),
    case("group/ycsb-c-files", Quantity::Frequency, LOCAL, |_, _| on_files(ycsb::C)),
    case("group/ycsb-f-files", Quantity::Frequency, LOCAL, |_, _| on_files(ycsb::F)),
    case("group/ycsb-a-memory", Quantity::Frequency, IN_MEMORY, |_, _| in_memory(ycsb::A)),
    case("group/ycsb-b-memory", Quantity::Frequency, IN_MEMORY, |_, _| in_memory(ycsb::B)),
    case("group/ycsb-c-memory", Quantity::Frequency, IN_MEMORY, |_, _| in_memory(ycsb::C)),
    case("group/ycsb-f-memory", Quantity::Frequency, IN_MEMORY, |_, _| in_memory(ycsb::F)),
    case("group/kv-files-get", Quantity::Frequency, REDIS, |_, _| beside_redis(Asking::Test("get"))),
    case("group/kv-files-set", Quantity::Frequency, REDIS, |_, _| beside_redis(Asking::Test("set"))),
    case("group/kv-files-set-wait", Quantity::Frequency, REDIS_WAIT, |_, _| beside_redis(Asking::Kept)),
];

/// Makes the sides of a case.
type Open = fn(&Case, &Effort) -> Result<Sides, Trouble>;

const fn case(name: &'static str, quantity: Quantity, references: &'static [Reference], open: Open) -> Case {
    Case { name, quantity, references, clock_scale: 1, open }
}

const fn work(kind: Kind, size: usize) -> Work {
    Work::new(Mode::Cyclic, kind, size)
}

const fn write(size: usize) -> Work {
    work(Kind::Write, size)
}

const fn flush(size: usize) -> Work {
    work(Kind::Flush, size).on_files()
}

/// So many sessions, each with an operation at a time.
const fn tenants(sessions: usize) -> Work {
    let work = write(1024).gauge(Gauge::AllCpu);
    Work { plan: Plan { sessions, len: 1 << 16, window: 16, ..work.plan }, ..work }
}

/// Returns the work beside the same with replicas that are driven, in the order of [`DRIVEN`].
fn beside_all(work: Work) -> Outcome<Sides> {
    let references = [Mode::Sleep, Mode::Poll, Mode::Spin].map(|mode| work.with(mode).start());
    Ok(Sides { ours: work.start()?, references: references.into_iter().collect::<Outcome<_>>()? })
}

/// Returns the work beside the same with replicas whose program syncs a file, in the order of [`SYNCING`]. A disk takes
/// longer than any way to wait for a message.
fn beside_syncing(work: Work) -> Outcome<Sides> {
    let references = [Mode::Sleep, Mode::Poll].map(|mode| work.with(mode).start());
    Ok(Sides { ours: work.start()?, references: references.into_iter().collect::<Outcome<_>>()? })
}

/// Returns writes between hosts.
fn between(ground: Site, delay: Delay) -> Outcome<Sides> {
    beside_sleep(write(1024).over(Network::Switched { ground, delay }), Work::start)
}

/// Returns the work beside the same with replicas whose program sleeps.
fn beside_sleep(work: Work, start: fn(Work) -> Outcome<Box<dyn Side>>) -> Outcome<Sides> {
    Ok(Sides { ours: start(work)?, references: vec![start(work.with(Mode::Sleep))?] })
}

/// Starts the work beside four programs for each core that never stop computing.
fn with_hogs(work: Work) -> Outcome<Box<dyn Side>> {
    let cores = available_parallelism().map_or(1, usize::from);
    Ok((0..4 * cores).fold(work.start()?, |side, _| Hog::beside(side)))
}

/// Returns a database at a fan of three replicas with files, in the order of [`LOCAL`].
fn on_files(workload: Workload) -> Outcome<Sides> {
    let group = |topology| ycsb::start(workload, Home::Group { topology, has_files: true });
    let local = ycsb::start(workload, Home::Local { has_file: true })?;
    Ok(Sides { ours: group(Topology::Fan)?, references: vec![local, group(Topology::Chain)?] })
}

/// Returns a database at a chain of three replicas, beside one in memory.
fn in_memory(workload: Workload) -> Outcome<Sides> {
    let ours = ycsb::start(workload, Home::Group { topology: Topology::Chain, has_files: false })?;
    Ok(Sides { ours, references: vec![ycsb::start(workload, Home::Local { has_file: false })?] })
}

/// Returns a database at a fan of three replicas with files, beside Redis with two replicas.
fn beside_redis(asking: Asking) -> Outcome<Sides> {
    Ok(Sides { ours: redis::ours(asking)?, references: vec![redis::redis(asking)?] })
}

const fn at_most(bound: f64) -> Reference {
    Reference::with_target(SLEEPING, Target::RatioAtMost(bound))
}

const P99: Gauge = Gauge::Percentile(99);
const SLEEPING: &str = "driven, sleeping";
const POLL: Reference = Reference::shown("driven, in poll(2)");
const SPIN: Reference = Reference::shown("driven, spinning");
const DRIVEN: &[Reference] = &[at_most(1.0), POLL, SPIN];
const SYNCING: &[Reference] = &[at_most(1.0), POLL];
/// Hosts are for root.
const BETWEEN: &[Reference] = &[Reference { is_optional: true, ..at_most(1.0) }];
const FASTER: &[Reference] = &[Reference::with_target(SLEEPING, Target::RatioAtLeast(1.0)), POLL, SPIN];
/// Not everybody may give a thread real-time priority.
const FIFO: &[Reference] = &[Reference { is_optional: true, ..at_most(0.1) }];
const NO_SWITCH: &[Reference] = &[Reference::with_target(SLEEPING, Target::ValueAtMost(0.0))];
const ONE_HOP: &[Reference] = &[Reference::shown("a single replica")];
/// A database in a file of its own, and one at a chain instead of a fan.
const LOCAL: &[Reference] = &[
    Reference::with_target("redb in one file", Target::RatioAtLeast(0.3)),
    Reference::shown("a chain with files"),
];
const IN_MEMORY: &[Reference] = &[Reference::shown("redb in memory")];
/// Redis need not be installed. Its replicas may be behind, unless each change has a WAIT.
const REDIS: &[Reference] = &[optional("Redis, appendfsync always")];
const REDIS_WAIT: &[Reference] = &[optional("Redis, the same, WAIT 2")];

const fn optional(name: &'static str) -> Reference {
    Reference { is_optional: true, ..Reference::shown(name) }
}
