//! The arguments of `weft rping`, and which of them go together.

use std::net::IpAddr;

use clap::{ArgGroup, Parser};
use weft_netif::{IpSetting, Spec};
use weft_rnic::CLOCK_SCALE;

use super::payload::MAX_SIZE;
use crate::failure::Failure;
use crate::usage::number;

/// Ping-pong by RDMA Read and RDMA Write, wire-compatible with rdma-core's rping.
///
/// The client advertises a buffer by Send (address, rkey and size), and the server fetches it by RDMA Read. The client
/// advertises a second buffer, and the server writes the same octets there by RDMA Write. The client compares the two.
///
/// On `host` this RNIC uses the operating system's TCP. On any other device it has a TCP/IP of its own: --ip is an
/// address that no other station has there. Either side may be started first,
/// but on `host` the server. The real rping takes sizes from 23 to 65535.
#[derive(Debug, Clone, Parser)]
#[command(
    group = ArgGroup::new("role").required(true).args(["server", "client"]),
    after_help = help()
)]
pub struct Args {
    /// Be the server: wait for a client
    #[arg(short = 's')]
    pub server: bool,
    /// Be the client: connect to a server
    #[arg(short = 'c')]
    pub client: bool,
    /// The server's IP address; the server itself may leave it out, which on host means all addresses
    #[arg(short = 'a', value_name = "ADDR", value_parser = address)]
    pub address: Option<IpAddr>,
    /// The server's port
    #[arg(short = 'p', value_name = "PORT", default_value_t = 7174, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u16>(1..=65_535))]
    pub port: u16,
    /// Client: octets of a ping
    #[arg(short = 'S', value_name = "SIZE", default_value_t = 64, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(1..=MAX_SIZE.into()))]
    pub size: u32,
    /// Client: number of pings, 0 for no end; the server serves until the client goes
    #[arg(short = 'C', value_name = "COUNT", default_value_t = 0, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u64>(0..=u64::MAX))]
    pub count: u64,
    /// Print the octets of each ping
    #[arg(short = 'v')]
    pub verbose: bool,
    /// Server: serve all clients that come, up to 64 at once, without end
    #[arg(short = 'P', conflicts_with = "client")]
    pub persistent: bool,
    /// Server: engines, each with a thread and, if the device has several, a queue of its own. Clients take turns among
    /// them
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = number::<usize>(1..=256), conflicts_with_all = ["client", "pcap"])]
    pub engines: usize,
    /// The device, see below
    #[arg(long, value_name = "SPEC")]
    pub netif: Spec,
    /// This side's own IP address with prefix, on all devices but host; behind it a gateway, or `route NET/PREFIX via
    /// ADDR`
    #[arg(long, value_name = "CIDR[,gw ADDR]")]
    pub ip: Option<IpSetting>,
    /// Octets of the largest IP packet, 576 to 65535
    #[arg(long, value_name = "N", default_value_t = 1500, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(576..=65_535))]
    pub mtu: u32,
    /// Seconds without an answer after which the peer is given up
    #[arg(long, value_name = "N", default_value_t = 30, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(1..=3600))]
    pub timeout: u32,
    /// Server: seconds of silence after which a connected client is given up
    #[arg(long, value_name = "N", default_value_t = 60, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(1..=86_400), conflicts_with = "client")]
    pub silence: u32,
    /// How many times faster than real time this side's TCP runs, on all devices but host. 4 suits any peer; 100 and
    /// more suits two sides of weft on a wire that loses frames
    #[arg(long, value_name = "N", default_value_t = CLOCK_SCALE, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(1..=1000))]
    pub clock_scale: u32,
    /// Client: do not ask for the peer-to-peer start of RFC 6581
    #[arg(long, conflicts_with = "server")]
    pub no_p2p: bool,
    /// Ask for Markers in what this side receives
    #[arg(long)]
    pub markers: bool,
    /// Do not ask for the CRC32c of FPDUs
    #[arg(long)]
    pub no_crc: bool,
    /// Write all frames to this file, for Wireshark, tshark or weft decode
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<std::path::PathBuf>,
    /// Print the result as a JSON object
    #[arg(long)]
    pub json: bool,
}

impl Args {
    /// Returns the server's address, for the client.
    pub(crate) fn remote(&self) -> Result<IpAddr, Failure> {
        let address = self.address.ok_or_else(|| {
            Failure::usage("the client needs the server's address, for example -a 10.0.0.1")
        })?;
        let Some(ip) = &self.ip else { return Ok(address) };
        check_family(address, ip)?;
        let (prefix, width) = (ip.prefix, if address.is_ipv4() { 32 } else { 128 });
        let prefix = if ip.is_on_link(address) { prefix } else { width };
        let server = IpSetting { address, prefix, gateways: Vec::new(), routes: Vec::new() };
        if server.validate().is_err() {
            return Err(Failure::usage(format!("{address} is not the address of a server on a wire")));
        }
        if !ip.reaches(address) {
            return Err(Failure::usage(format!(
                "{address} is outside the net of {ip}; a gateway would lead there, as in --ip {}/{},gw ADDR",
                ip.address, ip.prefix
            )));
        }
        Ok(address)
    }

    /// Checks that -a repeats the server's own address: the server listens on no other.
    pub(crate) fn check_own(&self) -> Result<(), Failure> {
        match (self.address, &self.ip) {
            (Some(address), Some(ip)) if !address.is_unspecified() && address != ip.address => {
                Err(Failure::usage(format!(
                    "the server has the address {} of --ip, it cannot listen on {address}",
                    ip.address
                )))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the options fit the device.
    pub(crate) fn check_device(&self) -> Result<(), Failure> {
        match (&self.netif, &self.ip) {
            (Spec::Host, Some(_)) => Err(Failure::usage(
                "--ip is for the other devices: host has the operating system's addresses, of which -s -a chooses one",
            )),
            (Spec::Host, None) if self.pcap.is_some() => Err(Failure::usage(
                "--pcap is for the other devices: the frames of host are the operating system's, see tcpdump",
            )),
            (Spec::Host, None) | (_, Some(_)) => Ok(()),
            (device, None) => Err(Failure::usage(format!(
                "{device} needs an IP address of this side's own, as in --ip 10.0.0.1/24"
            ))),
        }
    }
}

fn help() -> String {
    let mut devices = String::from("Devices for --netif:\n");
    let host = (
        "host",
        "the operating system's TCP and its addresses, without privileges; without --ip, --mtu and --pcap",
    );
    for (name, about) in std::iter::once(&host).chain(Spec::WIRES) {
        for (index, line) in about.lines().enumerate() {
            devices += &format!("  {:<18}  {line}\n", if index == 0 { name } else { "" });
        }
    }
    devices
        + "With `,plain` behind the name, tap: and packet: do without the kernel's offloads (segments, checksums).\n\n"
        + EXAMPLES
}

fn check_family(address: IpAddr, ip: &IpSetting) -> Result<(), Failure> {
    if address.is_ipv4() != ip.address.is_ipv4() {
        return Err(Failure::usage(format!(
            "the server's address {address} and the own address {} are not of the same IP version",
            ip.address
        )));
    }
    Ok(())
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is no IP address, as 10.0.0.1 or fd00::1 are"))
}

const EXAMPLES: &str = "Examples:
  weft rping -s --netif host
  weft rping -c -a 192.168.1.7 -C 10 -v --netif host
  weft rping -s --netif unix-listen:/tmp/wire --ip 10.0.0.1/24
  weft rping -c -a 10.0.0.1 -C 10 -S 4096 -v --netif unix:/tmp/wire --ip 10.0.0.2/24
  weft rping -c -a 10.1.0.1 --netif tap:tap0 --ip 10.0.0.2/24,gw 10.0.0.254";
