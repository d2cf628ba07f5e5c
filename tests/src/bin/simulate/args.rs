//! The command line.

use clap::{Parser, ValueEnum};
use weft_tests::simulate::Kind;

/// Simulates engines on a network full of faults, and checks every completion and every octet.
///
/// A seed decides all of it: MTU, Markers, CRC, TCP buffers, queue sizes, what is sent, what goes wrong, and how each
/// connection ends. The same seed gives the same run. A seed that fails is reported with the one command that repeats
/// it.
///
/// Exit status: 0 when all seeds passed, 1 when one failed, 2 when the arguments are invalid.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "simulate",
    verbatim_doc_comment,
    after_help = "Examples:
  cargo run --release -p weft-tests --bin simulate -- --seeds 10000
  cargo run --release -p weft-tests --bin simulate -- --for 180 --from 1000000
  cargo run --release -p weft-tests --bin simulate -- --from 1234 --trace | less
  cargo run --release -p weft-tests --bin simulate -- --seeds 500 --json"
)]
pub(crate) struct Args {
    /// Simulate this world
    #[arg(long, value_enum, default_value_t = World::Verbs)]
    world: World,
    /// Run so many seeds
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with_all = ["seconds", "trace"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1 << 60))]
    pub(crate) from: u64,
    /// Run as many seeds as fit into so many seconds
    #[arg(long = "for", value_name = "SECONDS", conflicts_with = "trace")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) seconds: Option<u64>,
    /// Use so many threads; without it, as many as the machine has processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Stop at the first seed that fails
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// Print the summary as one JSON object
    #[arg(long, conflicts_with = "trace")]
    pub(crate) json: bool,
    /// Run one seed, and print its plan and what happens
    #[arg(long)]
    pub(crate) trace: bool,
}

/// What is simulated.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum World {
    /// Engines, their applications and a network
    Verbs,
    /// Programs on `weft sockets`, their daemon and the kernel's streams
    Sockets,
    /// The same on two hosts, whose daemons have lanes
    Hosts,
    /// Chains of replicas, and their clients
    Groups,
    /// Servers of a group that are killed, and its epochs
    Epochs,
    /// Extended Sockets on two hosts
    Exs,
}

impl Args {
    pub(crate) const fn kind(&self) -> Kind {
        match self.world {
            World::Verbs => Kind::Verbs,
            World::Sockets => Kind::Sockets,
            World::Hosts => Kind::Hosts,
            World::Groups => Kind::Groups,
            World::Epochs => Kind::Epochs,
            World::Exs => Kind::Exs,
        }
    }
}
