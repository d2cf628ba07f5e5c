//! The command line.

use clap::{Parser, ValueEnum};

/// Connects many queue pairs in one process and measures what they cost.
///
/// Both ends are in this process, on a wire in memory. With `--transport host` each is in a process of its own, on the
/// host's TCP over loopback. The program measures four things, in turns with their references: the round trip of an
/// 8-octet Send on one of the queue pairs, against that on a single queue pair; the resident memory of an idle
/// connection; the CPU time of all connections while they are idle; the round trip between two sleeping ends, against
/// blocking sockets.
///
/// Exit status: 0 when all targets were met (or with `--report`), 1 when one was missed, 2 when the arguments are
/// invalid.
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
    /// The carrier of the connections
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
    /// Be the other end: print an address of the host, and answer every message
    #[arg(long, value_name = "PROGRESS", hide = true)]
    pub(crate) answer: Option<Answer>,
}

/// The carrier of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// A wire in memory.
    Pair,
    /// The host's TCP.
    Host,
}

/// The way in which the other end is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Answer {
    /// The end polls by itself.
    Manual,
    /// A thread drives the end.
    Thread,
}
