//! `weft rping`: the ping-pong of rdma-core's rping, on Weft's own stack.

use std::net::IpAddr;
use std::process::ExitCode;

use clap::{ArgGroup, Parser};
use weft_netif::{IpSetting, Spec};

mod client;
mod endpoint;
mod payload;
mod server;

use crate::failure::Failure;

/// Ping-pong by RDMA Read and RDMA Write, wire-compatible with rdma-core's rping.
///
/// The client advertises a buffer by Send (address, rkey and size), the server fetches it by RDMA Read; the client
/// advertises a second one, and the server writes the same octets there by RDMA Write. The client compares.
///
/// This RNIC has an IP address of its own on the device that --netif names. The real rping takes sizes from 23 to 65535.
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
    /// The server's address; the server itself may leave it out
    #[arg(short = 'a', value_name = "ADDR")]
    pub address: Option<IpAddr>,
    /// The server's port
    #[arg(short = 'p', value_name = "PORT", default_value_t = 7174, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Octets of a ping
    #[arg(short = 'S', value_name = "SIZE", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=MAX_SIZE))]
    pub size: u32,
    /// Pings, 0 for no end; the server serves until the client goes
    #[arg(short = 'C', value_name = "COUNT", default_value_t = 0)]
    pub count: u64,
    /// Print the octets of each ping
    #[arg(short = 'v')]
    pub verbose: bool,
    /// Server: serve one client after the other, without end
    #[arg(short = 'P', requires = "server")]
    pub persistent: bool,
    /// The device, see below
    #[arg(long, value_name = "SPEC")]
    pub netif: Spec,
    /// This side's address and prefix, gateways and routes
    #[arg(long, value_name = "CIDR[,gw ADDR]")]
    pub ip: IpSetting,
    /// Octets of the largest IP packet, 576 to 65535
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub mtu: u32,
    /// Client: RFC 6581 client-server start in place of the peer-to-peer start
    #[arg(long, requires = "client")]
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

const MAX_SIZE: i64 = 1 << 20;
