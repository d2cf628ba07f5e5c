//! `havoc`: processes that talk over many connections while processes and the daemon are killed and stopped by chance.

mod daemon;
mod driver;
mod talk;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use weft_tests::command_line;

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
  havoc --seconds 10 --plain"
)]
struct Args {
    /// Seconds of havoc
    #[arg(long, value_name = "S", default_value_t = 10)]
    seconds: u64,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 50)]
    connections: usize,
    /// Processes at a time
    #[arg(long, value_name = "N", default_value_t = 6)]
    workers: usize,
    /// What decides all that is left to chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Leave the daemon alone
    #[arg(long)]
    spare_daemon: bool,
    /// Plain sockets: what fails is a defect of this program
    #[arg(long)]
    plain: bool,
    /// The library, instead of the one beside this program
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    #[arg(long, hide = true)]
    worker: bool,
}

fn main() -> ExitCode {
    let args = match command_line::parse::<Args>() {
        Ok(args) => args,
        Err(status) => return status,
    };
    let done = if args.worker { worker::run().map(|()| true) } else { driver::run(&args) };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => command_line::complain::<Args>(&error.to_string(), 1),
    }
}
