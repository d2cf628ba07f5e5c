//! `weft group kv`: a database on a group, for clients of Redis.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use clap::Parser;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use weft_daemon::stop_signals;
use weft_group::{Coordinator, Managed, Mirror, Options, Record};
use weft_group_kv::{Server, Store};

use super::members::{ReachArgs, address, register_name};
use super::status::line;
use crate::failure::Failure;

/// Serve a database that a group replicates to clients of Redis, until SIGTERM or SIGINT.
///
/// A command that changes something is answered when all replicas have it. The commands are GET SET MGET MSET DEL EXISTS
/// DBSIZE PING INFO CONFIG COMMAND, without options. There is no password: listen where clients may be trusted.
///
/// One server at a time uses the memory of a group, and the register sees to that. It begins a new epoch of the group, and
/// another one whenever a member is lost: a spare takes its place, and clients notice a pause. A server that was replaced, on
/// this host or on another one, or by `weft group repair`, answers an error to the next request and ends with status 1.
#[derive(Debug, Clone, Parser)]
#[command(after_help = "Examples:
  weft group kv --resp 127.0.0.1:6379 --register etcd://10.0.0.9:2379/orders
  weft group kv --resp 127.0.0.1:6379 --register etcd://10.0.0.9:2379/orders --takeover
  weft group kv --resp 127.0.0.1:6379 --register ./orders
  redis-cli SET key value
  redis-benchmark -t set,get -P 16")]
pub(super) struct Args {
    /// Where clients of Redis connect; port 0 chooses a free one
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    resp: SocketAddr,
    /// Replace the server that uses the group now, if there is one
    #[arg(long)]
    takeover: bool,
    /// The register of the group: a file, or etcd://HOST:PORT[,HOST:PORT]/KEY. `weft group create` makes it
    #[arg(long, value_name = "FILE|etcd://…", value_parser = register_name)]
    register: String,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Serves until a signal comes or the session ends.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Before there are threads: they inherit that the signals are blocked.
    let stop = stop_signals().map_err(|error| Failure::work(format!("signals: {error}")))?;
    let options = Options { window: WINDOW, ..args.reach.options()? };
    let membership = args.reach.register(&args.register)?;
    // Before another server is replaced.
    let server =
        Server::bind(args.resp).map_err(|error| Failure::work(format!("--resp {}: {error}", args.resp)))?;
    let device = args.reach.open()?;
    let coordinator = Coordinator::new(&device, &*membership, &options);
    let record = coordinator.record().map_err(|error| Failure::work(error).of(&args.register))?;
    if !args.takeover {
        refuse_others(&coordinator, &record)?;
    }
    let from = Some(record.epoch).filter(|_| !args.takeover);
    let group = Managed::take(&device, membership, options, from).map_err(Failure::work)?;
    serve(args, server, group.with_witness(|record| eprintln!("weft group kv: {}", line(record))), stop)
}

/// Makes sure that nobody uses the group.
fn refuse_others(coordinator: &Coordinator<'_>, record: &Record) -> Result<(), Failure> {
    let states = record.members.iter().filter_map(|seat| coordinator.status(&seat.host).ok());
    let sessions = states.flat_map(|state| state.sessions).filter(|session| session.epoch == record.epoch);
    match sessions.min_by_key(|session| session.index) {
        Some(session) => Err(Failure::work(format!(
            "a client at {} uses the group: --takeover ends its session",
            session.peer
        ))),
        None => Ok(()),
    }
}

fn serve(args: &Args, server: Server, group: Managed, stop: OwnedFd) -> Result<(), Failure> {
    let mut store = Store::open(Mirror::open(group).map_err(Failure::work)?).map_err(Failure::work)?;
    let mut out = std::io::stdout();
    if args.reach.json {
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
