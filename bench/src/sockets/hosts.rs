//! The hosts of a client and its server: this one for both, or two network namespaces that a veth joins.

use core::net::Ipv4Addr;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::thread;

use rustix::process::geteuid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::case::Trouble;
use crate::net::scene::{complaint, neighbor};
use crate::process::{Outcome, say};

/// Where client and server run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hosts {
    /// Both on this host, over its loopback.
    One,
    /// Each in a network namespace of its own.
    Two(&'static Namespaces),
}

/// Two network namespaces, that of servers first. Each ends with the process that keeps it, and that one with this
/// process, also if it is killed.
#[derive(Debug)]
pub(super) struct Namespaces([Child; 2]);

impl Hosts {
    /// Makes the two namespaces at the first call, or tells why there are none.
    pub(super) fn two() -> Outcome<Self> {
        static NAMESPACES: OnceLock<Outcome<Namespaces>> = OnceLock::new();
        NAMESPACES.get_or_init(Namespaces::new).as_ref().map(Self::Two).map_err(Clone::clone)
    }

    /// Returns the address of the host of servers, or of clients.
    pub(super) const fn address(self, serves: bool) -> Ipv4Addr {
        match self {
            Self::One => Ipv4Addr::LOCALHOST,
            Self::Two(_) => ADDRESSES[!serves as usize],
        }
    }

    /// Returns a command that runs a program on the host of servers, or of clients.
    pub(super) fn command(self, serves: bool, program: &OsStr) -> Command {
        match self.net(serves) {
            None => Command::new(program),
            Some(net) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net={net}")).arg(program);
                command
            }
        }
    }

    /// Does some work on the host of servers.
    pub(super) fn at_servers<T: Send>(self, work: impl FnOnce() -> T + Send) -> Outcome<T> {
        let Some(net) = self.net(true) else { return Ok(work()) };
        let net = File::open(net).map_err(say("opening a network namespace"))?;
        // A thread of its own, since a thread cannot go back without a descriptor of its old namespace.
        let worker = || {
            move_into_link_name_space(net.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(say("moving to a network namespace"))?;
            Ok(work())
        };
        thread::scope(|scope| scope.spawn(worker).join())
            .unwrap_or_else(|_| Err(Trouble::failed("a thread panicked")))
    }

    fn net(self, serves: bool) -> Option<String> {
        match self {
            Self::One => None,
            Self::Two(Namespaces(keepers)) => {
                Some(format!("/proc/{}/ns/net", keepers[usize::from(!serves)].id()))
            }
        }
    }
}

impl Namespaces {
    fn new() -> Outcome<Self> {
        if !geteuid().is_root() {
            return Err(Trouble::Skipped("only root makes network namespaces".to_owned()));
        }
        let made = Self([neighbor()?.0, neighbor()?.0]);
        let [server, client] = made.0.each_ref().map(Child::id);
        run(server, &format!("ip link add {DEVICE} type veth peer name {DEVICE} netns {client}"))?;
        for (keeper, address) in [server, client].into_iter().zip(ADDRESSES) {
            run(keeper, &format!("ip addr add {address}/24 dev {DEVICE}"))?;
            run(keeper, &format!("ip link set {DEVICE} up"))?;
            run(keeper, "ip link set lo up")?;
        }
        Ok(made)
    }
}

/// Runs a command line in the namespace that a process keeps.
fn run(keeper: u32, line: &str) -> Outcome<()> {
    let net = format!("--net=/proc/{keeper}/ns/net");
    let words: Vec<&str> = core::iter::once(net.as_str()).chain(line.split_whitespace()).collect();
    match complaint("nsenter", &words) {
        None => Ok(()),
        Some(text) => Err(Trouble::Skipped(format!("{line}: {text}"))),
    }
}

/// The ends of the veth.
pub(super) const DEVICE: &str = "weft0";
/// The network of both hosts, and of their daemons' own wires.
pub(super) const NETWORK: &str = "10.94.0.0/24";
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 94, 0, 1), Ipv4Addr::new(10, 94, 0, 2)];

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn two_hosts_reach_each_other_and_have_loopbacks_of_their_own() {
        let Ok(hosts) = Hosts::two() else {
            assert!(!geteuid().is_root(), "root makes namespaces: {:?}", Hosts::two());
            return;
        };
        let address = hosts.address(true);
        let listen = || TcpListener::bind((address, 0)).expect("the server's address");
        let listener = hosts.at_servers(listen).expect("the server's host");
        let port = listener.local_addr().expect("an address").port();
        assert!(TcpStream::connect((address, port)).is_err(), "not from here");
        let text = format!("exec 3<>/dev/tcp/{address}/{port}");
        let reach = |serves| {
            hosts.command(serves, OsStr::new("bash")).args(["-c", &text]).status().expect("bash").success()
        };
        assert!(reach(false) && reach(true));
        assert_eq!(Hosts::One.address(true), Ipv4Addr::LOCALHOST);
    }
}
