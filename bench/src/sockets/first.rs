//! The time from the call of connect to a connection's first octet by a ring.

use std::time::Duration;

use super::carrier::Carrier;
use super::pair::{Pair, Talk};
use super::terms::{Wait, Work};
use crate::case::{Effort, Sample, Side, Trouble};
use crate::process::Outcome;

/// New connections, one in each part of a turn.
pub(super) struct First {
    pair: Pair,
    /// Only the call of connect counts.
    connects_only: bool,
}

impl First {
    /// The time of connect.
    pub(super) fn connect(carrier: &Carrier) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(Self { pair: TALK.start(carrier)?, connects_only: true }))
    }

    /// The time up to the first octet by a ring.
    pub(super) fn ring(carrier: &Carrier) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(Self { pair: TALK.start(carrier)?, connects_only: false }))
    }

    /// Makes a connection, and returns the time that is asked for.
    fn connection(&mut self) -> Outcome<Duration> {
        let daemons = self.pair.carrier().daemons().cloned();
        let octets = || daemons.as_ref().map_or(Ok(0), |daemons| daemons.octets_by_ring());
        let before = octets()?;
        let line = self.pair.ask(Duration::ZERO)?;
        let times: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // Both ends together have sent these octets by rings: what came before them went by TCP.
        let by_ring = octets()?.saturating_sub(before) as f64 / (2 * SIZE) as f64;
        let by_tcp = (0..TRIPS).find(|trips| by_ring >= (TRIPS - trips) as f64);
        let time = if self.connects_only { times.first() } else { by_tcp.and_then(|trips| times.get(trips)) };
        time.map(|nanos| Duration::from_nanos(*nanos))
            .ok_or_else(|| Trouble::failed(format!("a connection stayed on TCP for {TRIPS} messages")))
    }
}

impl Side for First {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let before = self.pair.cpu()?;
        let (mut wall, mut transfers) = (Duration::ZERO, 0);
        while transfers < CONNECTIONS {
            wall += self.connection()?;
            transfers += 1;
            if effort.is_tiny {
                break;
            }
        }
        let cpu = self.pair.cpu()?.saturating_sub(before);
        Ok(Sample { wall, cpu, transfers, octets: 0, checked: transfers, figure: 0.0 })
    }
}

const SIZE: usize = 8;
/// Messages there and back on each connection.
const TRIPS: usize = 1000;
/// Connections of a turn.
const CONNECTIONS: u64 = 10;
const TALK: Talk = Talk { count: TRIPS, ..Talk::ping(SIZE, Wait::Blocking).doing(Work::First) };
