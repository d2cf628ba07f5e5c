//! The `weft` command: reads its arguments and hands over to one subcommand.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use weft_cli::{bench, conform, daemon, decode, demo, exs, group, log, rping, run, sockets, stat, usage};

/// A software RNIC in user space: iWARP (MPA, DDP, RDMAP) on a TCP of its own.
///
/// With WEFT_LOG=info or WEFT_LOG=debug in the environment, standard error has a line for each event of a connection.
///
/// Exit status: 0 if the work was done, 1 if it failed on the way, 2 if the arguments or the input make no sense.
#[derive(Debug, Parser)]
#[command(name = "weft", version, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands; each is a module of the library with `Args` and `run`.
#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Rping(rping::Args),
    Run(run::Args),
    Sockets(sockets::Args),
    Daemon(daemon::Args),
    Decode(decode::Args),
    Exs(exs::Args),
    Group(group::Args),
    Conform(conform::Args),
    Stat(stat::Args),
    Bench(bench::Args),
}

fn main() -> ExitCode {
    if let Err(status) = log::start() {
        return status;
    }
    match Cli::try_parse().map(|cli| cli.command) {
        Ok(Command::Demo(args)) => demo::run(&args),
        Ok(Command::Rping(args)) => rping::run(&args),
        Ok(Command::Run(args)) => run::run(&args),
        Ok(Command::Sockets(args)) => sockets::run(&args),
        Ok(Command::Daemon(args)) => daemon::run(&args),
        Ok(Command::Decode(args)) => decode::run(&args),
        Ok(Command::Exs(args)) => exs::run(&args),
        Ok(Command::Group(args)) => group::run(&args),
        Ok(Command::Conform(args)) => conform::run(&args),
        Ok(Command::Stat(args)) => stat::run(&args),
        Ok(Command::Bench(args)) => bench::run(&args),
        Err(error) => usage::explain(&error, &Cli::command(), std::env::args_os().skip(1)),
    }
}
