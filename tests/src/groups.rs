//! The world of groups for the simulation: chains of replicas, their clients, and a network that loses frames and hosts.
//!
//! Devices, replicas and sessions are the real ones. The world plays what the thread of a server does: it ends a session at a
//! replica where a connection of it has ended.

mod hub;
mod oracle;
mod plan;
mod world;

use crate::simulate::result::Run;
use crate::simulate::tally::Tally;
use crate::simulate::trace::Trace;

use plan::Plan;
use world::World;

/// Runs one seed. With `is_spoiled` an octet of a replica changes by itself at the end.
pub(crate) fn simulate(seed: u64, is_traced: bool, is_spoiled: bool) -> Run {
    let mut world = World::new(Plan::new(seed), Trace::new(is_traced));
    let result = world.run(is_spoiled);
    let trace = std::mem::replace(&mut world.trace, Trace::new(false));
    let tally = Tally { seeds: 1, ..std::mem::take(&mut world.tally) };
    Run { result, hash: trace.hash(), tally, lines: trace.into_lines() }
}
