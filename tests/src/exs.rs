//! The world of Extended Sockets for the simulation: sockets for messages and for streams on two hosts, and a network that
//! loses frames and cuts links.
//!
//! ```text
//! world    the hosts, their sockets, and what goes wrong      plan     what a seed decides before a run
//! side     one end of a socket: its program                   oracle   what was received, from what was sent
//! ledger   the operations that a side has started             socket   a socket of either kind
//! ```
//! Contexts, sockets, listeners, operations and queues are the real ones, on virtual time. Every operation has to end once
//! and in its order, every octet has to come once and in its order, and a buffer that has come back has to stay as it is.

mod ledger;
#[cfg(test)]
mod line;
mod oracle;
mod plan;
mod sabotage;
mod side;
mod socket;
mod world;

use crate::simulate::result::Run;
use crate::simulate::tally::Tally;
use crate::simulate::trace::Trace;

use plan::Plan;
pub use sabotage::Sabotage;
use world::World;

/// Runs one seed.
pub(crate) fn simulate(seed: u64, is_traced: bool, sabotage: Option<Sabotage>) -> Run {
    let mut world = World::new(Plan::new(seed), sabotage, Trace::new(is_traced));
    let result = world.run();
    let tally = Tally {
        seeds: 1,
        frames: world.hub.frames,
        virtual_micros: world.now().total_micros().unsigned_abs(),
        ..world.tally
    };
    Run { result, hash: world.trace.hash(), tally, lines: world.trace.into_lines() }
}
