//! The arguments of `weft exs blast`.

use std::net::SocketAddr;

use clap::Parser;

use super::super::address::address;
use super::plan::{Carries, MAX_OPERATIONS};
use super::sizes::{self, Limit, Sizes};
use super::wait::Wait;
use crate::ground::GroundArgs;
use crate::usage::number;

/// Measure messages and streams of many sizes between two processes.
///
/// Without -s and -c this command starts the other end itself, as a process of its own on the host's TCP. Before each
/// measurement some transfers are checked octet by octet. CPU is that of the whole process, the software RNIC included,
/// in percent of a core.
#[derive(Debug, Clone, Parser)]
#[command(after_help = "Examples:
  weft exs blast
  weft exs blast --type message --sizes 64,4K,1M --small 0,1024,max
  weft exs blast --type stream --sizes 1M --waitall --json
  weft exs blast --type message --sizes 64 --sync --wait poll
  weft exs blast -s 10.0.0.1:7476
  weft exs blast -c 10.0.0.1:7476 --sizes 1M")]
pub(crate) struct Args {
    /// Be the end that receives, for one client; port 0 chooses a free one
    #[arg(short, long, value_name = "ADDR:PORT", value_parser = address, conflicts_with_all = MEASURED)]
    pub(super) server: Option<SocketAddr>,
    /// Be the end that sends, and print the results
    #[arg(short, long, value_name = "ADDR:PORT", value_parser = address, conflicts_with = "server")]
    pub(super) client: Option<SocketAddr>,
    /// What the sockets carry
    #[arg(long = "type", value_name = "TYPE[,TYPE]", value_enum, value_delimiter = ',')]
    #[arg(default_values = ["message", "stream"])]
    pub(super) types: Vec<Carries>,
    /// Octets of a send, 1 to 64M: a list, or two ends of a range, which grows by a factor of 4
    #[arg(long, value_name = "LIST|A..B", default_value = "1..16M", value_parser = sizes::parse)]
    pub(super) sizes: Sizes,
    /// The longest immediate data in octets; `max` makes all of it immediate
    #[arg(long, value_name = "N[,N]", default_value = "1024", value_delimiter = ',', value_parser = sizes::limit)]
    pub(super) small: Vec<Limit>,
    /// Sends under way at a time
    #[arg(long, value_name = "N", default_value_t = 16, allow_negative_numbers = true)]
    #[arg(value_parser = number::<usize>(1..=MAX_OPERATIONS))]
    pub(super) pending: usize,
    /// Receives under way at a time
    #[arg(long, value_name = "N", default_value_t = 16, allow_negative_numbers = true)]
    #[arg(value_parser = number::<usize>(1..=MAX_OPERATIONS))]
    pub(super) recvs: usize,
    /// A receive of a stream waits until it is full; without streams among the types it is refused
    #[arg(long)]
    pub(super) waitall: bool,
    /// Wait for each send before the next one, and for each receive, as programs of blocking sockets do: --pending 1
    /// --recvs 1
    #[arg(long, conflicts_with_all = ["pending", "recvs"])]
    pub(super) sync: bool,
    /// How both ends wait for transfers
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Wait::Adaptive)]
    pub(super) wait: Wait,
    /// Milliseconds of a measurement
    #[arg(long, value_name = "MS", default_value_t = 300, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(1..=60_000))]
    pub(super) time: u32,
    /// Print one JSON object a line
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) ground: GroundArgs,
}

impl Args {
    /// Returns how many sends and receives are under way at a time.
    pub(super) const fn at_a_time(&self) -> (usize, usize) {
        if self.sync { (1, 1) } else { (self.pending, self.recvs) }
    }
}

/// What only the end that measures has.
const MEASURED: [&str; 8] = ["types", "sizes", "small", "pending", "recvs", "time", "sync", "wait"];
