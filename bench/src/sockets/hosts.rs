//! The hosts of a client and its server: this one for both, or two network namespaces that a veth joins.

use core::net::Ipv4Addr;
use std::ffi::OsStr;
use std::process::Command;
use std::sync::OnceLock;

use crate::net::namespace::Namespace;
use crate::process::Outcome;

/// Where client and server run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hosts {
    /// Both on this host, over its loopback.
    One,
    /// Each in a network namespace of its own.
    Two(&'static Namespaces),
}

/// Two network namespaces, that of servers first.
#[derive(Debug)]
pub(super) struct Namespaces([Namespace; 2]);

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
        self.namespace(serves).map_or_else(|| Command::new(program), |host| host.command(program))
    }

    /// Does some work on the host of servers.
    pub(super) fn at_servers<T: Send>(self, work: impl FnOnce() -> T + Send) -> Outcome<T> {
        match self.namespace(true) {
            None => Ok(work()),
            Some(host) => host.within(work),
        }
    }

    const fn namespace(self, serves: bool) -> Option<&'static Namespace> {
        match self {
            Self::One => None,
            Self::Two(Namespaces(hosts)) => Some(&hosts[!serves as usize]),
        }
    }
}

impl Namespaces {
    fn new() -> Outcome<Self> {
        let hosts = [Namespace::new()?, Namespace::new()?];
        hosts[0]
            .run(&format!("ip link add {DEVICE} type veth peer name {DEVICE} netns {}", hosts[1].id()))?;
        for (host, address) in hosts.iter().zip(ADDRESSES) {
            host.run(&format!("ip addr add {address}/24 dev {DEVICE}"))?;
            host.run(&format!("ip link set {DEVICE} up"))?;
        }
        Ok(Self(hosts))
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

    use rustix::process::geteuid;

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
