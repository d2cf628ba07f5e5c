//! How the rows of ours open a device: the one place that chooses its TCP.

use core::net::{IpAddr, Ipv4Addr};

use weft_netif::{IpSetting, Spec, Wire};
use weft_rnic::{Config, Device, Progress};

use super::scene::{INTERFACE, MTU};
use crate::process::{Outcome, next_number, say};

/// A TCP of ours.
#[derive(Debug)]
pub(super) struct Tcp {
    /// Its name in the table.
    pub(super) name: &'static str,
    /// How much faster than real time its clock runs.
    pub(super) clock_scale: u32,
    /// The part of a target below which the run fails, if it is that far.
    pub(super) floor: Option<f64>,
    /// Changes the defaults of a device.
    configure: fn(&mut Config),
}

/// Weft's own, for which the targets are. Its clock runs at real time.
pub(super) const TESTED: Tcp = Tcp {
    name: "own",
    clock_scale: 1,
    floor: Some(0.25),
    configure: |config| *config = config.clone().with_tcp(weft_netif::Tcp::Own),
};

impl Tcp {
    /// Opens a device as users have it, with a thread of its own, at the interface of this thread's host.
    pub(super) fn open(&self, address: Ipv4Addr) -> Outcome<Device> {
        let ip =
            IpSetting { address: IpAddr::V4(address), prefix: 24, gateways: Vec::new(), routes: Vec::new() };
        // Each device has another seed, so that none takes a connection for one of an earlier turn.
        let mut config = Config::new(ip, u64::from(next_number()) + 1);
        config.progress = Progress::Thread;
        (self.configure)(&mut config);
        let wire = Wire::open(&Spec::PlainPacket(INTERFACE.to_owned()), MTU).map_err(say("an interface"))?;
        Device::open(wire, config).map_err(say("a device"))
    }
}
