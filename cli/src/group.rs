//! `weft group`: replicated memory whose replicas' programs do nothing for an operation.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

mod client;
mod create;
mod kv;
mod members;
mod repair;
mod server;
mod status;
mod told;

/// Replicate memory to several hosts, whose programs do nothing for an operation.
///
/// A client sends one message for an operation. The devices of the replicas place its octets, hand it on, copy, compare and
/// swap, and acknowledge. Each replica is a `weft group server`.
#[derive(Debug, Clone, Parser)]
#[command(
    subcommand_required = true,
    after_help = "Examples:
  weft group server --listen 10.0.0.1:7471 --memory 64M
  weft group client write --members 10.0.0.1:7471,10.0.0.2:7471,10.0.0.3:7471 0 hello
  weft group client read --members 10.0.0.1:7471,10.0.0.2:7471,10.0.0.3:7471 0 5
  weft group create --register etcd://10.0.0.9:2379/orders 10.0.0.1:7471 10.0.0.2:7471 --spare 10.0.0.3:7471
  weft group kv --resp 127.0.0.1:6379 --register etcd://10.0.0.9:2379/orders
  weft group repair --register etcd://10.0.0.9:2379/orders
  weft group status --register etcd://10.0.0.9:2379/orders"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Subcommand)]
enum Command {
    Server(server::Args),
    Create(create::Args),
    Repair(repair::Args),
    Client(client::Args),
    Kv(kv::Args),
    Status(status::Args),
}

/// Runs one of the commands.
pub fn run(args: &Args) -> ExitCode {
    let (done, name): (Result<(), Failure>, _) = match &args.command {
        Command::Server(args) => (server::run(args), "group server"),
        Command::Create(args) => (create::run(args), "group create"),
        Command::Repair(args) => (repair::run(args), "group repair"),
        Command::Client(args) => (client::run(args), "group client"),
        Command::Kv(args) => (kv::run(args), "group kv"),
        Command::Status(args) => (status::run(args), "group status"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print(name),
    }
}
