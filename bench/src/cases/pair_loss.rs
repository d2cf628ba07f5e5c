//! Random loss of frames of 1500 octets on a wire in memory.
//!
//! The engine's clock runs a thousand times faster than real time, as it may between two ends of Weft. So smoltcp's
//! shortest retransmission timeout of one second is a millisecond. Congestion control is off: the loss is random, and
//! no other stream shares the wire.

use weft_netif::Congestion;

use crate::case::{Case, Effort, Quantity, Reference, Sides, Target, Trouble};
use crate::ours::{self, Ends, Op, Work};
use crate::raw::{self, Pieces};
use crate::setting::Setting;

pub(super) static CASES: [Case; 4] = [
    Case {
        name: "pair/loss-0.1%",
        quantity: Quantity::Throughput,
        references: &[
            Reference::with_target("without loss", Target::RatioAtLeast(0.3)),
            Reference::shown("smoltcp stream, same loss"),
        ],
        clock_scale: SCALE,
        open: |_, effort| throughput(0.001, effort),
    },
    Case {
        name: "pair/loss-1%",
        quantity: Quantity::Throughput,
        references: &[
            Reference::with_target("without loss", Target::RatioAtLeast(0.1)),
            Reference::shown("smoltcp stream, same loss"),
        ],
        clock_scale: SCALE,
        open: |_, effort| throughput(0.01, effort),
    },
    Case {
        name: "pair/loss-0.1%/stall",
        quantity: Quantity::Stall,
        references: &[Reference::with_target("without loss", Target::ValueAtMost(50.0))],
        clock_scale: SCALE,
        open: |_, effort| stalls(0.001, effort),
    },
    Case {
        name: "pair/loss-1%/stall",
        quantity: Quantity::Stall,
        references: &[Reference::with_target("without loss", Target::ValueAtMost(50.0))],
        clock_scale: SCALE,
        open: |_, effort| stalls(0.01, effort),
    },
];

fn throughput(loss: f64, effort: &Effort) -> Result<Sides, Trouble> {
    let setting = setting(loss);
    let size = effort.octets(SIZE);
    let references: Vec<Box<dyn crate::case::Side>> = vec![
        Box::new(ours(&self::setting(0.0), size)?),
        Box::new(raw::Stream::new(&setting, Pieces::new(size))?),
    ];
    Ok(Sides { ours: Box::new(ours(&setting, size)?), references })
}

fn stalls(loss: f64, effort: &Effort) -> Result<Sides, Trouble> {
    let size = effort.octets(SIZE);
    let side = |loss| ours(&setting(loss), size).map(|stream| Box::new(stream.with_stalls()));
    Ok(Sides { ours: side(loss)?, references: vec![side(0.0)?] })
}

/// A stream of Sends, since each Send completes a receive when it arrives.
fn ours(setting: &Setting, size: usize) -> Result<ours::Stream, Trouble> {
    ours::Stream::new(Ends::on_pair(setting, 1, 64)?, Work::new(Op::Send, size))
}

fn setting(loss: f64) -> Setting {
    Setting { loss, clock_scale: SCALE, congestion: Congestion::None, ..Setting::new(1500) }
}

const SCALE: u32 = 1000;
const SIZE: usize = 16 << 10;
