//! `weft rping`: the ping-pong of rdma-core's rping, on Weft's own stack.

use std::process::ExitCode;

mod args;
mod client;
mod endpoint;
mod payload;
mod served;
mod server;
mod session;

pub use args::Args;

/// Runs one side.
pub fn run(args: &Args) -> ExitCode {
    let serve_or_ping = if args.server { server::serve } else { client::ping };
    match args.check_device().and_then(|()| serve_or_ping(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print("rping"),
    }
}
