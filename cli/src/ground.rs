//! The device of a command that serves or connects.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use weft_netif::{Ground, IpSetting, Spec};
use weft_rnic::{Config, Device, Progress};

use crate::failure::Failure;
use crate::usage::number;
use crate::wire;

/// Where the device gets its connections from.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct GroundArgs {
    /// The device: `host` is the operating system's TCP. `weft rping --help` explains the others
    #[arg(long, value_name = "SPEC", default_value = "host")]
    netif: Spec,
    /// This side's own IP address with prefix, on all devices but host
    #[arg(long, value_name = "CIDR[,gw ADDR]")]
    ip: Option<IpSetting>,
    /// Octets of the largest IP packet, on all devices but host
    #[arg(long, value_name = "N", default_value_t = 1500, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(576..=65_535))]
    mtu: u32,
}

impl GroundArgs {
    /// Returns the address of this side, if it is of a device with addresses of its own.
    pub(crate) fn own(&self) -> Option<IpAddr> {
        self.ip.as_ref().map(|ip| ip.address)
    }

    /// Returns whether the device is the operating system's TCP.
    pub(crate) fn is_host(&self) -> bool {
        self.netif == Spec::Host && self.ip.is_none()
    }

    /// Opens the device, with a thread that drives it.
    pub(crate) fn open(&self, timeout: Duration) -> Result<Device, Failure> {
        let seed = RandomState::new().hash_one(std::process::id());
        let (ground, config) = match (&self.netif, &self.ip) {
            (Spec::Host, Some(_)) => {
                return Err(Failure::usage(
                    "--ip is for the other devices: host has the operating system's addresses",
                ));
            }
            (Spec::Host, None) => (Ground::Host, Config::host(Ipv6Addr::UNSPECIFIED.into(), seed)),
            (device, None) => {
                return Err(Failure::usage(format!(
                    "{device} needs an IP address of this side's own, as in --ip 10.0.0.1/24"
                )));
            }
            (device, Some(ip)) => {
                let mut config = Config::new(ip.clone(), seed);
                config.stack.mtu = self.mtu as usize;
                config.stack.validate().map_err(Failure::usage)?;
                (wire::open(device, self.mtu as usize, timeout)?.into(), config)
            }
        };
        let config = Config { progress: Progress::Thread, ..config };
        Device::open(ground, config).map_err(Failure::work)
    }
}
