//! The comparisons.

use weft_netif::Duration;

use super::blackout::{Blackout, ROUND_TRIP};
use super::conversation::Stack;
use super::device::TESTED;
use super::fair::Fair;
use super::kernel::Kernel;
use super::ours::Ours;
use super::path::Path;
use super::shared::Part;
use super::stream::Stream;
use super::trips::Trips;
use crate::case::{Case, Effort, Quantity, Reference, Side, Sides, Target, Trouble};
use crate::process::Outcome;

/// All comparisons, in the order of the table.
pub(super) static CASES: [Case; 35] = [
    cell("loss/0%/0ms", &with_bbr(0.9)),
    cell("loss/0.01%/0ms", &with_bbr(0.9)),
    cell("loss/0.1%/0ms", &with_bbr(0.9)),
    cell("loss/1%/0ms", &with_bbr(1.0)),
    cell("loss/5%/0ms", &with_bbr(2.0)),
    cell("loss/0%/1ms", &with_bbr(0.9)),
    cell("loss/0.01%/1ms", &with_bbr(0.9)),
    cell("loss/0.1%/1ms", &with_bbr(0.9)),
    cell("loss/1%/1ms", &with_bbr(1.0)),
    cell("loss/5%/1ms", &with_bbr(1.5)),
    cell("loss/0%/10ms", &with_bbr(0.9)),
    cell("loss/0.01%/10ms", &with_bbr(0.9)),
    cell("loss/0.1%/10ms", &with_bbr(0.9)),
    cell("loss/1%/10ms", &with_bbr(1.0)),
    cell("loss/5%/10ms", &with_bbr(1.0)),
    cell("loss/0%/50ms", &with_bbr(0.9)),
    cell("loss/0.01%/50ms", &with_bbr(0.9)),
    cell("loss/0.1%/50ms", &with_bbr(0.9)),
    cell("loss/1%/50ms", &with_bbr(0.9)),
    cell("loss/5%/50ms", &[Reference::shown(CUBIC), BBR]),
    case("loss/ping-64/p50", Quantity::Measured, &[ratio_at_most(1.05)], |_, _| Ok(ping(0))),
    case("loss/ping-64/p99", Quantity::Measured, &[ratio_at_most(0.7)], |_, _| Ok(ping(1))),
    case("loss/ping-64/p99.9", Quantity::Measured, &[ratio_at_most(0.5)], |_, _| Ok(ping(2))),
    case("loss/reordering", Quantity::Goodput, &[ratio_at_least(0.9)], |_, _| Ok(reordering(None))),
    case("loss/reordering/needless", Quantity::Waste, &[NEEDLESS], |_, _| Ok(reordering(Some(0)))),
    case("loss/bursts", Quantity::Goodput, &[ratio_at_least(1.0)], |_, _| Ok(bursts())),
    case("loss/blackout-50ms", Quantity::Stall, &[recovers_in(50)], |_, _| Ok(blackout(50))),
    case("loss/blackout-200ms", Quantity::Stall, &[recovers_in(200)], |_, _| Ok(blackout(200))),
    case("loss/blackout-1000ms", Quantity::Stall, &[recovers_in(1000)], |_, _| Ok(blackout(1000))),
    case("loss/fair/ours-first", Quantity::Share, &[shares(0.4, 0.6)], |_, _| Ok(fair(OURS, KERNEL, 0, 0))),
    case("loss/fair/ours-first/drops", Quantity::Drops, DROPS, |_, _| Ok(fair(OURS, KERNEL, 0, 1))),
    case("loss/fair/kernel-first", Quantity::Share, &[shares(0.4, 0.6)], |_, _| Ok(fair(KERNEL, OURS, 1, 0))),
    case("loss/fair/kernel-first/drops", Quantity::Drops, DROPS, |_, _| Ok(fair(KERNEL, OURS, 1, 1))),
    case("loss/fair/two-of-ours", Quantity::Share, &[shares(0.45, 0.55)], |_, _| {
        Ok(fair(OURS, OTHERS, 0, 0))
    }),
    case("loss/fair/two-of-ours/drops", Quantity::Drops, DROPS, |_, _| Ok(fair(OURS, OTHERS, 0, 1))),
];

/// Those of the short run.
pub(super) static QUICK: [Case; 6] = [
    cell("loss/0%/0ms", &[ratio_at_least(0.9)]),
    cell("loss/1%/0ms", &[ratio_at_least(1.0)]),
    cell("loss/0%/1ms", &[ratio_at_least(0.9)]),
    cell("loss/1%/1ms", &[ratio_at_least(1.0)]),
    cell("loss/0%/10ms", &[ratio_at_least(0.9)]),
    cell("loss/1%/10ms", &[ratio_at_least(1.0)]),
];

/// Returns the share of frames that the path of a cell loses in each direction, and its delay each way in milliseconds.
/// Both are in the name.
pub(super) fn place(name: &str) -> Option<(f64, u64)> {
    let (loss, delay) = name.strip_prefix("loss/")?.split_once('/')?;
    let percent: f64 = loss.strip_suffix('%')?.parse().ok()?;
    Some((percent / 100.0, delay.strip_suffix("ms")?.parse().ok()?))
}

/// A comparison of throughput at the loss and the delay that its name tells.
const fn cell(name: &'static str, references: &'static [Reference]) -> Case {
    let open = |case: &Case, _: &_| {
        let Some((loss, millis)) = place(case.name) else {
            return Err(Trouble::failed(format!("the name of {} tells no loss and delay", case.name)));
        };
        let path = Path::lossy(loss, Duration::from_millis(millis));
        let longer = if millis >= FAR { 5 } else { 1 };
        let mut references = vec![stream(case.name, KERNEL, &path, longer, None)];
        if case.references.len() > 1 {
            references.push(stream(case.name, Kernel { congestion: "bbr" }, &path, longer, None));
        }
        Ok(Sides { ours: stream(case.name, OURS, &path, longer, None), references })
    };
    Case { name, quantity: Quantity::Goodput, references, clock_scale: TESTED.clock_scale, open }
}

/// Makes the sides of a case.
type Open = fn(&Case, &Effort) -> Outcome<Sides>;

const fn case(name: &'static str, quantity: Quantity, references: &'static [Reference], open: Open) -> Case {
    Case { name, quantity, references, clock_scale: TESTED.clock_scale, open }
}

/// Returns a stream, or a figure of it.
fn stream<S: Stack>(name: &str, stack: S, path: &Path, longer: u32, figure: Option<usize>) -> Box<dyn Side> {
    let key = format!("{name} {}", stack.name());
    Part::of(key, Stream { stack, path: path.clone(), longer }, figure)
}

/// Returns both streams on a path.
fn streams(name: &str, path: &Path, figure: Option<usize>) -> Sides {
    Sides {
        ours: stream(name, OURS, path, 1, figure),
        references: vec![stream(name, KERNEL, path, 1, figure)],
    }
}

fn reordering(figure: Option<usize>) -> Sides {
    streams("reordering", &Path::reordering(NEAR), figure)
}

fn bursts() -> Sides {
    streams("bursts", &Path::bursts(NEAR), None)
}

fn ping(figure: usize) -> Sides {
    fn trips<S: Stack>(stack: S, figure: usize) -> Box<dyn Side> {
        let key = format!("round trips {}", stack.name());
        Part::of(key, Trips { stack, path: Path::lossy(0.01, NEAR), longer: 5 }, Some(figure))
    }
    Sides { ours: trips(OURS, figure), references: vec![trips(KERNEL, figure)] }
}

fn blackout(millis: u64) -> Sides {
    let outage = Duration::from_millis(millis);
    Sides {
        ours: Box::new(Blackout { stack: OURS, outage }),
        references: vec![Box::new(Blackout { stack: KERNEL, outage })],
    }
}

/// Returns two streams at one bottleneck beside two of the kernel: the share of the `told` one, or the lost frames.
fn fair<A: Stack, B: Stack>(first: A, second: B, told: usize, figure: usize) -> Sides {
    fn side<A: Stack, B: Stack>(first: A, second: B, told: usize, figure: usize) -> Box<dyn Side> {
        let key = format!("fair {} {}", first.name(), second.name());
        Part::of(key, Fair { first, second, told }, Some(figure))
    }
    Sides { ours: side(first, second, told, figure), references: vec![side(KERNEL, KERNEL, 0, figure)] }
}

const fn with_bbr(bound: f64) -> [Reference; 2] {
    [ratio_at_least(bound), BBR]
}

const fn ratio_at_least(bound: f64) -> Reference {
    Reference::with_target(CUBIC, Target::RatioAtLeast(bound))
}

const fn ratio_at_most(bound: f64) -> Reference {
    Reference::with_target(CUBIC, Target::RatioAtMost(bound))
}

/// Within the outage, two round trips and 100 ms, and no later than the reference.
const fn recovers_in(outage: u64) -> Reference {
    Reference::with_target(CUBIC, Target::BothAtMost((outage + 2 * ROUND_TRIP + 100) as f64, 1.0))
}

const fn shares(low: f64, high: f64) -> Reference {
    Reference::with_target(TWO, Target::ValueWithin(low, high))
}

const CUBIC: &str = "kernel TCP, cubic";
/// A kernel may lack it.
const BBR: Reference = Reference { is_optional: true, ..Reference::shown("kernel TCP, bbr") };
/// The part of all segments that may be sent again in vain.
const NEEDLESS: Reference = Reference::with_target(CUBIC, Target::ValueAtMost(0.005));
const TWO: &str = "two of the kernel, cubic";
const DROPS: &[Reference] = &[Reference::with_target(TWO, Target::RatioAtMost(1.2))];
const OURS: Ours = Ours { tcp: &TESTED, lane: 0 };
const OTHERS: Ours = Ours { lane: 1, ..OURS };
const KERNEL: Kernel = Kernel { congestion: "cubic" };
/// The delay each way of all rows whose names tell none.
const NEAR: Duration = Duration::from_millis(1);
/// The milliseconds of delay from which on a turn needs more time.
const FAR: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_cells_tell_their_places() {
        let cells: Vec<_> = CASES.iter().filter_map(|case| place(case.name)).collect();
        let losses = [0.0, 0.0001, 0.001, 0.01, 0.05];
        let grid = [0, 1, 10, 50].into_iter().flat_map(|delay| losses.map(|loss| (loss, delay)));
        assert_eq!(cells, grid.collect::<Vec<_>>());
        for name in ["loss/bursts", "loss/1/1ms", "loss/1%/1", "loss/x%/1ms", "1%/1ms"] {
            assert_eq!(place(name), None, "{name}");
        }
    }

    #[test]
    fn the_short_run_is_a_part_of_the_long_one_with_the_same_targets() {
        for quick in &QUICK {
            let case = CASES.iter().find(|case| case.name == quick.name).unwrap();
            assert_eq!(quick.references[0].target, case.references[0].target, "{}", case.name);
            assert_eq!(quick.references[0].name, case.references[0].name);
        }
    }

    #[test]
    fn names_are_different() {
        let names: std::collections::BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
    }
}
