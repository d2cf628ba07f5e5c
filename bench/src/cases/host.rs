//! The kernel's TCP on loopback: below ours, as plain sockets, and below libfabric. Two threads, two cores.

use crate::case::{Case, Effort, Quantity, Reference, Sides, Target, Trouble};
use crate::net::{Op, Provider, Waiting, Way, Work};

pub(super) static CASES: [Case; 9] = [
    Case {
        name: "host/ping-64",
        quantity: Quantity::Micros,
        references: &[
            Reference::with_target("kernel TCP, spinning", Target::RatioAtMost(1.25)),
            Reference::shown("kernel TCP, blocking"),
        ],
        clock_scale: 1,
        open: |_, effort| {
            let work = Work::round_trips(64, effort);
            let [spinning, blocking] =
                [Waiting::Spinning, Waiting::Blocking].map(|it| Way::Loopback.kernel(work, it));
            Ok(Sides {
                ours: Way::Loopback.ours(Op::Send, work, true)?,
                references: vec![spinning?, blocking?],
            })
        },
    },
    Case {
        name: "host/ping-64/libfabric",
        quantity: Quantity::Micros,
        references: &[Reference {
            is_optional: true,
            ..Reference::with_target("fi_pingpong, tcp", Target::RatioAtMost(0.75))
        }],
        clock_scale: 1,
        open: |_, effort| round_trips(64, effort, true, Provider::Tcp),
    },
    Case {
        name: "host/ping-64/libfabric-shm",
        quantity: Quantity::Micros,
        references: &[Reference { is_optional: true, ..Reference::shown("fi_pingpong, shm") }],
        clock_scale: 1,
        open: |_, effort| round_trips(64, effort, true, Provider::Shm),
    },
    Case {
        name: "host/write-1m",
        quantity: Quantity::Throughput,
        references: &[
            Reference::with_target("kernel TCP, spinning", Target::RatioAtLeast(0.65)),
            Reference::with_target("kernel TCP, blocking", Target::RatioAtLeast(0.65)),
        ],
        clock_scale: 1,
        open: |_, effort| stream(effort, true),
    },
    Case {
        name: "host/write-1m/no-crc",
        quantity: Quantity::Throughput,
        references: &[
            Reference::with_target("kernel TCP, spinning", Target::RatioAtLeast(0.75)),
            Reference::with_target("kernel TCP, blocking", Target::RatioAtLeast(0.75)),
        ],
        clock_scale: 1,
        open: |_, effort| stream(effort, false),
    },
    Case {
        name: "host/ping-1m/libfabric",
        quantity: Quantity::Micros,
        references: &[Reference {
            is_optional: true,
            ..Reference::with_target("fi_pingpong, tcp", Target::RatioAtMost(1.0))
        }],
        clock_scale: 1,
        open: |_, effort| round_trips(effort.octets(1 << 20), effort, true, Provider::Tcp),
    },
    Case {
        name: "host/ping-1m/no-crc/libfabric",
        quantity: Quantity::Micros,
        references: &[Reference {
            is_optional: true,
            ..Reference::with_target("fi_pingpong, tcp", Target::RatioAtMost(1.0))
        }],
        clock_scale: 1,
        open: |_, effort| round_trips(effort.octets(1 << 20), effort, false, Provider::Tcp),
    },
    Case {
        name: "host/send-8/batch-32",
        quantity: Quantity::Rate,
        references: &[
            Reference::with_target("kernel TCP, 32 FPDUs a send", Target::RatioAtLeast(0.25)),
            Reference::shown("kernel TCP, 8 B a send"),
        ],
        clock_scale: 1,
        open: |_, effort| {
            let ours = Way::Loopback.ours(Op::Send, Work::batches(8, 32, effort), true)?;
            let fpdus = Way::Loopback.kernel(Work::batches(FPDU, 32, effort), Waiting::Spinning)?;
            let single = Way::Loopback.kernel(Work::stream(8, effort), Waiting::Spinning)?;
            Ok(Sides { ours, references: vec![fpdus, single] })
        },
    },
    Case {
        name: "host/send-8/single",
        quantity: Quantity::Rate,
        references: &[Reference::shown("kernel TCP, 8 B a send")],
        clock_scale: 1,
        open: |_, effort| {
            let work = Work::stream(8, effort);
            Ok(Sides {
                ours: Way::Loopback.ours(Op::Send, work, true)?,
                references: vec![Way::Loopback.kernel(work, Waiting::Spinning)?],
            })
        },
    },
];

fn stream(effort: &Effort, crc: bool) -> Result<Sides, Trouble> {
    let work = Work::stream(effort.octets(1 << 20), effort);
    let references =
        vec![Way::Loopback.kernel(work, Waiting::Spinning)?, Way::Loopback.kernel(work, Waiting::Blocking)?];
    Ok(Sides { ours: Way::Loopback.ours(Op::Write, work, crc)?, references })
}

fn round_trips(size: usize, effort: &Effort, crc: bool, provider: Provider) -> Result<Sides, Trouble> {
    let ours = Way::Loopback.ours(Op::Send, Work::round_trips(size, effort), crc)?;
    Ok(Sides { ours, references: vec![Way::fabric(provider, size)?] })
}

/// Octets of the FPDU of an 8-octet Send: length, headers of DDP and RDMAP, payload and CRC.
const FPDU: usize = 32;
