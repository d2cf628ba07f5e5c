//! `weft daemon`: brings the two ends of connections together.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rustix::process::geteuid;
use weft_daemon::{Address, Config, Daemon, Drained, Key, Lanes, Networks, Operator, Rules, Wire};
use weft_daemon::{leave_parent, stop_signals};
use weft_netif::{IpSetting, Spec};
use weft_stat::{stat_folder, stat_folder_from_env};

use crate::failure::Failure;
use crate::sockets::{HOST, listening, start_on_demand};
use crate::usage::number;

mod notify;

/// Bring together the two ends of TCP connections of programs under `weft sockets`, in this host and between hosts.
///
/// Programs of the same user find the daemon by its address. A daemon of root serves all users of the network namespace.
/// `weft sockets` starts one if none answers, so this command is for settings of your own. It runs until SIGTERM or SIGINT;
/// connections that share memory go on without it. `weft stat sockets` shows what it knows.
#[derive(Debug, Clone, Parser)]
#[command(
    after_help = "A rule is a line `allow|deny uid NAME net CIDR port N`, each condition at most once or left out. It looks at
both ends of a connection. The first rule that fits decides; without one a connection is allowed.

Daemons of two hosts carry connections between them over lanes, if both allow the other's address and have the same key
or none. A key is a file of 16 to 4096 octets that its owner alone may read, the same on all hosts. Each of --key, --port
and --netif asks for lanes to all hosts that are reached without a gateway, unless --lanes names others.

With --netif the lanes go by a wire of the daemon's own, to daemons that have one, too. The daemons greet each other by the
host's TCP at first, which says who they are. If the wire does not lead to the other daemon, its lane stays there.

Examples:
  weft daemon
  weft daemon --name @mine
  weft daemon --rules /etc/weft/rules
  weft daemon --lanes 10.0.0.0/8,fd00::/8 --key /etc/weft/key
  weft daemon --lanes on-link   all hosts that this one reaches without a gateway
  weft daemon --replace         in the place of the one that runs, with other settings or of another version
  weft daemon --drain 4711      process 4711 goes back to TCP, to be moved to another host
  weft daemon --lanes 10.0.0.0/8 --netif packet:eth0 --ip 10.9.0.1/24
  weft daemon --name /run/weft/socket   for containers of one network that all have this file
  weft stat sockets             the connections that this user's daemons know"
)]
pub struct Args {
    /// The address: @NAME, an abstract name, or the path of a socket. The default is WEFT_DAEMON, or where programs look for
    /// this user's
    #[arg(long, value_name = "NAME")]
    pub name: Option<Address>,
    /// A file of rules that keep connections on TCP
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Have lanes to the hosts of these networks. `on-link` is all that this host reaches without a gateway, `none` is the
    /// default without a setting of lanes
    #[arg(long, value_name = "CIDR[,CIDR...]|on-link|none")]
    pub lanes: Option<Networks>,
    /// A file with the key that the daemons of other hosts have to have, too
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// The port of the daemons' lanes, the same on all hosts. The default is 7176
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = number::<u16>(1..=65_535))]
    pub port: Option<u16>,
    /// The device of the lanes: host, which is the operating system's TCP and the default, or one of those that `weft
    /// rping --help` lists
    #[arg(long, value_name = "SPEC")]
    pub netif: Option<Spec>,
    /// The daemon's own IP address with prefix on the device, on all devices but host, as for `weft rping`
    #[arg(long, value_name = "CIDR[,gw ADDR]")]
    pub ip: Option<IpSetting>,
    /// Octets of the largest IP packet on the device, 576 to 65535
    #[arg(long, value_name = "N", default_value_t = 1500, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(576..=65_535))]
    pub mtu: u32,
    /// Give no shared memory to two programs of different network namespaces, which are containers of one host
    #[arg(long)]
    pub rdma_always: bool,
    /// End after so many seconds without a program, and leave the session of the caller at once
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = number::<u32>(0..=86_400))]
    pub linger: Option<u32>,
    /// Take the place of the daemon that has the address, if there is one. It leaves, and programs go on
    #[arg(long)]
    pub replace: bool,
    /// Start no daemon: have the one that runs take all connections of a process back to TCP, and wait for that
    #[arg(long, value_name = "PID", allow_negative_numbers = true, value_parser = number::<u32>(1..=0x7fff_ffff))]
    #[arg(conflicts_with_all = ["rules", "lanes", "key", "port", "netif", "linger", "replace", "rdma_always"])]
    pub drain: Option<u32>,
    /// Start a daemon for `weft sockets`, which passes the name and the lanes on, and end once it answers
    #[arg(long, hide = true)]
    pub on_demand: bool,
}

/// Serves programs until a signal comes.
pub fn run(args: &Args) -> ExitCode {
    let done = match args.drain {
        Some(pid) => args.drain(pid),
        None if args.on_demand => {
            let name = args.name.as_ref().map(ToString::to_string);
            start_on_demand(name.as_deref(), args.lanes.as_ref())
        }
        None => args.serve(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print("daemon"),
    }
}

impl Args {
    fn serve(&self) -> Result<(), Failure> {
        let (rules, lanes) = (self.rules()?, self.lanes()?);
        if self.linger.is_some() {
            leave_parent();
        }
        let config = Config {
            address: self.address()?,
            rules,
            linger: self.linger.map(|seconds| Duration::from_secs(seconds.into())),
            lanes,
            rdma_always: self.rdma_always,
        };
        let stop = stop_signals().map_err(|error| Failure::work(format!("signals: {error}")))?;
        let start = if self.replace { Daemon::replace } else { Daemon::start };
        let mut daemon = start(&config).map_err(Failure::work)?;
        let folder = stat_folder_from_env().unwrap_or_else(stat_folder);
        if let Err(error) = daemon.serve_stat(&folder) {
            // Programs can be served all the same.
            Failure::work(error).print("daemon");
        }
        if let Some(line) = beside(&config.address.to_string(), listening().as_deref()) {
            Failure::work(line).print("daemon");
        }
        // Nobody has to read it.
        let _unread = writeln!(std::io::stdout(), "listening at {}", config.address);
        // A daemon on demand has the variables of a program, and is not the service that is waited for.
        if self.linger.is_none() {
            notify::ready();
        }
        daemon.run(stop).map_err(Failure::work)
    }

    fn address(&self) -> Result<Address, Failure> {
        match (&self.name, std::env::var("WEFT_DAEMON")) {
            (Some(name), _) => Ok(name.clone()),
            (None, Ok(name)) => name.parse().map_err(|error| Failure::usage(format!("WEFT_DAEMON: {error}"))),
            (None, Err(_)) => Ok(Address::of_user(geteuid().as_raw())),
        }
    }

    fn rules(&self) -> Result<Rules, Failure> {
        let Some(file) = &self.rules else { return Ok(Rules::default()) };
        let wrong = |error: String| Failure::usage(format!("--rules: {}: {error}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        text.parse().map_err(wrong)
    }

    /// Returns the settings of lanes, or `None` if there are none. A setting that concerns them asks for them.
    fn lanes(&self) -> Result<Option<Lanes>, Failure> {
        let is_asked = self.key.is_some() || self.port.is_some() || self.netif.is_some();
        let read = |file: &PathBuf| {
            Key::read(file).map_err(|error| Failure::usage(format!("--key: {}: {error}", file.display())))
        };
        let key = self.key.as_ref().map(read).transpose()?;
        let wire = self.wire()?;
        let networks = self.lanes.clone().or_else(|| is_asked.then(Networks::default));
        Ok(networks.filter(|networks| !networks.is_none()).map(|networks| Lanes {
            networks,
            key,
            port: self.port.unwrap_or(Lanes::PORT),
            wire,
        }))
    }

    /// Has the daemon that runs take a process back to TCP.
    fn drain(&self, pid: u32) -> Result<(), Failure> {
        let is_default = self.name.is_none() && std::env::var_os("WEFT_DAEMON").is_none();
        let first = listening().filter(|_| is_default).and_then(|text| text.parse().ok());
        let address: Address = first.map_or_else(|| self.address(), Ok)?;
        let Some(daemon) = Operator::connect(&address).map_err(Failure::work)? else {
            return Err(Failure::work(format!("no daemon answers at {address}")));
        };
        let Drained { done, left } = daemon.drain(pid).map_err(Failure::work)?;
        let text = |count: u32| format!("{count} {}", if count == 1 { "connection" } else { "connections" });
        if left > 0 {
            let line = format!(
                "process {pid}: {} did not go back to TCP, {} did: a program at one of the ends makes no call",
                text(left),
                text(done)
            );
            return Err(Failure::work(line));
        }
        writeln!(std::io::stdout(), "process {pid}: {} went back to TCP", text(done))?;
        Ok(())
    }

    /// Returns the wire of the lanes, if they are not on the host's TCP.
    fn wire(&self) -> Result<Option<Wire>, Failure> {
        match (self.netif.as_ref().unwrap_or(&Spec::Host), &self.ip) {
            (Spec::Host, None) => Ok(None),
            (Spec::Host, Some(_)) => Err(Failure::usage(
                "--ip is for the other devices: host has the operating system's addresses",
            )),
            (Spec::Pair, _) => {
                let wires = Spec::wires("or");
                let line =
                    format!("--netif: pair stays in one process: other hosts are reached by host, {wires}");
                Err(Failure::usage(line))
            }
            (device, None) => Err(Failure::usage(format!(
                "--netif: {device} needs an IP address of the daemon's own, as in --ip 10.9.0.1/24"
            ))),
            (device, Some(ip)) => {
                Ok(Some(Wire { spec: device.clone(), ip: ip.clone(), mtu: self.mtu as usize }))
            }
        }
    }
}

/// Warns if programs use the daemon of root, which they look for first, and not the one at this default address.
fn beside(address: &str, first: Option<&str>) -> Option<String> {
    let is_default = address == Address::of_user(geteuid().as_raw()).to_string();
    let is_second = is_default && address != HOST && first == Some(HOST);
    is_second
        .then(|| format!("root's daemon is at {HOST}: only `weft sockets --daemon {address}` asks this one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_programs_do_not_ask_is_told() {
        let own = Address::of_user(geteuid().as_raw()).to_string();
        assert_eq!(beside(&own, Some(HOST)).is_some(), own != HOST);
        assert_eq!(
            (beside(&own, Some(&own)), beside(&own, None), beside("@mine", Some(HOST))),
            (None, None, None)
        );
    }
}
