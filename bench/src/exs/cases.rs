//! Comparisons of sockets of EXS with verbs, with the kernel's TCP, and with each other.

use crate::case::{Case, Effort, Quantity, Reference, Side, Sides, Target, Trouble};
use crate::net::{Carries, Exs, Gauge, Op, Plan, Waiting, Way, Work};
use crate::process::Outcome;

/// All comparisons, in the order of the table.
pub(super) static CASES: [Case; 16] = [
    case("exs/message-1k", Quantity::Rate, &[at_least("message by Read", 1.5)], |_, effort| {
        let messages = messages(1024, effort);
        Ok(Sides { ours: Exs::start(messages), references: vec![Exs::start(by_read(messages))] })
    }),
    case("exs/message-1m", Quantity::Throughput, &[at_least("verbs Read", 0.9)], |_, effort| {
        beside_verbs(messages(MIB, effort), Op::Read)
    }),
    case("exs/stream-1m", Quantity::Throughput, &[at_least("verbs Write", 0.9)], |_, effort| {
        beside_verbs(stream(MIB, effort), Op::Write)
    }),
    case("exs/stream-1m/kernel", Quantity::Throughput, &[at_least(KERNEL, 0.65)], |_, effort| {
        beside_kernel(stream(MIB, effort))
    }),
    case("exs/stream-1m/no-crc", Quantity::Throughput, &[at_least(KERNEL, 0.75)], |_, effort| {
        beside_kernel(Plan { crc: false, ..stream(MIB, effort) })
    }),
    case("exs/stream-1m/one-receive", Quantity::Throughput, &[at_least(KERNEL, 0.6)], |_, effort| {
        beside_kernel(Plan { recvs: 1, ..stream(MIB, effort) })
    }),
    case("exs/stream-1m/rsocket", Quantity::Throughput, &[at_least(RSOCKET, 1.3)], |_, effort| {
        beside_rsocket(stream(MIB, effort))
    }),
    case("exs/stream-64k", Quantity::Throughput, &[Reference::shown(KERNEL)], |_, effort| {
        beside_kernel(stream(1 << 16, effort))
    }),
    case("exs/stream-64k/rsocket", Quantity::Throughput, &[at_least(RSOCKET, 1.1)], |_, effort| {
        beside_rsocket(stream(1 << 16, effort))
    }),
    case(
        "exs/ping-64",
        Quantity::Micros,
        &[at_most("verbs Send", 1.6), Reference::shown(KERNEL)],
        |_, effort| {
            let plan = Plan::new(Carries::Stream, Work::round_trips(64, effort));
            Ok(Sides { ours: Exs::start(plan), references: vec![verbs(plan, Op::Send)?, kernel(plan)?] })
        },
    ),
    case("exs/ping-64/rsocket", Quantity::Micros, &[at_most(RSOCKET, 1.1)], |_, effort| {
        beside_rsocket(Plan::new(Carries::Stream, Work::round_trips(64, effort)))
    }),
    case(
        "exs/message-64",
        Quantity::Rate,
        &[at_least("verbs Send", 0.4), at_least(KERNEL, 5.0)],
        |_, effort| {
            let plan = messages(64, effort);
            Ok(Sides { ours: Exs::start(plan), references: vec![verbs(plan, Op::Send)?, kernel(plan)?] })
        },
    ),
    case("exs/direct-share", Quantity::Share, &[value_at_least(ONE, 0.99)], |_, effort| {
        let plan = Plan { gauge: Gauge::Direct, ..stream(MIB, effort) };
        Ok(Sides { ours: Exs::start(plan), references: vec![Exs::start(Plan { recvs: 1, ..plan })] })
    }),
    case("exs/host-cpu-10000", Quantity::Core, &[value_at_most(IMMEDIATE, 0.6)], |_, effort| {
        host_cpu(10_000, &[immediate], effort)
    }),
    case(
        "exs/host-cpu-100000",
        Quantity::Core,
        &[at_most(IMMEDIATE, 0.5), value_at_most(STREAM, 0.15)],
        |_, effort| host_cpu(100_000, &[immediate, streamed], effort),
    ),
    case(
        "exs/host-cpu-1m",
        Quantity::Core,
        &[at_most(IMMEDIATE, 0.2), value_at_most(STREAM, 0.04)],
        |_, effort| host_cpu(1_000_000, &[immediate, streamed], effort),
    ),
];

/// Makes the sides of a case.
type Open = fn(&Case, &Effort) -> Result<Sides, Trouble>;

const fn case(name: &'static str, quantity: Quantity, references: &'static [Reference], open: Open) -> Case {
    Case { name, quantity, references, clock_scale: 1, open }
}

/// Returns messages of this size, which are immediate data if the options allow that by themselves.
pub(super) fn messages(size: usize, effort: &Effort) -> Plan {
    Plan::new(Carries::Messages, work(size, effort))
}

/// Returns the octets of a stream, in sends of this size.
pub(super) fn stream(size: usize, effort: &Effort) -> Plan {
    Plan::new(Carries::Stream, work(size, effort))
}

/// Returns the same messages without immediate data.
pub(super) fn by_read(plan: Plan) -> Plan {
    Plan { small: 0, ..plan }
}

/// Returns the same messages as immediate data.
pub(super) fn immediate(plan: Plan) -> Plan {
    Plan { small: u32::try_from(plan.work.size).unwrap_or(u32::MAX), ..plan }
}

/// Returns the same with the CPU time of programs and contexts.
pub(super) fn counted(plan: Plan) -> Plan {
    Plan { gauge: Gauge::HostCpu, ..plan }
}

/// Returns the same work by verbs.
pub(super) fn verbs(plan: Plan, op: Op) -> Outcome<Box<dyn Side>> {
    Way::Loopback.ours(op, plan.work, plan.crc)
}

/// Returns the same work by sockets of the kernel.
pub(super) fn kernel(plan: Plan) -> Outcome<Box<dyn Side>> {
    Way::Loopback.kernel(plan.work, Waiting::Blocking)
}

/// Returns messages of a round that is long enough for many to be under way.
fn work(size: usize, effort: &Effort) -> Work {
    let work = Work::stream(effort.octets(size), effort);
    let round = work.round.max(effort.count((ROUND / work.size).min(MOST)));
    Work { round, ..work }
}

fn beside_verbs(plan: Plan, op: Op) -> Outcome<Sides> {
    Ok(Sides { ours: Exs::start(plan), references: vec![verbs(plan, op)?] })
}

fn beside_kernel(plan: Plan) -> Outcome<Sides> {
    Ok(Sides { ours: Exs::start(plan), references: vec![kernel(plan)?] })
}

fn beside_rsocket(plan: Plan) -> Outcome<Sides> {
    Ok(Sides { ours: Exs::start(plan), references: vec![Way::rsocket(plan.work)?] })
}

/// Returns what messages of this size cost the host by Read, and in other ways.
fn host_cpu(size: usize, others: &[fn(Plan) -> Plan], effort: &Effort) -> Outcome<Sides> {
    let messages = counted(messages(size, effort));
    let references = others.iter().map(|other| Exs::start(other(messages))).collect();
    Ok(Sides { ours: Exs::start(by_read(messages)), references })
}

/// Returns the same octets on a stream.
fn streamed(plan: Plan) -> Plan {
    Plan { carries: Carries::Stream, ..plan }
}

const fn at_least(name: &'static str, bound: f64) -> Reference {
    Reference::with_target(name, Target::RatioAtLeast(bound))
}

const fn at_most(name: &'static str, bound: f64) -> Reference {
    Reference::with_target(name, Target::RatioAtMost(bound))
}

const fn value_at_least(name: &'static str, bound: f64) -> Reference {
    Reference::with_target(name, Target::ValueAtLeast(bound))
}

const fn value_at_most(name: &'static str, bound: f64) -> Reference {
    Reference::with_target(name, Target::ValueAtMost(bound))
}

const KERNEL: &str = "kernel TCP, blocking";
const RSOCKET: &str = "rsocket, blocking";
const IMMEDIATE: &str = "message immediate";
const STREAM: &str = "stream";
const ONE: &str = "one receive at a time";
const MIB: usize = 1 << 20;
/// Octets of a round: more messages than there are operations at a time.
const ROUND: usize = 32 << 20;
/// Messages of a round at most.
const MOST: usize = 8192;
