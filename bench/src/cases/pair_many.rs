//! 8 octets back and forth on one of many connected queue pairs, against a single queue pair.

use weft_rnic::CLOCK_SCALE;

use crate::case::{Case, Quantity, Reference, Sides, Target, Trouble};
use crate::ours::{Ends, Ping};
use crate::setting::Setting;

pub(super) static CASES: [Case; 2] = [
    Case {
        name: "pair/one-of-1000",
        quantity: Quantity::Micros,
        references: &[Reference::with_target("the only one", Target::RatioAtMost(1.3))],
        clock_scale: CLOCK_SCALE,
        open: |_, effort| open(effort.count(1000)),
    },
    Case {
        name: "pair/one-of-10000",
        quantity: Quantity::Micros,
        references: &[Reference::with_target("the only one", Target::RatioAtMost(2.5))],
        clock_scale: CLOCK_SCALE,
        open: |_, effort| open(effort.count(10_000)),
    },
];

/// Measures one queue pair of many. The others are connected and idle, with receives posted.
fn open(qps: usize) -> Result<Sides, Trouble> {
    // Both sides have the small buffers that suit many connections.
    let setting = Setting { tcp_buffer: 16 << 10, ..Setting::new(1500) };
    let ping = |qps: usize| Ping::new(Ends::on_pair(&setting, qps, 16)?, 8, qps / 2).map(Box::new);
    Ok(Sides { ours: ping(qps)?, references: vec![ping(1)?] })
}
