//! The world of sockets for the simulation: programs, daemons and the kernel's streams of one host or two.
//!
//! The core is the real one, built with atomics before each of which another thread may run, or the process be killed. The
//! daemon's state is the real one, too. What the library does around the core in programs is written again here, without
//! system calls: each file that is named as one of the library's follows that. They are a model of it: its own
//! tests show that it has the same steps.

mod app;
mod closing;
mod connection;
mod end;
mod far;
mod kernel;
mod lanes;
mod lower;
mod oracle;
mod overtaken;
mod places;
mod plan;
mod process;
mod receive;
mod record;
mod sabotage;
mod service;
mod task;
mod transfer;
mod upgrade;
mod waits;
mod watch;
mod world;

use crate::simulate::result::Run;
use crate::simulate::tally::Tally;
use crate::simulate::trace::Trace;

pub use sabotage::Sabotage;

use plan::Plan;
use world::World;

/// Runs one seed. With `is_far` the ends of connections belong to two hosts.
pub(crate) fn simulate(seed: u64, is_far: bool, is_traced: bool, left_out: Option<Sabotage>) -> Run {
    let mut plan = Plan::new(seed, is_far);
    let world = World::new(&mut plan, Trace::new(is_traced), left_out);
    for connection in &plan.connections {
        world.note(format_args!("{connection:?}"));
    }
    app::begin(&world, &plan);
    for service in &world.services[..1 + usize::from(plan.is_far)] {
        service.borrow_mut().begin();
    }
    if plan.is_far {
        far::begin(&world);
    }
    let result = world.run(&plan);
    let trace = world.trace.replace(Trace::new(false));
    let tally = Tally { seeds: 1, ..world.tally.take() };
    Run { result, hash: trace.hash(), tally, lines: trace.into_lines() }
}
