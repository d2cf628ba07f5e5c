//! The arguments of `weft demo`.

use std::path::PathBuf;

use clap::Parser;

use crate::usage::number;

/// Two software RNICs move data by Send, RDMA Write and RDMA Read, and check every octet.
///
/// Each is a complete iWARP stack (MPA, DDP, RDMAP) on a TCP/IP of its own; Ethernet frames between them go through
/// memory, over a wire that takes 5 microseconds for each frame. They exchange STags by Send, then move messages of 1
/// octet to 1 MiB in both directions.
///
/// Time is virtual: when both sides wait, the clock jumps, so that lost frames cost no real time. GB/s is octets per
/// second of CPU time, both sides together. The latency is virtual time: that of the wire and of TCP.
#[derive(Debug, Clone, Parser)]
#[command(after_help = "Examples:
  weft demo
  weft demo --mtu 9000 --markers
  weft demo --loss 0.02 --seed 7 --pcap demo.pcap && weft decode demo.pcap | head
  weft demo --rate 1000000000 --queue 100000
  weft demo --json | tail -n 1")]
pub struct Args {
    /// Octets of the largest IP packet, 576 to 65535
    #[arg(long, value_name = "N", default_value_t = 1500, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u32>(576..=65_535))]
    pub mtu: u32,
    /// Put Markers into the streams of both directions (RFC 5044 section 4.3)
    #[arg(long)]
    pub markers: bool,
    /// Turn the CRC32c of FPDUs off
    #[arg(long)]
    pub no_crc: bool,
    /// Lose this part of all frames in each direction, 0 to 0.5
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    #[arg(value_parser = probability)]
    pub loss: f64,
    /// Send frames at this rate in each direction, in bit/s: one takes the octets that it takes on Ethernet
    #[arg(long, value_name = "BIT/S", allow_negative_numbers = true)]
    #[arg(value_parser = number::<u64>(1..=MAX_RATE))]
    pub rate: Option<u64>,
    /// Lose a frame that would make more than N octets wait for the line
    #[arg(long, value_name = "N", requires = "rate", allow_negative_numbers = true)]
    #[arg(value_parser = number::<u64>(0..=u64::MAX))]
    pub queue: Option<u64>,
    /// Seed of the random numbers: the same seed gives the same run
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = number::<u64>(0..=u64::MAX))]
    pub seed: u64,
    /// Write the frames that the first RNIC sends and receives to this file, for Wireshark, tshark or weft decode
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Print one JSON object a line; the last one has the counted segments and "ok"
    #[arg(long)]
    pub json: bool,
}

fn probability(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=MAX_LOSS).contains(&value) => Ok(value),
        _ => Err(format!("`{text}` is not a number from 0 to {MAX_LOSS}, as 0.02 is")),
    }
}

/// A terabit in a second.
const MAX_RATE: u64 = 1_000_000_000_000;
/// With more losses TCP itself gives up.
const MAX_LOSS: f64 = 0.5;
