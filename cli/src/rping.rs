//! `weft rping`: the ping-pong of rdma-core's rping, on Weft's own stack.

use std::net::IpAddr;
use std::process::ExitCode;

use clap::{ArgGroup, Parser};
use weft_netif::{IpSetting, Spec};

mod client;
mod endpoint;
mod events;
mod payload;
mod server;

use crate::failure::Failure;
use crate::usage::number;

/// Ping-pong by RDMA Read and RDMA Write, wire-compatible with rdma-core's rping.
///
/// The client advertises a buffer by Send (address, rkey and size), the server fetches it by RDMA Read; the client
/// advertises a second one, and the server writes the same octets there by RDMA Write. The client compares.
///
/// This RNIC has a TCP/IP of its own on the device that --netif names, so that --ip is to be an address that nobody else
/// has there. Start either side first. The real rping takes sizes from 23 to 65535.
#[derive(Debug, Clone, Parser)]
#[command(
    group = ArgGroup::new("role").required(true).args(["server", "client"]),
    after_help = "Devices for --netif:
  unix-listen:PATH  Ethernet frames over a Unix socket, waits for the other side (also a QEMU -netdev stream)
  unix:PATH         the same, connects
  tap:NAME          a TAP device; needs CAP_NET_ADMIN, or a namespace of one's own: unshare -Urn

Examples:
  weft rping -s --netif unix-listen:/tmp/wire --ip 10.0.0.1/24
  weft rping -c -a 10.0.0.1 -C 10 -S 4096 -v --netif unix:/tmp/wire --ip 10.0.0.2/24
  weft rping -c -a 10.1.0.1 --netif tap:tap0 --ip 10.0.0.2/24,gw 10.0.0.254"
)]
pub struct Args {
    /// Be the server: wait for a client
    #[arg(short = 's')]
    pub server: bool,
    /// Be the client: connect to a server
    #[arg(short = 'c')]
    pub client: bool,
    /// The server's IP address; the server itself may leave it out
    #[arg(short = 'a', value_name = "ADDR", value_parser = address)]
    pub address: Option<IpAddr>,
    /// The server's port
    #[arg(short = 'p', value_name = "PORT", default_value_t = 7174, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u16>(1..=65_535))]
    pub port: u16,
    /// Client: octets of a ping
    #[arg(short = 'S', value_name = "SIZE", default_value_t = 64, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(1..=MAX_SIZE))]
    pub size: u32,
    /// Client: number of pings, 0 for no end; the server serves until the client goes
    #[arg(short = 'C', value_name = "COUNT", default_value_t = 0, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u64>(0..=u64::MAX))]
    pub count: u64,
    /// Print the octets of each ping
    #[arg(short = 'v')]
    pub verbose: bool,
    /// Server: serve one client after the other, without end
    #[arg(short = 'P', conflicts_with = "client")]
    pub persistent: bool,
    /// The device, see below
    #[arg(long, value_name = "SPEC")]
    pub netif: Spec,
    /// This side's own IP address with prefix; behind it a gateway, or `route NET/PREFIX via ADDR`
    #[arg(long, value_name = "CIDR[,gw ADDR]")]
    pub ip: IpSetting,
    /// Octets of the largest IP packet, 576 to 65535
    #[arg(long, value_name = "N", default_value_t = 1500, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(576..=65_535))]
    pub mtu: u32,
    /// Seconds without an answer after which the peer is given up
    #[arg(long, value_name = "N", default_value_t = 30, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(1..=3600))]
    pub timeout: u32,
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

/// Runs one side.
pub fn run(args: &Args) -> ExitCode {
    let outcome = if args.server { server::serve(args) } else { client::ping(args) };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print("rping"),
    }
}

impl Args {
    /// The server's address, for the client.
    fn remote(&self) -> Result<IpAddr, Failure> {
        let address = self.address.ok_or_else(|| {
            Failure::usage("the client needs the server's address, for example -a 10.0.0.1")
        })?;
        self.check_family(address)?;
        let (prefix, width) = (self.ip.prefix, if address.is_ipv4() { 32 } else { 128 });
        let prefix = if self.ip.is_on_link(address) { prefix } else { width };
        let server = IpSetting { address, prefix, gateways: Vec::new(), routes: Vec::new() };
        if server.validate().is_err() {
            return Err(Failure::usage(format!("{address} is not the address of a server on a wire")));
        }
        if !self.ip.reaches(address) {
            return Err(Failure::usage(format!(
                "{address} is outside the net of {}; a gateway would lead there, as in --ip {}/{},gw ADDR",
                self.ip, self.ip.address, self.ip.prefix
            )));
        }
        Ok(address)
    }

    /// The server listens on its own address, so that -a can only repeat it.
    fn check_own(&self) -> Result<(), Failure> {
        match self.address {
            Some(address) if !address.is_unspecified() && address != self.ip.address => {
                Err(Failure::usage(format!(
                    "the server has the address {} of --ip, it cannot listen on {address}",
                    self.ip.address
                )))
            }
            _ => Ok(()),
        }
    }

    fn check_family(&self, address: IpAddr) -> Result<(), Failure> {
        if address.is_ipv4() != self.ip.address.is_ipv4() {
            return Err(Failure::usage(format!(
                "the server's address {address} and the own address {} are not of the same IP version",
                self.ip.address
            )));
        }
        Ok(())
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is no IP address, as 10.0.0.1 or fd00::1 are"))
}

const MAX_SIZE: u64 = 1 << 20;
