//! Simulation: engines, their applications and a network full of faults on one virtual clock. A seed decides all of
//! it, and a model tells the right results.
//!
//! ```text
//!   plan ── workload, draft, layout      what is going to happen: drawn from the seed before anything runs
//!     │
//!   world ── apps, fates                 engines and applications, moved step by step
//!     │  └── network                     the switch: loss, duplication, order, damage, forged octets, cut links
//!     ▼
//!   lane ── model, memory, verdict       what every completion, octet and event must be
//! ```
//! A run is a pure function of its seed: [`run`] returns the same [`Outcome`] each time, to the last frame. Within a
//! run no octet of memory is the target of two operations, so that all contents are known. An octet is placed, or not
//! placed, or in flight: then the beginning of one message may be there, and no octet behind it.
//!
//! By [`Sabotage`] a test shows that the model can fail.

mod apps;
mod draft;
mod fates;
pub(crate) mod hub;
mod lane;
mod layout;
mod memory;
mod model;
mod network;
mod plan;
pub(crate) mod random;
mod request;
pub(crate) mod result;
mod sabotage;
pub(crate) mod tally;
pub(crate) mod trace;
mod verdict;
mod workload;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use sabotage::Sabotage;
pub use tally::Tally;

use crate::{epochs, exs, groups, sockets};
use plan::Plan;
use sabotage::Saboteur;
use trace::{Trace, text_of};
use world::World;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The seed of the run.
    pub seed: u64,
    /// The fault that was found, or `None`.
    pub failure: Option<String>,
    /// The hash of all events. Two runs with the same events have the same hash.
    pub hash: u64,
    /// The events as text, if the caller wanted them.
    pub lines: Vec<String>,
    /// The counts of the run.
    pub tally: Tally,
    /// The act of sabotage was committed.
    pub sabotaged: bool,
}

/// Options of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Keep the events as text.
    pub trace: bool,
    /// What is simulated.
    pub kind: Kind,
    /// Falsify the engines' results.
    pub sabotage: Option<Sabotage>,
    /// A step that programs with sockets leave out.
    pub left_out: Option<sockets::Sabotage>,
    /// What is done to a group.
    pub of_group: Option<groups::Sabotage>,
    /// A rule of epochs that is broken.
    pub of_epochs: Option<epochs::Sabotage>,
    /// What is falsified of sockets of EXS.
    pub of_exs: Option<exs::Sabotage>,
}

/// What is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Engines, their applications and a network.
    #[default]
    Verbs,
    /// Programs on `weft sockets`, their daemon and the kernel's streams.
    Sockets,
    /// The same on two hosts, whose daemons have lanes.
    Hosts,
    /// Chains of replicas, and their clients.
    Groups,
    /// Servers that are killed, and epochs that change.
    Epochs,
    /// Extended Sockets on two hosts.
    Exs,
}

impl Kind {
    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verbs => "verbs",
            Self::Sockets => "sockets",
            Self::Hosts => "hosts",
            Self::Groups => "groups",
            Self::Epochs => "epochs",
            Self::Exs => "exs",
        }
    }
}

/// Runs one seed. A panic of the stack is a failure like any other.
pub fn run(seed: u64, options: Options) -> Outcome {
    let mut outcome = Outcome {
        seed,
        failure: None,
        hash: 0,
        lines: Vec::new(),
        tally: Tally { seeds: 1, ..Tally::default() },
        sabotaged: false,
    };
    let caught = catch_unwind(AssertUnwindSafe(|| match options.kind {
        Kind::Verbs => simulate(seed, options, &mut outcome),
        kind => {
            let run = match kind {
                Kind::Groups => groups::simulate(seed, options.trace, options.of_group),
                Kind::Epochs => epochs::simulate(seed, options.trace, options.of_epochs),
                Kind::Exs => exs::simulate(seed, options.trace, options.of_exs),
                _ => sockets::simulate(seed, kind == Kind::Hosts, options.trace, options.left_out),
            };
            (outcome.hash, outcome.tally, outcome.lines) = (run.hash, run.tally, run.lines);
            run.result
        }
    }));
    match caught {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => outcome.failure = Some(failure),
        Err(panic) => outcome.failure = Some(format!("panic: {}", text_of(&*panic))),
    }
    outcome
}

/// Returns the command that repeats a seed.
pub fn command(kind: Kind, seed: u64) -> String {
    let world = kind.name();
    format!("cargo run --release -p weft-tests --bin simulate -- --world {world} --seeds 1 --from {seed}")
}

fn simulate(seed: u64, options: Options, outcome: &mut Outcome) -> Result<(), String> {
    let plan = Plan::new(seed);
    let mut trace = Trace::new(options.trace);
    plan.describe(&mut trace);
    let mut world = World::new(plan, trace, Saboteur::new(options.sabotage))?;
    // The trace up to a panic is worth reading, whatever state the panic leaves.
    let ran = catch_unwind(AssertUnwindSafe(|| world.run()));
    let result = ran.unwrap_or_else(|panic| Err(format!("panic: {}", text_of(&*panic))));
    world.count_faults();
    outcome.sabotaged = world.saboteur.is_done;
    outcome.hash = world.trace.hash();
    outcome.tally = Tally { seeds: 1, ..std::mem::take(&mut world.tally) };
    outcome.lines = std::mem::replace(&mut world.trace, Trace::new(false)).into_lines();
    result
}
