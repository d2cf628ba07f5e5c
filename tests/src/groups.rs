//! The worlds of groups for the simulation: chains of replicas, their clients, and a network that loses frames and hosts.
//!
//! ```text
//! world    sessions that have a range each       oracle   what their replicas may hold
//! shared   sessions that share registers under a lock, through changes of epoch
//! ground   the hosts of a world, plan of what happens
//! ```
//! Devices, replicas, sessions and locks are the real ones. The worlds play what the thread of a server does: it ends a
//! session at a replica where a connection of it has ended.

mod ground;
mod oracle;
mod plan;
mod sabotage;
mod shared;
mod world;

use crate::simulate::result::Run;
use crate::simulate::tally::Tally;
use crate::simulate::trace::Trace;

use ground::Ground;
use plan::Plan;
pub use sabotage::Sabotage;
use shared::Shared;
use world::World;

/// Runs one seed in both worlds. The second one begins when the first one has passed.
pub(crate) fn simulate(seed: u64, is_traced: bool, sabotage: Option<Sabotage>) -> Run {
    let mut world = World::new(Plan::new(seed), Trace::new(is_traced));
    let result = world.run(sabotage == Some(Sabotage::Octet));
    let first = finish(result, world.ground);
    if first.result.is_err() {
        return first;
    }
    let mut world = Shared::new(Plan::shared(seed), sabotage, Trace::new(is_traced));
    let result = world.run();
    let second = finish(result, world.ground);
    let mut tally = Tally { seeds: 1, ..first.tally };
    tally.add(&second.tally);
    let lines = [first.lines, second.lines].concat();
    Run { result: second.result, hash: first.hash ^ second.hash.rotate_left(1), tally, lines }
}

fn finish(result: Result<(), String>, ground: Ground) -> Run {
    let tally = Tally { frames: ground.hub.frames, ..ground.tally };
    Run { result, hash: ground.trace.hash(), tally, lines: ground.trace.into_lines() }
}
