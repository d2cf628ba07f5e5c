//! `weft daemon`: brings the two ends of connections together.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

mod notify;

use rustix::process::geteuid;
use weft_daemon::{Address, Config, Daemon, Key, Lanes, Networks, Rules, leave_parent, stop_signals};
use weft_netif::Spec;
use weft_stat::{stat_folder, stat_folder_from_env};

use crate::failure::Failure;
use crate::sockets::{HOST, listening};
use crate::usage::number;

/// Give shared memory to the two ends of connections, for programs under `weft sockets`.
///
/// Programs of the same user find the daemon by its address. A daemon of root serves all users of the network namespace.
/// `weft sockets` starts one if none answers, so this command is for settings of your own. It runs until SIGTERM or SIGINT;
/// connections that share memory go on without it. `weft stat sockets` shows what it knows.
#[derive(Debug, Clone, Parser)]
#[command(
    after_help = "A rule is a line `allow|deny uid NAME net CIDR port N`, each condition at most once or left out. It looks at
both ends of a connection. The first rule that fits decides; without one a connection is allowed.

Daemons of two hosts carry connections between them over lanes, if both allow the other's address and have the same key
or none. A key is a file of 16 to 4096 octets that its owner alone may read, the same on all hosts.

Examples:
  weft daemon
  weft daemon --name @mine
  weft daemon --rules /etc/weft/rules
  weft daemon --lanes 10.0.0.0/8,fd00::/8 --key /etc/weft/key
  weft daemon --lanes none      no lanes
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
    /// The networks to whose hosts lanes may lead, or `none`. The default is all networks that this host reaches
    /// without a gateway
    #[arg(long, value_name = "CIDR[,CIDR...]")]
    pub lanes: Option<Networks>,
    /// A file with the key that the daemons of other hosts have to have, too
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// The port of the daemons' lanes, the same on all hosts
    #[arg(long, value_name = "N", default_value_t = Lanes::PORT, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u16>(1..=65_535))]
    pub port: u16,
    /// The device of the lanes: host, the operating system's TCP, or one of those that `weft rping --help` lists
    #[arg(long, value_name = "SPEC", default_value_t = Spec::Host)]
    pub netif: Spec,
    /// End after so many seconds without a program, and leave the session of the caller at once
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = number::<u32>(0..=86_400))]
    pub linger: Option<u32>,
}

/// Serves programs until a signal comes.
pub fn run(args: &Args) -> ExitCode {
    match args.serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print("daemon"),
    }
}

impl Args {
    fn serve(&self) -> Result<(), Failure> {
        // Their settings are checked, also if they are not wanted.
        let (rules, lanes) = (self.rules()?, Some(self.lanes()?).filter(|_| self.lanes.is_some()));
        if self.linger.is_some() {
            leave_parent();
        }
        let config = Config {
            address: self.address()?,
            rules,
            linger: self.linger.map(|seconds| Duration::from_secs(seconds.into())),
            lanes,
        };
        let stop = stop_signals().map_err(|error| Failure::work(format!("signals: {error}")))?;
        let mut daemon = Daemon::start(&config).map_err(Failure::work)?;
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

    fn lanes(&self) -> Result<Lanes, Failure> {
        if self.netif == Spec::Pair {
            let wires = Spec::wires("or");
            let line =
                format!("--netif: pair stays in one process: other hosts are reached by host, {wires}");
            return Err(Failure::usage(line));
        }
        let read = |file: &PathBuf| {
            Key::read(file).map_err(|error| Failure::usage(format!("--key: {}: {error}", file.display())))
        };
        Ok(Lanes {
            networks: self.lanes.clone().unwrap_or_default(),
            key: self.key.as_ref().map(read).transpose()?,
            port: self.port,
            netif: self.netif.clone(),
        })
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
