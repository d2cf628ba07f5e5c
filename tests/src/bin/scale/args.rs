//! The command line.

use clap::{Parser, ValueEnum};

/// Connects many queue pairs in one process and measures what they cost.
///
/// Both ends are in this process, on a wire in memory, or with `--transport host` in a process each, on the host's TCP
/// over loopback. Measured are the round trip of an 8-octet Send on one of the queue pairs
/// against the same with a single queue pair, turn by turn in one run; the resident memory of an idle connection; the
/// CPU time that all of them take while nothing happens; and the round trip between two that sleep against blocking
/// sockets.
///
/// Exit status: 0 when all targets were met (or with `--report`), 1 when one was missed, 2 when the arguments make no
/// sense.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "scale",
    verbatim_doc_comment,
    after_help = "Examples:
  cargo run --release -p weft-tests --bin scale
  cargo run --release -p weft-tests --bin scale -- --qps 1000 --depth 128 --tcp-buffer 262144
  cargo run --release -p weft-tests --bin scale -- --transport host
  cargo run --release -p weft-tests --bin scale -- --json"
)]
pub(crate) struct Args {
    /// What carries the connections
    #[arg(long, value_name = "NAME", default_value = "pair")]
    pub(crate) transport: Transport,
    /// Connected queue pairs
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=16_000))]
    pub(crate) qps: u32,
    /// Requests that each send and receive queue holds
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(4..=4096))]
    pub(crate) depth: u32,
    /// Octets of each TCP buffer
    #[arg(long, value_name = "OCTETS", default_value_t = 16_384)]
    #[arg(value_parser = clap::value_parser!(u32).range(4096..=4_194_304))]
    pub(crate) tcp_buffer: u32,
    /// Round trips in one turn
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pub(crate) turns: u32,
    /// Seconds during which nothing happens
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) idle: u32,
    /// Print one JSON object for each row
    #[arg(long)]
    pub(crate) json: bool,
    /// Succeed whether targets are met or not
    #[arg(long)]
    pub(crate) report: bool,
    /// Be the other end: tell an address of the host, and answer every message
    #[arg(long, value_name = "PROGRESS", hide = true)]
    pub(crate) answer: Option<Answer>,
}

/// What carries the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// A wire in memory.
    Pair,
    /// The host's TCP.
    Host,
}

/// How the other end is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Answer {
    /// By its own polling.
    Manual,
    /// By a thread.
    Thread,
}
