//! What carries the octets of programs: the kernel's sockets, or rings.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::Value;

use super::process::{Outcome, next_number, say};
use crate::case::Trouble;

/// What carries the octets of programs.
#[derive(Clone)]
pub(super) enum Carrier {
    /// The kernel's sockets, without the library.
    Kernel,
    /// Rings, where both ends have the library.
    Rings {
        /// The daemon, which ends with its last program.
        daemon: Arc<Daemon>,
        /// The client has the library, too.
        both: bool,
        /// Each connection leaves TCP at once.
        is_eager: bool,
    },
}

/// A daemon for these programs only.
pub(super) struct Daemon {
    child: Child,
    name: String,
}

impl Carrier {
    /// Starts a daemon for programs that have the library.
    pub(super) fn ours() -> Outcome<Self> {
        Ok(Self::Rings { daemon: Arc::new(Daemon::start()?), both: true, is_eager: false })
    }

    /// Starts a daemon for programs whose connections leave TCP at once.
    pub(super) fn eager() -> Outcome<Self> {
        Ok(Self::Rings { daemon: Arc::new(Daemon::start()?), both: true, is_eager: true })
    }

    /// Starts a daemon for servers that have the library, and whose clients have not.
    pub(super) fn server_only() -> Outcome<Self> {
        Ok(Self::Rings { daemon: Arc::new(Daemon::start()?), both: false, is_eager: false })
    }

    /// Returns a command that runs a program as users run it.
    pub(super) fn command(&self, serves: bool, program: &OsStr) -> Outcome<Command> {
        match self {
            Self::Rings { daemon, both, is_eager } if serves || *both => {
                let mut command = weft()?;
                command.args(["sockets", "--daemon", &daemon.name]);
                command.args(is_eager.then_some("--eager")).arg("--").arg(program);
                Ok(command)
            }
            _ => Ok(Command::new(program)),
        }
    }

    /// Returns the daemon if both ends have the library.
    pub(super) const fn daemon(&self) -> Option<&Arc<Daemon>> {
        match self {
            Self::Rings { daemon, both: true, .. } => Some(daemon),
            _ => None,
        }
    }
}

impl Daemon {
    fn start() -> Outcome<Self> {
        let name = format!("@weft-bench-{}-{}", std::process::id(), next_number());
        let mut command = weft()?;
        command.args(["daemon", "--name", &name]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(say("starting weft daemon"))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(say("starting weft daemon"))?;
        }
        let daemon = Self { child, name };
        if line.is_empty() { Err(Trouble::failed("weft daemon ended early")) } else { Ok(daemon) }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns how many octets have gone through rings so far.
    pub(super) fn octets_by_ring(&self) -> Outcome<u64> {
        self.sum("octets_out")
    }

    /// Returns how many ends have sent through rings so far.
    pub(super) fn upgrades(&self) -> Outcome<u64> {
        self.sum("upgraded_out")
    }

    fn sum(&self, name: &str) -> Outcome<u64> {
        let output = weft()?
            .args(["stat", &self.id().to_string(), "sockets", "--json"])
            .output()
            .map_err(say("asking weft stat"))?;
        // A line for each daemon that answers.
        let lines = output.stdout.split(|octet| *octet == b'\n');
        let mut answers = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let own = answers.find(|answer| answer["pid"].as_u64() == Some(self.id().into()));
        own.and_then(|answer| answer["sums"][name].as_u64()).ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            Trouble::failed(format!("weft stat sockets does not tell {name}: {}", said.trim()))
        })
    }

    /// Checks that both ends of nearly all of so many connections have sent through rings since `before`.
    pub(super) fn check_upgrades(&self, before: u64, connections: u64) -> Outcome<()> {
        let upgraded = self.upgrades()?.saturating_sub(before) / 2;
        if upgraded.saturating_mul(100) >= connections.saturating_mul(90) {
            return Ok(());
        }
        Err(Trouble::failed(format!("of {connections} connections only {upgraded} left TCP")))
    }

    /// Checks that nearly all of so many octets went through rings since `before`.
    pub(super) fn check(&self, before: u64, octets: u64) -> Outcome<()> {
        let by_ring = self.octets_by_ring()?.saturating_sub(before);
        if by_ring.saturating_mul(100) >= octets.saturating_mul(99) {
            return Ok(());
        }
        Err(Trouble::failed(format!("of {octets} octets only {by_ring} went through rings")))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Returns a call of this very program.
pub(super) fn weft() -> Outcome<Command> {
    std::env::current_exe().map(Command::new).map_err(say("finding this program"))
}
