//! Sends of 8 octets, many with one doorbell, on a wire in memory, one thread for both ends.

use weft_rnic::CLOCK_SCALE;

use crate::case::{Case, Effort, Quantity, Reference, Sides, Target, Trouble};
use crate::net::{self, Waiting, Way};
use crate::ours::{self, Ends, Op, Work};
use crate::raw::{self, Pieces};
use crate::setting::Setting;

pub(super) static CASES: [Case; 1] = [Case {
    name: "pair/send-8/batch-32",
    quantity: Quantity::Rate,
    references: &[
        Reference::with_target("smoltcp, 32 FPDUs a send", Target::RatioAtLeast(0.25)),
        Reference::shown("kernel TCP, 8 B a send"),
    ],
    clock_scale: CLOCK_SCALE,
    open: |_, effort| open(effort),
}];

/// Both sides hand over 32 messages, and then both ends have a turn. Ours rings one doorbell for 32 requests, the last of
/// which makes a completion. The reference calls `send` once, with the octets of 32 FPDUs.
fn open(effort: &Effort) -> Result<Sides, Trouble> {
    let setting = Setting::new(1500);
    let work = Work { depth: 4 * BATCH, batch: BATCH, signal_every: BATCH, ..Work::new(Op::Send, 8) };
    let ours = Box::new(ours::Stream::new(Ends::on_pair(&setting, 1, 256)?, work)?);
    let pieces = Pieces { user: 8, at_once: BATCH * FPDU, ..Pieces::new(FPDU) };
    let kernel = Way::Loopback.kernel(net::Work::stream(8, effort), Waiting::Spinning)?;
    Ok(Sides { ours, references: vec![Box::new(raw::Stream::new(&setting, pieces)?), kernel] })
}

const BATCH: usize = 32;
/// Octets of the FPDU of a Send of 8: length 2, header 18, data 8, CRC 4.
const FPDU: usize = 32;
