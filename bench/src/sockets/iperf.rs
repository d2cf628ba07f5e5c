//! iperf3, one way.

use std::ffi::OsStr;
use std::time::Duration;

use super::carrier::Carrier;
use super::load::{Client, Load, Run, Work, text_of};
use super::server::Server;
use crate::case::{Side, Trouble};
use crate::process::{Outcome, say};

/// The client.
pub(super) struct Iperf {
    pub(super) streams: usize,
    /// Octets of each call that writes.
    pub(super) size: usize,
}

impl Iperf {
    pub(super) fn start(self, carrier: &Carrier) -> Outcome<Box<dyn Side>> {
        let server = Server::start(carrier, "iperf3", |port, _| {
            Ok(["-s", "-B", &carrier.address().to_string(), "-p", &port.to_string()]
                .map(str::to_owned)
                .to_vec())
        })?;
        Ok(Load::boxed(vec![server], carrier, self))
    }
}

impl Client for Iperf {
    fn run(&self, carrier: &Carrier, port: u16, work: Work) -> Outcome<Run> {
        let mut command = carrier.command(false, OsStr::new("iperf3"))?;
        // It takes whole seconds only, and so octets if a first run has told how many.
        let octets = (work.requests * self.size as u64).to_string();
        let length = if work.turn.is_zero() { ["-t", "1"] } else { ["-n", &octets] };
        command.args(["-c", &carrier.address().to_string(), "-p", &port.to_string(), "-J"]).args(length);
        command.args(["-P", &self.streams.to_string(), "-l", &self.size.to_string()]);
        let text = text_of(command)?;
        let answer: serde_json::Value = serde_json::from_str(&text).map_err(say("iperf3"))?;
        let received = &answer["end"]["sum_received"];
        let (Some(octets), Some(seconds)) = (received["bytes"].as_u64(), received["seconds"].as_f64()) else {
            return Err(Trouble::failed(format!("iperf3 printed: {}", answer["error"])));
        };
        let wall = Duration::from_secs_f64(seconds);
        Ok(Run { transfers: octets / self.size as u64, wall, time: wall, octets, by_ring: octets })
    }
}
