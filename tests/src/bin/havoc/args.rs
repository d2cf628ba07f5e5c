//! The arguments.

use std::path::PathBuf;

use clap::Parser;

/// Kill and stop processes by chance that talk over shared memory, and check what the others see.
///
/// Workers talk to each other over many connections. Workers and the daemon are killed, and workers are stopped and
/// continued. A reader must see a prefix of what was written, and all of it if nobody was killed. No connection between
/// survivors may break or stand still. At the end neither the survivors nor the daemon may hold what belonged to the dead.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "havoc",
    after_help = "Examples:
  havoc --seconds 10 --connections 50
  havoc --seconds 600 --connections 1000 --workers 20 --seed 7
  havoc --seconds 600 --connections 1000 --workers 20 --rest 2000
  havoc --seconds 10 --plain"
)]
pub(crate) struct Args {
    /// Seconds of havoc
    #[arg(long, value_name = "S", default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) connections: usize,
    /// Processes at a time
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(crate) workers: usize,
    /// What decides all that is left to chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Milliseconds of the longest rest between two messages. With long rests threads do not wait for a CPU, so that
    /// a connection that stands still is found soon
    #[arg(long, value_name = "MS", default_value_t = 63, value_parser = clap::value_parser!(u64).range(..=5000))]
    pub(crate) rest: u64,
    /// Leave the daemon alone
    #[arg(long)]
    pub(crate) spare_daemon: bool,
    /// Plain sockets: what fails is a defect of this program
    #[arg(long)]
    pub(crate) plain: bool,
    /// The library, instead of the one beside this program
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    #[arg(long, hide = true)]
    pub(crate) worker: bool,
}
