//! `weft exs blast`: how fast messages and streams are, at sizes from an octet to many MiB.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

mod args;
mod carried;
mod client;
mod output;
mod pattern;
mod plan;
mod report;
mod server;
mod sizes;
mod talk;
mod time;
mod wait;

pub(super) use args::Args;

use super::opened::Opened;
use crate::failure::Failure;
use time::PATIENCE;

/// Serves one client, or measures.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if args.server.is_none() && args.client.is_none() {
        if !args.ground.is_host() {
            return Err(Failure::usage(
                "without -s and -c both ends are on host: leave --netif and --ip out",
            ));
        }
        let (mut other, peer) = start_other()?;
        let done = measure(args, peer);
        if done.is_err() {
            // It may have ended already.
            let _ended = other.kill();
        }
        let status = other.wait().map_err(|error| Failure::work(format!("the other end: {error}")))?;
        return done.and_then(|()| match status.success() {
            true => Ok(()),
            false => Err(Failure::work(format!("the other end: {status}"))),
        });
    }
    match (args.server, args.client) {
        (Some(own), _) => server::serve(&Opened::new(&args.ground, PATIENCE)?.context, own, args.json),
        (None, Some(peer)) => measure(args, peer),
        (None, None) => Ok(()),
    }
}

fn measure(args: &Args, peer: SocketAddr) -> Result<(), Failure> {
    client::measure(args, &Opened::new(&args.ground, PATIENCE)?.context, peer)
}

/// Starts the end that receives, as another process. Returns its address.
fn start_other() -> Result<(Child, SocketAddr), Failure> {
    let failed = |error| Failure::work(format!("cannot start the other end: {error}"));
    let own = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0).to_string();
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["exs", "blast", "-s", &own]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut other = command.spawn().map_err(failed)?;
    let mut line = String::new();
    if let Some(said) = other.stdout.take() {
        BufReader::new(said).read_line(&mut line).map_err(failed)?;
    }
    let told = line.trim_end().strip_prefix(server::LISTENING).and_then(|text| text.parse().ok());
    match told {
        Some(peer) => Ok((other, peer)),
        None => {
            let _ended = other.kill();
            let _reaped = other.wait();
            Err(Failure::work("the other end does not say where it listens"))
        }
    }
}
