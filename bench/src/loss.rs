//! `weft bench loss`: RDMA Writes beside the kernel's TCP on paths that lose, delay and reorder frames.
//!
//! ```text
//!   cases.rs         the comparisons; chart.rs: their curves
//!   scene.rs         two hosts, each a network namespace, and the relay between them
//!   relay.rs         carries frames; path.rs: what they meet; seen.rs: what the relay has seen of connections
//!   conversation.rs  a connection: its ends, and what ends their waits
//!   ours.rs, kernel.rs   its stacks; device.rs: how a device of ours is opened, and on which TCP
//!   stream.rs, trips.rs, fair.rs, blackout.rs   turns; shared.rs: those that several rows share
//! ```
//!
//! A turn has new connections, and warms up by itself. Its time ends with the first message behind it, so that a stall at
//! its end counts.

mod blackout;
mod cases;
mod chart;
mod conversation;
mod device;
mod fair;
mod kernel;
mod ours;
mod path;
mod relay;
mod scene;
mod seen;
mod shared;
mod stream;
mod trips;

use std::io::{self, Write};

use crate::args::{Args, LossArgs, Turns};
use crate::choice::{self, Catalogue};
use crate::process::Outcome;

/// Measures and prints a row for each comparison.
pub(crate) fn run(wanted: &LossArgs, args: &Args, out: &mut dyn Write) -> io::Result<Outcome<()>> {
    let is_quick = args.quick && wanted.choice.only.is_empty();
    let cases = if is_quick { cases::QUICK.iter().collect() } else { cases::CASES.iter().collect() };
    let catalogue = Catalogue { cases, figures: Vec::new(), turns: TURNS, draw: Some(chart::draw) };
    choice::run(&wanted.choice, catalogue, args, out)
}

const TURNS: Turns = Turns { full: (4000, 7), quick: (3000, 1) };

#[cfg(test)]
mod tests;
