//! `weft exs`: Extended Sockets from the command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

mod address;
mod blast;
mod cat;
mod opened;

/// Move octets by Extended Sockets (EXS): asynchronous sockets over RDMA, for messages and for streams.
#[derive(Debug, Clone, Parser)]
#[command(
    subcommand_required = true,
    after_help = "Examples:
  weft exs blast
  weft exs cat -l 127.0.0.1:7475 > copy
  weft exs cat 127.0.0.1:7475 < file"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    Blast(blast::Args),
    Cat(cat::Args),
}

/// Runs one of the commands.
pub fn run(args: &Args) -> ExitCode {
    let (done, name): (Result<(), Failure>, _) = match &args.command {
        Command::Blast(args) => (blast::run(args), "exs blast"),
        Command::Cat(args) => (cat::run(args), "exs cat"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print(name),
    }
}
