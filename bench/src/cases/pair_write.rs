//! RDMA Write of 1 MiB on a wire in memory, one thread for both ends.

use weft_rnic::CLOCK_SCALE;

use crate::case::{Case, Effort, Quantity, Reference, Side, Sides, Target, Trouble};
use crate::copies::Copies;
use crate::ours::{self, Ends, Op, Work};
use crate::raw;
use crate::setting::Setting;

pub(super) static CASES: [Case; 2] = [
    Case {
        name: "pair/write-1m/mtu-65535",
        quantity: Quantity::Throughput,
        references: &references(0.85),
        clock_scale: CLOCK_SCALE,
        open: |_, effort| open(&Setting::new(65_535), effort),
    },
    Case {
        name: "pair/write-1m/mtu-1500",
        quantity: Quantity::Throughput,
        references: &references(0.75),
        clock_scale: CLOCK_SCALE,
        open: |_, effort| open(&Setting::new(1500), effort),
    },
];

fn open(setting: &Setting, effort: &Effort) -> Result<Sides, Trouble> {
    let size = effort.octets(1 << 20);
    let work = Work::new(Op::Write, size);
    let ends = Ends::on_pair(setting, 1, 64)?;
    let ours = Box::new(ours::Stream::new(ends, work)?);
    let references: Vec<Box<dyn Side>> = vec![
        Box::new(raw::Stream::new(setting, raw::Pieces::new(size))?),
        Box::new(Copies::new(size, false)),
        Box::new(Copies::new(size, true)),
    ];
    Ok(Sides { ours, references })
}

/// The wire's TCP alone, and memory alone: every transfer needs at least one copy and, with a CRC, one pass.
const fn references(target: f64) -> [Reference; 3] {
    [
        Reference::with_target("smoltcp stream, no CRC", Target::RatioAtLeast(target)),
        Reference::shown("memcpy"),
        Reference::shown("memcpy and CRC32c"),
    ]
}
