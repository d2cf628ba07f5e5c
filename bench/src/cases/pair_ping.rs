//! 8 octets back and forth on a wire in memory, one thread for both ends, progress by its own calls.

use weft_rnic::CLOCK_SCALE;

use crate::case::{Case, Quantity, Reference, Sides, Target, Trouble};
use crate::ours::{self, Ends};
use crate::raw;
use crate::setting::Setting;

pub(super) static CASES: [Case; 1] = [Case {
    name: "pair/ping-8",
    quantity: Quantity::Micros,
    references: &[Reference::with_target("smoltcp ping-pong", Target::RatioAtMost(1.7))],
    clock_scale: CLOCK_SCALE,
    open: |_, _| open(),
}];

fn open() -> Result<Sides, Trouble> {
    let setting = Setting::new(1500);
    let ours = Box::new(ours::Ping::new(Ends::on_pair(&setting, 1, 64)?, 8, 0)?);
    Ok(Sides { ours, references: vec![Box::new(raw::Ping::new(&setting, 8)?)] })
}
