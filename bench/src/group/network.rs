//! The network between a client and its replicas.

use core::net::{IpAddr, Ipv4Addr};
use std::ffi::OsStr;
use std::process::Command;
use std::sync::OnceLock;

use weft_netif::{IpSetting, Spec, Wire};
use weft_rnic::{Config, Device, Ground, Progress};

use crate::net::namespace::Namespace;
use crate::process::{Outcome, say};

/// The network between a client and its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// This host's loopback.
    Loopback,
    /// A host for the client and one for each of three replicas, on a switch.
    Switched { ground: Site, delay: Delay },
}

/// What carries the octets of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Site {
    /// The kernel's TCP.
    Host,
    /// Frames at the host's interface.
    Packet,
}

/// The time of a frame on its way from host to host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    None,
    /// 50 us.
    Netem,
}

/// Network namespaces, each with a veth to a bridge in one more of them.
struct Switch {
    hosts: Vec<Namespace>,
    _bridge: Namespace,
}

impl Network {
    /// Returns a command that runs a program at a replica's host.
    pub(super) fn command(self, replica: usize, program: &OsStr) -> Outcome<Command> {
        Ok(match self {
            Self::Loopback => Command::new(program),
            Self::Switched { delay, .. } => Switch::get(delay)?.hosts[replica + 1].command(program),
        })
    }

    /// Does some work at the client's host.
    pub(super) fn at_client<T: Send>(self, work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
        match self {
            Self::Loopback => work(),
            Self::Switched { delay, .. } => Switch::get(delay)?.hosts[0].within(work)?,
        }
    }

    /// Returns the address of the client's device in a chain of this number.
    pub(super) fn client(self, chain: u8) -> Ipv4Addr {
        self.address(0, chain)
    }

    /// Returns the address of a replica's device in a chain of this number.
    pub(super) fn replica(self, index: usize, chain: u8) -> Ipv4Addr {
        self.address(index + 1, chain)
    }

    /// Returns the interface of devices that take frames from it.
    pub(super) const fn interface(self) -> Option<&'static str> {
        match self {
            Self::Switched { ground: Site::Packet, .. } => Some(INTERFACE),
            _ => None,
        }
    }

    fn address(self, host: usize, chain: u8) -> Ipv4Addr {
        let first = match self {
            Self::Loopback => return Ipv4Addr::LOCALHOST,
            Self::Switched { ground: Site::Host, .. } => KERNEL,
            // The devices of several chains are there at the same time.
            Self::Switched { ground: Site::Packet, .. } => Ipv4Addr::new(10, 96, chain, 1),
        };
        Ipv4Addr::from_bits(first.to_bits() + u32::try_from(host).unwrap_or(0))
    }
}

/// Opens a device at an address, on the kernel's TCP or on frames of an interface.
pub(super) fn open(
    address: Ipv4Addr,
    interface: Option<&str>,
    seed: u64,
    progress: Progress,
) -> Outcome<Device> {
    let (ip_bits, address) = (address.to_bits(), IpAddr::V4(address));
    let (ground, config) = match interface {
        None => (Ground::Host, Config::host(address, seed)),
        Some(name) => {
            let ip = IpSetting { address, prefix: 24, gateways: Vec::new(), routes: Vec::new() };
            // The seed makes the MAC address as well.
            let config = Config::new(ip, seed ^ u64::from(ip_bits) << 32);
            let wire = Wire::open(&Spec::Packet(name.to_owned()), config.stack.mtu);
            (wire.map_err(say("opening an interface"))?.into(), config)
        }
    };
    Device::open(ground, Config { progress, ..config }).map_err(say("opening a device"))
}

impl Switch {
    /// Makes the switch at the first call, or tells why there is none.
    fn get(delay: Delay) -> Outcome<&'static Self> {
        static SWITCHES: [OnceLock<Outcome<Switch>>; 2] = [OnceLock::new(), OnceLock::new()];
        SWITCHES[delay as usize].get_or_init(|| Self::new(delay)).as_ref().map_err(Clone::clone)
    }

    fn new(delay: Delay) -> Outcome<Self> {
        let bridge = Namespace::new()?;
        bridge.run("ip link add switch type bridge")?;
        bridge.run("ip link set switch up")?;
        let mut hosts = Vec::new();
        for number in 0..HOSTS {
            let host = Namespace::new()?;
            let port = format!("port{number}");
            bridge.run(&format!("ip link add {port} type veth peer name {INTERFACE} netns {}", host.id()))?;
            bridge.run(&format!("ip link set {port} master switch up"))?;
            if delay == Delay::Netem {
                // Each frame leaves the switch by one port.
                bridge.run(&format!("tc qdisc add dev {port} root netem delay 50us rate 25gbit"))?;
            }
            let network = Network::Switched { ground: Site::Host, delay };
            host.run(&format!("ip addr add {}/24 dev {INTERFACE}", network.address(number, 0)))?;
            host.run(&format!("ip link set {INTERFACE} up"))?;
            hosts.push(host);
        }
        Ok(Self { hosts, _bridge: bridge })
    }
}

/// A client and three replicas.
const HOSTS: usize = 4;
const INTERFACE: &str = "weft0";
/// The first address of the kernels.
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 95, 0, 1);

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn hosts_of_a_switch_reach_each_other_and_nobody_else_does() {
        let network = Network::Switched { ground: Site::Host, delay: Delay::None };
        if let Err(trouble) = network.at_client(|| Ok(())) {
            assert!(!geteuid().is_root(), "root makes namespaces: {trouble}");
            println!("skipped: hosts_of_a_switch_reach_each_other_and_nobody_else_does: {trouble}");
            return;
        }
        let listen = || TcpListener::bind((network.client(0), 0)).map_err(say("listening"));
        let listener = network.at_client(listen).unwrap();
        let port = listener.local_addr().unwrap().port();
        for replica in 0..3 {
            let (text, own) =
                (format!("exec 3<>/dev/tcp/{}/{port}", network.client(0)), network.replica(replica, 0));
            let mut bash = network.command(replica, OsStr::new("bash")).unwrap();
            assert!(bash.args(["-c", &text]).status().unwrap().success(), "{replica}");
            assert_eq!(listener.accept().unwrap().1.ip(), IpAddr::V4(own));
        }
        assert!(TcpStream::connect((network.client(0), port)).is_err(), "not from here");
    }
}
