//! The world of epochs for the simulation: servers are killed, clients and coordinators die, links are cut, and the epoch
//! changes again and again. What was acknowledged has to be there.
//!
//! ```text
//! world ── stage    the hosts with their servers, the network, the register and the history
//!   │       ├── host, disk     a server that is killed and starts again, with what its memory survives
//!   │       ├── net            the switch: loss, slow hosts, cut links
//!   │       ├── register       the record of the group; answers get lost, and swaps come late
//!   │       └── history        what reads may find
//!   ├── client                 a session, and what it does until that is over
//!   └── changing               a coordinator
//! ```
//! Servers, sessions, changes of epoch and the control plane are the real ones, on virtual time and without threads.

mod changing;
mod client;
mod disk;
mod history;
mod host;
mod net;
mod plan;
mod register;
mod sabotage;
mod stage;
mod world;

use crate::simulate::result::Run;
use crate::simulate::tally::Tally;
use crate::simulate::trace::Trace;

use plan::Plan;
pub use sabotage::Sabotage;
use world::World;

/// Runs one seed.
pub(crate) fn simulate(seed: u64, is_traced: bool, sabotage: Option<Sabotage>) -> Run {
    let mut world = World::new(Plan::new(seed), Trace::new(is_traced), sabotage);
    let result = world.run();
    let stage = world.into_stage();
    let tally = Tally { seeds: 1, ..stage.tally };
    Run { result, hash: stage.trace.hash(), tally, lines: stage.trace.into_lines() }
}
