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

use super::client::Group;
use super::members::address;
use crate::failure::Failure;

/// Serve a database that a group replicates to clients of Redis, until SIGTERM or SIGINT.
///
/// A command that changes something is answered when all replicas have it. The commands are GET SET MGET MSET DEL EXISTS
/// DBSIZE PING INFO CONFIG COMMAND, without options. There is no password: listen where clients may be trusted.
///
/// One server at a time may use the memory of a group. With --register it begins a new epoch of the group, and another one
/// whenever a member is lost: a spare takes its place, and clients notice a pause. A server that was replaced, on this host
/// or on another one, answers an error and ends with status 1. With --members the loss of a replica ends it, too.
#[derive(Debug, Clone, Parser)]
#[command(after_help = "Examples:
  weft group kv --resp 127.0.0.1:6379 --register etcd://10.0.0.9:2379/orders
  weft group kv --resp 127.0.0.1:6379 --register etcd://10.0.0.9:2379/orders --takeover
  weft group kv --resp 127.0.0.1:6379 --members 10.0.0.1:7471,10.0.0.2:7471,10.0.0.3:7471
  redis-cli SET key value
  redis-benchmark -t set,get -P 16")]
pub(super) struct Args {
    /// Where clients of Redis connect; port 0 chooses a free one
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    resp: SocketAddr,
    /// Replace the server that uses the group now, if there is one
    #[arg(long, conflicts_with = "members")]
    takeover: bool,
    #[command(flatten)]
    group: Group,
}

/// Serves until a signal comes or the session ends.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Before there are threads: they inherit that the signals are blocked.
    let stop = stop_signals().map_err(|error| Failure::work(format!("signals: {error}")))?;
    let Some(register) = args.group.register() else {
        let opened = args.group.open(WINDOW)?;
        return serve(args, opened.session, stop);
    };
    let reach = args.group.reach();
    let options = Options { window: WINDOW, ..reach.options()? };
    let membership = reach.register(register)?;
    let device = reach.open()?;
    let coordinator = Coordinator::new(&device, &*membership, &options);
    let record = coordinator.record().map_err(|error| Failure::work(error).of(register))?;
    if !args.takeover {
        refuse_others(&coordinator, &record)?;
    }
    let from = Some(record.epoch).filter(|_| !args.takeover);
    serve(args, Managed::take(&device, membership, options, from).map_err(Failure::work)?, stop)
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

fn serve<G>(args: &Args, group: G, stop: OwnedFd) -> Result<(), Failure>
where
    G: weft_group::Group + core::fmt::Debug + Send + 'static,
{
    let mut store = Store::open(Mirror::open(group).map_err(Failure::work)?).map_err(Failure::work)?;
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
