//! `weft group kv`: a database on a group, for clients of Redis.

use std::io::Write;
use std::net::SocketAddr;

use clap::Parser;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use weft_daemon::stop_signals;
use weft_group::Mirror;
use weft_group_kv::{Server, Store};

use super::client::Group;
use super::members::address;
use crate::failure::Failure;

/// Serve a database that a group replicates to clients of Redis, until SIGTERM or SIGINT.
///
/// A command that changes something is answered when all replicas have it. The commands are GET SET MGET MSET DEL EXISTS
/// DBSIZE PING INFO CONFIG COMMAND, without options. There is no password: listen where clients may be trusted.
///
/// One server at a time may use the memory of a group. If a replica is lost or a newer epoch begins, the server answers so
/// and ends with status 1. Another one, on any host, opens the database as it was.
#[derive(Debug, Clone, Parser)]
#[command(after_help = "Examples:
  weft group kv --resp 127.0.0.1:6379 --members 10.0.0.1:7471,10.0.0.2:7471,10.0.0.3:7471
  redis-cli SET key value
  redis-benchmark -t set,get -P 16")]
pub(super) struct Args {
    /// Where clients of Redis connect; port 0 chooses a free one
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    resp: SocketAddr,
    #[command(flatten)]
    group: Group,
}

/// Serves until a signal comes or the session ends.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Before there are threads: they inherit that the signals are blocked.
    let stop = stop_signals().map_err(|error| Failure::work(format!("signals: {error}")))?;
    let (_device, session) = args.group.open(WINDOW)?;
    let mut store = Store::open(Mirror::open(session).map_err(Failure::work)?).map_err(Failure::work)?;
    let bound =
        Server::bind(args.resp).map_err(|error| Failure::work(format!("--resp {}: {error}", args.resp)));
    let server = bound?;
    let mut out = std::io::stdout();
    if args.group.is_json() {
        writeln!(out, "{}", json!({"resp": server.address()}))?;
    } else {
        writeln!(out, "serving at {}", server.address())?;
    }
    out.flush()?;
    let stopper = server.stopper();
    std::thread::spawn(move || {
        while poll(&mut [PollFd::new(&stop, PollFlags::IN)], None) == Err(rustix::io::Errno::INTR) {}
        if let Err(error) = stopper.stop() {
            Failure::work(error).print("group kv");
        }
    });
    server.run(&mut store).map_err(Failure::work)
}

/// Operations under way at most: a sync of a database sends some dozens.
const WINDOW: u32 = 64;
