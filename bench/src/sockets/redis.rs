//! redis-server with redis-benchmark, which reads or writes a value of 8 octets.

use std::ffi::OsStr;
use std::time::Duration;

use super::carrier::Carrier;
use super::load::{Client, Load, Run, Work, behind_first, text_of};
use super::server::Server;
use crate::case::{Side, Trouble};
use crate::process::Outcome;

/// redis-benchmark.
#[derive(Clone, Copy)]
pub(crate) struct Redis {
    pub(crate) connections: u64,
    /// Requests under way on each connection.
    pub(crate) pipeline: u64,
    /// What it does, as `-t` has it.
    pub(crate) test: &'static str,
    /// The figure that counts.
    pub(crate) column: Column,
}

/// A column of what redis-benchmark prints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Rate = 1,
    Mean,
    Least,
    Median,
    Percent95,
    Percent99,
}

impl Redis {
    /// Starts a server that has the value.
    pub(super) fn start(self, carrier: &Carrier) -> Outcome<Box<dyn Side>> {
        let server = Server::start(carrier, "redis-server", |port, folder| {
            let (port, host) = (port.to_string(), carrier.address().to_string());
            let words =
                ["--port", &port, "--bind", &host, "--dir", folder, "--save", "", "--appendonly", "no"];
            Ok([&words[..], &["--protected-mode", "no"]].concat().into_iter().map(str::to_owned).collect())
        })?;
        let mut set = carrier.hosts().command(false, OsStr::new("redis-benchmark"));
        set.args(["-h", &carrier.address().to_string(), "-p", &server.port().to_string()]);
        set.args(["-c", "1", "-n", "1", "-t", "set", "-d", "8", "--csv"]);
        text_of(set)?;
        Ok(Load::boxed(vec![server], carrier, self))
    }
}

impl Client for Redis {
    fn run(&self, carrier: &Carrier, port: u16, Work { requests, .. }: Work) -> Outcome<Run> {
        let mut command = carrier.command(false, OsStr::new("redis-benchmark"))?;
        command.args(["-h", &carrier.address().to_string(), "-p", &port.to_string()]);
        command.args(["-c", &self.connections.to_string()]);
        command.args(["-P", &self.pipeline.to_string(), "-n", &requests.to_string()]);
        command.args(["-t", self.test, "-d", "8", "--csv"]);
        let text = text_of(command)?;
        let last = text.lines().last().unwrap_or_default();
        let cell = |column: Column| -> Option<f64> {
            last.split(',').nth(column as usize)?.trim_matches('"').parse().ok()
        };
        let (Some(rate), Some(figure)) = (cell(Column::Rate), cell(self.column)) else {
            return Err(Trouble::failed(format!("redis-benchmark printed: {last}")));
        };
        let by_ring = behind_first(requests, self.connections * self.pipeline, OCTETS);
        let time = Duration::from_secs_f64(requests as f64 / rate);
        let latencies = Duration::from_secs_f64(figure / 1e3 * requests as f64);
        let wall = if self.column == Column::Rate { time } else { latencies };
        if wall.is_zero() {
            return Err(Trouble::Skipped("less than 8 us, the unit of redis-benchmark".to_owned()));
        }
        Ok(Run { transfers: requests, wall, time, octets: requests * OCTETS, by_ring })
    }
}

/// Octets of `GET key:__rand_int__` and its answer, which are fewer than those of a SET.
const OCTETS: u64 = 36 + 14;
