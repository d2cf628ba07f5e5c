//! A server under the load of a client that is started for each turn.

use std::process::{Command, Output};
use std::time::Duration;

use super::carrier::Carrier;
use super::server::Server;
use crate::case::{Effort, Sample, Side, Trouble};
use crate::process::{Outcome, cpu_of, cpu_of_children, say};

/// A program that loads a server.
pub(crate) trait Client {
    /// Runs the program for so many requests, or for a time, as it can be told.
    fn run(&self, carrier: &Carrier, port: u16, work: Work) -> Outcome<Run>;

    /// Returns the requests of a turn at least.
    fn least(&self) -> u64 {
        FIRST
    }
}

/// How much a client does.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) requests: u64,
    pub(crate) turn: Duration,
}

/// The result of a client's run.
pub(crate) struct Run {
    pub(crate) transfers: u64,
    pub(crate) wall: Duration,
    /// The time of all requests, which differs from `wall` if that is made of latencies.
    pub(crate) time: Duration,
    /// Octets of the user.
    pub(crate) octets: u64,
    /// Octets that have to be sent by rings, at least.
    pub(crate) by_ring: u64,
}

/// Servers and their client, as a side of a comparison.
pub(crate) struct Load<C> {
    /// The client's server, and those behind it.
    servers: Vec<Server>,
    carrier: Carrier,
    client: C,
    /// Requests that fill a turn, measured before the first one.
    requests: u64,
}

impl<C: Client + 'static> Load<C> {
    pub(crate) fn boxed(servers: Vec<Server>, carrier: &Carrier, client: C) -> Box<dyn Side> {
        Box::new(Self { servers, carrier: carrier.clone(), client, requests: 0 })
    }

    fn run(&self, work: Work) -> Outcome<Run> {
        let port = self.servers.first().map_or(0, Server::port);
        self.client.run(&self.carrier, port, work)
    }

    /// Returns how many requests fill a turn. A short run tells too few, since connections begin slowly.
    fn fill(&self, turn: Duration) -> Outcome<u64> {
        let least = self.client.least();
        let mut requests = least;
        loop {
            let Run { transfers, time, .. } = self.run(Work { requests, turn: Duration::ZERO })?;
            let wanted = u128::from(transfers) * turn.as_nanos() / time.as_nanos().max(1);
            requests = u64::try_from(wanted).unwrap_or(least).max(least);
            if time * 2 >= turn || time >= ENOUGH {
                return Ok(requests);
            }
        }
    }

    /// Returns the CPU time of servers and daemons, and of clients that have ended.
    fn cpu(&self) -> Outcome<Duration> {
        let daemons = self.carrier.daemons().into_iter().flat_map(|daemons| daemons.ids());
        let own = self.servers.iter().map(Server::id).chain(daemons);
        Ok(own.map(cpu_of).sum::<Outcome<Duration>>()? + cpu_of_children()?)
    }
}

impl<C: Client + 'static> Side for Load<C> {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        if self.requests == 0 {
            self.requests = self.fill(effort.turn)?;
        }
        let daemons = self.carrier.daemons().cloned();
        let by_ring = daemons.as_ref().map(|daemons| daemons.octets_by_ring()).transpose()?;
        let before = self.cpu()?;
        let run = self.run(Work { requests: self.requests, turn: effort.turn })?;
        let cpu = self.cpu()?.saturating_sub(before);
        if let (Some(daemons), Some(before)) = (daemons, by_ring) {
            daemons.check(before, run.by_ring)?;
        }
        let Run { transfers, wall, octets, .. } = run;
        Ok(Sample { wall, cpu, transfers, octets, checked: transfers, figure: 0.0 })
    }
}

/// Runs a program to its end, and returns what it printed.
pub(super) fn text_of(mut command: Command) -> Outcome<String> {
    let Output { status, stdout, stderr } = command.output().map_err(say("starting a program"))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    Err(Trouble::failed(format!("{status}: {}", String::from_utf8_lossy(&stderr).trim())))
}

/// Returns the share of octets that goes by rings, if the first calls of each connection do not.
pub(super) const fn behind_first(transfers: u64, connections: u64, octets: u64) -> u64 {
    transfers.saturating_sub(connections * FIRST_CALLS) * octets
}

/// Requests of the first turn.
const FIRST: u64 = 2000;
/// A run of that time tells how many requests fill a turn of any length. A client may be unable to run longer for that.
const ENOUGH: Duration = Duration::from_millis(900);
/// Requests on a connection that has not left TCP yet.
const FIRST_CALLS: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs for a second, however long it is told to.
    struct Second;

    impl Client for Second {
        fn run(&self, _: &Carrier, _: u16, _: Work) -> Outcome<Run> {
            let second = Duration::from_secs(1);
            Ok(Run { transfers: 1000, wall: second, time: second, octets: 0, by_ring: 0 })
        }
    }

    /// iperf3 measures a second when it is to find out how much fills a turn.
    #[test]
    fn a_turn_is_filled_also_by_a_client_that_cannot_run_for_so_long() {
        let load = Load { servers: Vec::new(), carrier: Carrier::KERNEL, client: Second, requests: 0 };
        assert_eq!(load.fill(Duration::from_secs(4)).ok(), Some(4000));
    }
}
