//! What clients and coordinators share: hosts, the network, the register and the history.

use std::sync::Arc;

use weft_group::{Host as Named, Record};
use weft_netif::Instant;
use weft_rnic::Clock;

use super::disk::Disk;
use super::history::History;
use super::host::{Host, PORT};
use super::net::Net;
use super::plan::Plan;
use super::register::Register;
use super::sabotage::Sabotage;
use crate::simulate::tally::Tally;
use crate::simulate::trace::Trace;

/// All but clients and coordinators.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) plan: Plan,
    pub(super) trace: Trace,
    pub(super) tally: Tally,
    pub(super) sabotage: Option<Sabotage>,
    pub(super) clock: Clock,
    pub(super) net: Net,
    /// Servers, then clients, then one for coordinators.
    pub(super) hosts: Vec<Host>,
    pub(super) register: Register,
    pub(super) history: History,
    /// The last epoch in which a session has opened.
    opened: u64,
    /// No member has what was acknowledged, and none has what was flushed.
    pub(super) is_over: bool,
    /// Nothing goes wrong any more.
    pub(super) is_calm: bool,
}

impl Stage {
    pub(super) fn new(plan: Plan, trace: Trace, sabotage: Option<Sabotage>) -> Self {
        let host = |at: usize| Named { id: at.to_string(), addr: format!("10.0.0.{}:{PORT}", at + 1) };
        let spares = (0..plan.servers).map(host).collect();
        let shape = (plan.topology, plan.size as u64);
        let record = Arc::new(Record::found("g", spares, plan.replicas, shape));
        let mut stage = Self {
            trace,
            tally: Tally::default(),
            sabotage,
            clock: Clock::virtual_time(),
            net: Net::new(&plan.ways, plan.mtu),
            hosts: (0..plan.ways.len()).map(|number| Host::new(number, &plan)).collect(),
            register: Register::new(record, plan.lost_answers),
            history: History::new(plan.clients * WORDS),
            opened: 0,
            is_over: false,
            is_calm: false,
            plan,
        };
        let text = format!("{:?}", stage.plan);
        stage.note(&text);
        (0..stage.hosts.len()).for_each(|host| stage.switch_on(host));
        stage
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(super) fn note(&mut self, text: &str) {
        self.trace.note(self.clock.now(), format_args!("{text}"));
    }

    /// Switches a host on, and starts its server if it has one.
    pub(super) fn switch_on(&mut self, number: usize) {
        let (wire, seed) = (self.net.plug(number), self.plan.random.next());
        let host = &mut self.hosts[number];
        host.switch_on(wire, &self.plan, (&self.clock, seed));
        if number < self.plan.servers {
            let is_same = self.sabotage == Some(Sabotage::SameIncarnation) && host.drawn() != 0;
            let incarnation = if is_same { host.drawn() } else { self.plan.random.next() };
            host.serve(&self.plan, incarnation);
        }
    }

    /// Ends all programs of a host. If that is orderly the peers hear of it.
    pub(super) fn switch_off(&mut self, number: usize, is_orderly: bool) {
        let now = self.now();
        if is_orderly {
            let host = &mut self.hosts[number];
            (host.server, host.memory) = (None, None);
            if let Some(device) = &host.device {
                device.poll(now);
            }
            self.net.forward(now, &mut self.trace);
        }
        self.net.unplug(number);
        self.hosts[number].switch_off();
    }

    /// Lets servers do what there is to do, and the register.
    pub(super) fn serve(&mut self) {
        for server in self.hosts.iter_mut().filter_map(|host| host.server.as_mut()) {
            server.handle();
        }
        for former in self.register.work(self.clock.now()) {
            self.begin_epoch(&former);
        }
    }

    /// Returns when something happens next by itself.
    pub(super) fn poll_at(&self) -> Option<Instant> {
        let now = self.now();
        let devices = self.hosts.iter().filter_map(|host| host.device.as_ref()?.poll_at(now));
        devices.chain(self.net.poll_at(now)).chain(self.register.poll_at()).min()
    }

    /// Lets the time be `now`.
    pub(super) fn step(&mut self, now: Instant) {
        self.clock.set(now);
        self.net.forward(now, &mut self.trace);
        for device in self.hosts.iter().filter_map(|host| host.device.as_ref()) {
            device.poll(now);
        }
        self.net.forward(now, &mut self.trace);
        self.tally.steps += 1;
    }

    /// The record was replaced.
    fn begin_epoch(&mut self, former: &Record) {
        let record = Arc::clone(&self.register.record);
        if former.epoch == record.epoch {
            return;
        }
        let seats = |record: &Record| {
            let seat = |seat: &weft_group::Seat| format!("{} {:x}", seat.host.id, seat.incarnation >> 48);
            record.members.iter().map(seat).collect::<Vec<_>>().join(", ")
        };
        let text = format!("epoch {} begins with {}", record.epoch, seats(&record));
        self.note(&text);
        self.tally.operation("epoch begun", 0);
        let is_whole = |seat: &weft_group::Seat| {
            former
                .members
                .iter()
                .any(|old| old.host.id == seat.host.id && old.incarnation == seat.incarnation)
        };
        if former.epoch > 0 && !record.members.iter().any(is_whole) {
            self.note("it goes on with what was flushed");
            self.tally.operation("epoch from storage", 0);
            self.history.restore();
        }
    }

    /// A session has opened in the epoch of this record. At the first one all members hold the same octets, and all that was
    /// acknowledged.
    pub(super) fn enter(&mut self, record: &Record) -> Result<(), String> {
        if record.epoch <= self.opened {
            return Ok(());
        }
        self.opened = record.epoch;
        self.tally.operation("epoch entered", 0);
        self.compare(record)
    }

    /// Compares the memory of the members that are as they were when the epoch began.
    pub(super) fn compare(&self, record: &Record) -> Result<(), String> {
        let mut first: Option<(&str, Vec<u8>)> = None;
        for seat in &record.members {
            let host = &self.hosts[number(&seat.host)];
            let Some(contents) = host.contents().filter(|_| host.incarnation() == Some(seat.incarnation))
            else {
                continue;
            };
            let of = |reason| format!("epoch {}, host {}: {reason}", record.epoch, seat.host.id);
            self.history.check(&self.words(&contents)).map_err(of)?;
            match &first {
                None => first = Some((&seat.host.id, contents)),
                Some((id, other)) => {
                    if let Some(at) = (0..contents.len()).find(|at| contents[*at] != other[*at]) {
                        return Err(of(format!("octet {at} is not that of host {id}")));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether each member of a record has started again, or is off: none has all that was acknowledged.
    pub(super) fn is_lost(&self, record: &Record) -> bool {
        !record.members.is_empty()
            && record
                .members
                .iter()
                .all(|seat| self.hosts[number(&seat.host)].incarnation() != Some(seat.incarnation))
    }

    /// Returns whether no member of a record has what was flushed.
    pub(super) fn is_spoiled(&self, record: &Record) -> bool {
        record.members.iter().all(|seat| {
            let disk = self.hosts[number(&seat.host)].disk.as_ref();
            disk.and_then(Disk::state).is_none_or(|state| state.is_spoiled)
        })
    }

    /// Returns whether a member is there in the register's record, besides this host, that has all that was acknowledged.
    pub(super) fn is_spare(&self, host: usize) -> bool {
        let record = &self.register.record;
        record.members.is_empty()
            || record.members.iter().any(|seat| {
                let at = number(&seat.host);
                at != host && self.hosts[at].incarnation() == Some(seat.incarnation)
            })
    }

    /// Returns where a word lies.
    pub(super) const fn place(&self, word: usize) -> u64 {
        let at = if word.is_multiple_of(2) { word * 8 } else { self.plan.size - word * 8 };
        at as u64
    }

    fn words(&self, contents: &[u8]) -> Vec<u64> {
        let words = 0..self.plan.clients * WORDS;
        let word = |word: usize| {
            let at = usize::try_from(self.place(word)).unwrap_or_default();
            contents[at..].first_chunk().map_or(0, |octets| u64::from_ne_bytes(*octets))
        };
        words.map(word).collect()
    }
}

fn number(host: &Named) -> usize {
    host.id.parse().unwrap_or_default()
}

/// Words that each client writes.
pub(super) const WORDS: usize = 2;
