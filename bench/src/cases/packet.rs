//! A veth between two network namespaces: ours at both ends, by raw sockets with offloads, and the kernel's TCP there.

use weft_rnic::CLOCK_SCALE;

use crate::case::{Case, Quantity, Reference, Sides, Target};
use crate::net::{Op, Waiting, Way, Work};

pub(super) static CASES: [Case; 2] = [
    Case {
        name: "packet/write-1m",
        quantity: Quantity::Throughput,
        references: &[
            Reference::with_target("kernel TCP, spinning", Target::RatioAtLeast(0.5)),
            Reference::with_target("kernel TCP, blocking", Target::RatioAtLeast(0.5)),
            Reference::shown("smoltcp at both ends"),
        ],
        clock_scale: CLOCK_SCALE,
        open: |_, effort| {
            let work = Work::stream(effort.octets(1 << 20), effort);
            let spinning = Way::Veth.kernel(work, Waiting::Spinning)?;
            Ok(Sides {
                ours: Way::Veth.ours(Op::Write, work, true)?,
                references: vec![spinning, Way::Veth.kernel(work, Waiting::Blocking)?, Way::Veth.raw(work)?],
            })
        },
    },
    Case {
        name: "packet/ping-8",
        quantity: Quantity::Micros,
        references: &[
            Reference::with_target("kernel TCP, spinning", Target::RatioAtMost(0.7)),
            Reference::shown("smoltcp at both ends"),
        ],
        clock_scale: CLOCK_SCALE,
        open: |_, effort| {
            let work = Work::round_trips(8, effort);
            let references = vec![Way::Veth.kernel(work, Waiting::Spinning)?, Way::Veth.raw(work)?];
            Ok(Sides { ours: Way::Veth.ours(Op::Send, work, true)?, references })
        },
    },
];
