//! A TAP device with offloads: ours on it against ours on the kernel's TCP, and smoltcp on it against a kernel socket.

use weft_rnic::CLOCK_SCALE;

use crate::case::{Case, Quantity, Reference, Sides, Target, Trouble};
use crate::net::{Op, Way, Work};

pub(super) static CASES: [Case; 3] = [
    Case {
        name: "tap/write-1m/to-host",
        quantity: Quantity::Throughput,
        references: &[Reference::with_target("smoltcp to a kernel socket", Target::RatioAtLeast(0.8))],
        clock_scale: CLOCK_SCALE,
        open: |_, effort| open(Way::FromTap, Op::Write, Work::stream(effort.octets(1 << 20), effort)),
    },
    Case {
        name: "tap/write-1m/from-host",
        quantity: Quantity::Throughput,
        references: &[Reference::with_target("a kernel socket to smoltcp", Target::RatioAtLeast(0.8))],
        clock_scale: CLOCK_SCALE,
        open: |_, effort| open(Way::ToTap, Op::Write, Work::stream(effort.octets(1 << 20), effort)),
    },
    Case {
        name: "tap/ping-8",
        quantity: Quantity::Micros,
        references: &[Reference::shown("smoltcp and a kernel socket")],
        clock_scale: CLOCK_SCALE,
        open: |_, effort| open(Way::FromTap, Op::Send, Work::round_trips(8, effort)),
    },
];

fn open(way: Way, op: Op, work: Work) -> Result<Sides, Trouble> {
    Ok(Sides { ours: way.ours(op, work, true)?, references: vec![way.raw(work)?] })
}
