//! The daemons of programs that have the library.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::hosts::{DEVICE, Hosts, NETWORK};
use crate::case::Trouble;
use crate::process::{Outcome, free_port, next_number, say};

/// The daemons of a client and its server: one for both, or one on each of their hosts, that of servers first.
pub(super) struct Daemons(Vec<Daemon>);

/// The wire of lanes between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// The TCP of the kernel.
    Kernel,
    /// The engine's own TCP, on raw packets.
    Packet,
}

/// A daemon for programs of the benchmark only.
struct Daemon {
    child: Child,
    name: String,
}

impl Daemons {
    /// Starts a daemon for programs of this host.
    pub(super) fn here() -> Outcome<Self> {
        Ok(Self(vec![Daemon::start(Hosts::One, true, &[])?]))
    }

    /// Starts a daemon on each host, with lanes between them.
    pub(super) fn joined(hosts: Hosts, wire: Wire) -> Outcome<Self> {
        // Daemons that are still about to end have another port.
        let port = hosts.at_servers(|| free_port(hosts.address(true)))??.to_string();
        let mut daemons = Vec::new();
        for serves in [true, false] {
            let mut words = vec!["--lanes", NETWORK, "--port", &port];
            let (device, own) =
                (format!("packet:{DEVICE}"), format!("10.94.0.{}/24", 10 + usize::from(serves)));
            if wire == Wire::Packet {
                words.extend(["--netif", &device, "--ip", &own]);
            }
            daemons.push(Daemon::start(hosts, serves, &words)?);
        }
        Ok(Self(daemons))
    }

    /// Returns the name of the daemon for servers, or for clients.
    pub(super) fn name(&self, serves: bool) -> &str {
        let daemon = if serves { self.0.first() } else { self.0.last() };
        daemon.map_or("", |daemon| &daemon.name)
    }

    /// Returns the processes.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|daemon| daemon.child.id())
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
        let sum = |daemon: &Daemon| {
            let told = daemon.tell()?["sums"][name].as_u64();
            told.ok_or_else(|| Trouble::failed(format!("weft stat sockets does not tell {name}")))
        };
        self.0.iter().map(sum).sum()
    }

    /// Checks that both ends of nearly all of so many connections have sent through rings since `before`.
    pub(super) fn check_upgrades(&self, before: u64, connections: u64) -> Outcome<()> {
        let upgraded = self.upgrades()?.saturating_sub(before) / 2;
        if upgraded.saturating_mul(100) >= connections.saturating_mul(90) {
            return self.check_lanes();
        }
        Err(Trouble::failed(format!("of {connections} connections only {upgraded} left TCP")))
    }

    /// Checks that nearly all of so many octets went through rings since `before`, and by lanes between hosts. Between
    /// hosts, a connection's first octets go by TCP until both daemons have agreed.
    pub(super) fn check(&self, before: u64, octets: u64) -> Outcome<()> {
        let deadline = now() + SETTLING;
        let percent = if self.0.len() < 2 { 99 } else { 90 };
        loop {
            let by_ring = self.octets_by_ring()?.saturating_sub(before);
            if by_ring.saturating_mul(100) >= octets.saturating_mul(percent) {
                return self.check_lanes();
            }
            if self.0.len() < 2 || now() > deadline {
                return Err(Trouble::failed(format!("of {octets} octets only {by_ring} went through rings")));
            }
            // A daemon counts the octets of a connection that has ended when it has heard of the end.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Checks that the client's daemon has a lane that is up, and that none of its connections has memory in common
    /// with the server. All connections of its programs lead to the server's host.
    fn check_lanes(&self) -> Outcome<()> {
        let [_, client] = self.0.as_slice() else { return Ok(()) };
        let told = client.tell()?;
        let list = |name: &str| told[name].as_array().cloned().unwrap_or_default();
        if !list("hosts").iter().any(|host| host["state"] == "up") {
            return Err(Trouble::failed("no lane between the hosts is up"));
        }
        let has_memory = |end: &Value| end["sends_by"] == "memory" || end["reads_by"] == "memory";
        if list("connections").iter().any(has_memory) {
            return Err(Trouble::failed("a connection between the hosts goes by memory"));
        }
        Ok(())
    }
}

impl Daemon {
    fn start(hosts: Hosts, serves: bool, words: &[&str]) -> Outcome<Self> {
        let name = format!("@weft-bench-{}-{}", std::process::id(), next_number());
        let mut command = hosts.command(serves, own_program()?.as_ref());
        command.args(["daemon", "--name", &name]).args(words).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(say("starting weft daemon"))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(say("starting weft daemon"))?;
        }
        let daemon = Self { child, name };
        if line.is_empty() { Err(Trouble::failed("weft daemon ended early")) } else { Ok(daemon) }
    }

    /// Returns what the daemon tells of its connections.
    fn tell(&self) -> Outcome<Value> {
        let id = self.child.id();
        let output = weft()?
            .args(["stat", &id.to_string(), "sockets", "--json"])
            .output()
            .map_err(say("asking weft stat"))?;
        // A line for each daemon that answers.
        let lines = output.stdout.split(|octet| *octet == b'\n');
        let mut answers = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        answers.find(|answer| answer["pid"].as_u64() == Some(id.into())).ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            Trouble::failed(format!("weft stat sockets does not answer: {}", said.trim()))
        })
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
    own_program().map(Command::new)
}

/// Returns the path of this very program.
pub(crate) fn own_program() -> Outcome<std::path::PathBuf> {
    std::env::current_exe().map_err(say("finding this program"))
}

#[expect(clippy::disallowed_methods, reason = "a time limit turns a hang into a failure")]
fn now() -> Instant {
    Instant::now()
}

const SETTLING: Duration = Duration::from_millis(300);
