//! The daemon that brings the ends of connections together: whether it answers, and how it is started.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Uid, geteuid};
use weft_daemon::{Address, Networks, Operator};
use weft_stat::{prepare_stat_folder, stat_folder, stat_folder_from_env};

use crate::failure::Failure;

/// A daemon by the addresses at which the library looks for it.
pub(super) struct Daemon {
    addresses: Vec<Address>,
    /// The address that was asked for, or `None` for the user's own.
    given: Option<String>,
}

impl Daemon {
    /// Returns the daemon at this address, or the host's and the user's own.
    pub(super) fn new(given: Option<&str>) -> Result<Self, Failure> {
        let addresses = match given {
            Some(given) => vec![given.parse().map_err(Failure::usage)?],
            None => vec![Address::of_user(0), own()],
        };
        Ok(Self { addresses, given: given.map(str::to_owned) })
    }

    /// Starts the daemon unless it answers, and waits until it does. With `lanes` it has lanes to the hosts of these
    /// networks: one that answers and has none is an error. The error is one line.
    pub(super) fn start(&self, lanes: Option<&Networks>) -> Result<(), String> {
        if let Some(address) = self.answers()? {
            return if lanes.is_some_and(|lanes| !lanes.is_none()) { has_lanes(address) } else { Ok(()) };
        }
        // Nobody reads what a daemon on demand says of that. Programs can be served all the same.
        if let Err(error) = prepare_stat_folder(&stat_folder_from_env().unwrap_or_else(stat_folder)) {
            Failure::work(error).print("sockets");
        }
        let mut child = self.spawn(lanes, &["--on-demand"])?;
        // The error stream ends with the process.
        let line = last_line(&mut child);
        let ended = child.wait();
        // If this process ignores the ends of children, the system tells it no status.
        if self.answers()?.is_some() {
            return Ok(());
        }
        Err(line
            .unwrap_or_else(|| format!("no daemon: {}", ended.map_or_else(|error| error.to_string(), end))))
    }

    /// Starts the daemon as a child that outlives this process, and waits until it answers. The program that needs the
    /// daemon need not reap it: this process is between them, and ends. The error is one line.
    fn start_child(&self, lanes: Option<&Networks>) -> Result<(), String> {
        let mut child = self.spawn(lanes, &["--linger", LINGER])?;
        for _ in 0..TRIES {
            if self.answers()?.is_some() {
                return Ok(());
            }
            // Another daemon may have taken the address first: the child ends, and the other one answers.
            if let Ok(Some(status)) = child.try_wait()
                && !status.success()
            {
                let line = last_line(&mut child).unwrap_or_else(|| end(status));
                return Err(format!("no daemon: {line}"));
            }
            std::thread::sleep(PAUSE);
        }
        Err("no daemon: the one that was started does not answer".into())
    }

    /// Starts `weft daemon` with the settings of this daemon.
    fn spawn(&self, lanes: Option<&Networks>, flags: &[&str]) -> Result<Child, String> {
        let program = std::env::current_exe().map_err(|error| format!("cannot start a daemon: {error}"))?;
        let mut command = Command::new(program);
        command.arg("daemon").args(flags);
        if let Some(given) = &self.given {
            command.args(["--name", given]);
        }
        if let Some(lanes) = lanes {
            command.args(["--lanes", &lanes.to_string()]);
        }
        // The daemon itself leaves the session and closes the caller's other descriptors. It may print to a pipe
        // that nobody reads any more.
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        quiet.spawn().map_err(|error| format!("cannot start a daemon: {error}"))
    }

    /// Returns the address at which a daemon of this user or of root answers. A stranger's is an error.
    fn answers(&self) -> Result<Option<&Address>, String> {
        for address in &self.addresses {
            let socket = match connected(address) {
                Ok(socket) => socket,
                // Its queue is full of other programs.
                Err(Errno::AGAIN) => return Ok(Some(address)),
                Err(_) => continue,
            };
            // rustix has no place for the id of a process in another namespace, which is 0.
            let credentials =
                getsockopt(&socket, PeerCredentials).map_err(|error| format!("no daemon: {error}"))?;
            let uid = Uid::from_raw(credentials.uid());
            if uid.is_root() || uid == geteuid() {
                return Ok(Some(address));
            }
            return Err(format!("no daemon: the one at this address belongs to user {}", uid.as_raw()));
        }
        Ok(None)
    }
}

/// Makes sure that the daemon at an address has lanes. The error is one line.
fn has_lanes(address: &Address) -> Result<(), String> {
    let asked = Operator::connect(address);
    match asked.and_then(|daemon| daemon.map_or(Ok(false), |daemon| daemon.has_lanes())) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!(
            "the daemon at {address} has no lanes, so that connections to other hosts stay on TCP: \
             `weft daemon --replace --lanes on-link` starts one that has"
        )),
        Err(error) => Err(format!("--lanes: {error}")),
    }
}

/// Starts the daemon for `weft sockets`, and waits until it answers.
pub(crate) fn start_on_demand(given: Option<&str>, lanes: Option<&Networks>) -> Result<(), Failure> {
    Daemon::new(given)?.start_child(lanes).map_err(Failure::work)
}

/// Waits for the end of what a child writes to its error stream. Returns the last line.
fn last_line(child: &mut Child) -> Option<String> {
    let mut text = String::new();
    child.stderr.take()?.read_to_string(&mut text).ok()?;
    text.lines().last().map(|line| line.trim_start_matches("weft daemon: ").to_owned())
}

fn end(status: ExitStatus) -> String {
    format!("it ended ({status})")
}

/// Returns the first address at which a daemon listens, of those where programs look for one.
pub(crate) fn listening() -> Option<String> {
    let is_open = |address: &Address| matches!(connected(address), Ok(_) | Err(Errno::AGAIN));
    [Address::of_user(0), own()].iter().find(|address| is_open(address)).map(ToString::to_string)
}

/// Returns the address of this user's daemon.
fn own() -> Address {
    Address::of_user(geteuid().as_raw())
}

/// Makes sure that a text is the address of a daemon.
pub(super) fn address(text: &str) -> Result<String, String> {
    text.parse::<Address>().map(|address| address.to_string())
}

fn connected(address: &Address) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, address.socket())?;
    Ok(socket)
}

/// The address of root's daemon, which serves all users.
pub(crate) const HOST: &str = "@weft/1/0";
/// Seconds without a program after which a daemon ends that was started on demand.
const LINGER: &str = "60";
const PAUSE: Duration = Duration::from_millis(5);
const TRIES: u32 = 600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_daemon_comes_before_the_users() {
        let daemon = Daemon::new(None).unwrap_or_else(|_| panic!("there are default addresses"));
        assert_eq!(daemon.addresses, [Address::of_user(0), own()]);
        assert_eq!(daemon.addresses[0].to_string(), HOST);
    }
}
