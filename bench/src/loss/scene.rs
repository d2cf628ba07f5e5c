//! Two hosts, each a network namespace, and the relay between them.

use core::net::Ipv4Addr;
use std::fs;
use std::sync::OnceLock;

use weft_netif::{Spec, Wire};

use super::path::Path;
use super::relay::Relay;
use crate::net::namespace::Namespace;
use crate::process::{Outcome, say};

/// The hosts, the one that sends data first. They end with this process.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) hosts: [Namespace; 2],
    pub(super) relay: Relay,
}

impl Scene {
    /// Makes the scene at the first call, or tells why there is none. Later calls return the same one.
    pub(super) fn get() -> Outcome<&'static Self> {
        static SCENE: OnceLock<Outcome<Scene>> = OnceLock::new();
        SCENE.get_or_init(Self::new).as_ref().map_err(Clone::clone)
    }

    /// Lays a path between the hosts. Returns the scene with it.
    pub(super) fn with(path: &Path) -> Outcome<&'static Self> {
        let scene = Self::get()?;
        scene.relay.lay(path)?;
        Ok(scene)
    }

    fn new() -> Outcome<Self> {
        let hosts = [Namespace::new()?, Namespace::new()?];
        let wires = [Self::join(&hosts[0], KERNEL[0])?, Self::join(&hosts[1], KERNEL[1])?];
        Ok(Self { hosts, relay: Relay::start(wires)? })
    }

    /// Makes the interface of a host, and returns its other end. The device leaves neither segments nor checksums for
    /// later, so that each of its frames is one segment.
    fn join(host: &Namespace, address: Ipv4Addr) -> Outcome<Wire> {
        let wire = host.within(|| {
            for (setting, value) in SETTINGS {
                // A kernel without IPv6 has no such setting.
                let _missing = fs::write(setting, value);
            }
            Wire::open(&Spec::PlainTap(INTERFACE.to_owned()), MTU).map_err(say("a TAP device"))
        })??;
        host.run(&format!("ip addr add {address}/24 dev {INTERFACE}"))?;
        host.run(&format!("ip link set {INTERFACE} mtu {MTU} txqueuelen {QUEUE} up"))?;
        Ok(wire)
    }
}

/// The interface of each host.
pub(super) const INTERFACE: &str = "weft0";
pub(super) const MTU: usize = 1500;
/// The kernels' addresses.
pub(super) const KERNEL: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 93, 0, 1), Ipv4Addr::new(10, 93, 0, 2)];
/// Frames that wait for the relay at most: more than any window.
const QUEUE: usize = 20_000;
/// The kernel's TCP does not remember a path for the next connection, and hosts send nothing by themselves.
const SETTINGS: [(&str, &str); 3] = [
    ("/proc/sys/net/ipv4/tcp_no_metrics_save", "1"),
    ("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"),
    ("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"),
];
