//! `weft group server`: a replica.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use rustix::event::{PollFd, PollFlags, poll};
use weft_daemon::stop_signals;
use weft_group::{Keeper, Limits, Server};
use weft_rnic::Region;
use weft_stat::{device_sections, stat_folder, stat_folder_from_env};

use super::members::{address, read_key};
use super::told::section;
use crate::failure::Failure;
use crate::ground::GroundArgs;
use crate::units::size;
use crate::usage::number;

/// Be a replica: give memory to clients, until SIGTERM or SIGINT.
///
/// No thread of this program but those of its device does anything for an operation. Memory without a file is lost when the
/// program ends: a replica that is started anew begins with zeros, or with what was flushed to its file.
#[derive(Debug, Clone, Parser)]
#[command(
    after_help = "A key is a file of 32 octets that its owner alone may read, the same for all replicas and clients:
  head -c 32 /dev/urandom > key && chmod 600 key
It guards against mistakes. It is sent as it is, so that a host on the path can read it.

Examples:
  weft group server --listen 127.0.0.1:7471 --memory 64M
  weft group server --listen 10.0.0.1:7471 --memory 2G --key /etc/weft/group-key
  weft group server --listen 10.0.0.1:7471 --file /var/lib/weft/replica --size 2G
  weft group server --listen 10.9.0.1:7471 --memory 64M --netif packet:eth0 --ip 10.9.0.1/24"
)]
pub(super) struct Args {
    /// Where to listen; port 0 chooses a free one
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    listen: SocketAddr,
    /// Octets of memory, as 65536, 64M or 2G
    #[arg(long, value_name = "SIZE", value_parser = size, required_unless_present = "file", conflicts_with = "file")]
    memory: Option<u64>,
    /// Keep the memory in this file: a flush makes it durable there. It is made if it is not there. Beside it there is a small
    /// one that ends in .state
    #[arg(long, value_name = "PATH", requires = "size")]
    file: Option<PathBuf>,
    /// Octets of memory with a file, as 65536, 64M or 2G
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "file")]
    size: Option<u64>,
    /// A file with the group's key; without one every client is taken
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Sessions of clients at a time
    #[arg(long, value_name = "N", default_value_t = 8, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(1..=1024))]
    sessions: u32,
    /// Print the address as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    ground: GroundArgs,
}

/// Serves until a signal comes.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(own) = args.ground.own().filter(|own| *own != args.listen.ip()) {
        let asked = args.listen.ip();
        return Err(Failure::usage(format!(
            "the replica has the address {own} of --ip, it cannot listen on {asked}"
        )));
    }
    let key = args.key.as_deref().map(read_key).transpose()?;
    let len = args.memory.or(args.size).unwrap_or_default();
    let memory = memory(args.file.as_deref(), len)?;
    let stop = stop_signals().map_err(|error| Failure::work(format!("signals: {error}")))?;
    let device = args.ground.open(OPEN_TIMEOUT)?;
    let limits = Limits { sessions: args.sessions as usize, key, ..Limits::default() };
    let keeper = Keeper::start(args.file.as_deref().map(state_file).as_deref());
    let keeper = keeper.map_err(|error| Failure::work(format!("--file: the replica's state: {error}")))?;
    let server = Server::with_state(&device, (Arc::new(memory), len), args.listen, limits, keeper);
    let server = server.map_err(|error| Failure::work(format!("{}: {error}", args.listen)))?;
    let folder = stat_folder_from_env().unwrap_or_else(stat_folder);
    let mut sections = device_sections(&device.watcher());
    sections.push(section(server.roster(), device.watcher()));
    let stat = weft_stat::Server::start(&folder, sections);
    let _stat = stat.inspect_err(|error| {
        // Clients can be served all the same.
        Failure::work(error).print("group server");
    });
    let (address, incarnation) = (server.address(), server.incarnation());
    let serving = server.start().map_err(Failure::work)?;
    let mut out = std::io::stdout();
    if args.json {
        writeln!(
            out,
            "{}",
            serde_json::json!({"address": address, "incarnation": incarnation, "size": len})
        )?;
    } else {
        writeln!(out, "replica at {address}: {len} octets, {} sessions at most", args.sessions)?;
    }
    // A signal that is caught, by a debugger as an example, interrupts the sleep.
    while poll(&mut [PollFd::new(&stop, PollFlags::IN)], None) == Err(rustix::io::Errno::INTR) {}
    drop(serving);
    Ok(())
}

/// Returns where the state of a replica is kept that has its memory in a file.
fn state_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".state");
    name.into()
}

/// Returns the memory of the replica.
fn memory(file: Option<&Path>, len: u64) -> Result<Region, Failure> {
    let too_large = || Failure::work(format!("there is no memory of {len} octets"));
    let size = usize::try_from(len).map_err(|_| too_large())?;
    let Some(path) = file else { return Region::owned(size).ok_or_else(too_large) };
    let complain = |error: std::io::Error| {
        Failure::work(match error.kind() {
            ErrorKind::WouldBlock => format!("--file: {}: another program has it", path.display()),
            _ => format!("--file: {}: {error}", path.display()),
        })
    };
    let found = std::fs::metadata(path).map_or(0, |file| file.len());
    if found > 0 && !state_file(path).exists() {
        return Err(Failure::usage(format!(
            "--file: {}: there are {found} octets that are not of a replica, whose state would be in {}",
            path.display(),
            state_file(path).display()
        )));
    }
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
    file.and_then(|file| Region::on_file(file, size)).map_err(complain)
}

const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
