//! Operations of a client, as a side of a comparison. Every octet of all replicas is compared behind each round.

use std::time::{Duration, Instant};

use weft_group::{Done, Op, OpError, OpId, Replicas, Session, SessionError};

use super::chain::{Chain, Plan, Usages};
use super::network::Network;
use super::terms::Mode;
use crate::case::{Effort, Sample, Side, Trouble};
use crate::harness::percentile;
use crate::octets::pattern;
use crate::process::{Outcome, say};
use crate::watch::Watch;

/// What the client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    Copy,
    Swap,
    Flush,
    /// A write with its flush, in one pass.
    Persist,
}

/// The figure of a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Gauge {
    /// None beside time and number.
    Time,
    /// Microseconds of an operation: so many of 100 are done in them.
    Percentile(usize),
    /// Microseconds of CPU that the programs of all replicas use for an operation.
    ProgramCpu,
    /// The same of programs and devices.
    AllCpu,
    /// How often a thread of a replica's program is switched to in 1000 operations.
    Switches,
    /// Microseconds of an operation in which the client waits until queues are refilled.
    Refill,
    /// Microseconds of an operation, that time included.
    Whole,
}

/// A client at work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) plan: Plan,
    pub(super) kind: Kind,
    pub(super) size: usize,
    /// Operations under way in a session.
    pub(super) depth: u64,
    pub(super) gauge: Gauge,
    /// The devices' threads have real-time priority.
    pub(super) is_preferred: bool,
}

/// A chain and what has to be in its memory.
pub(super) struct Client {
    work: Work,
    chain: Chain,
    /// The memory of each session.
    model: Vec<Vec<u8>>,
    /// Octets to write.
    source: Vec<u8>,
    /// Operations so far.
    done: u64,
    /// Operations of a round in each session.
    round: u64,
    micros: Vec<f64>,
    refilling: Duration,
}

impl Work {
    pub(super) const fn new(mode: Mode, kind: Kind, size: usize) -> Self {
        let plan = Plan {
            mode,
            replicas: 3,
            network: Network::Loopback,
            window: 128,
            len: LEN,
            piece: 1 << 16,
            sessions: 1,
            has_files: false,
            busy: None,
        };
        Self { plan, kind, size, depth: 1, gauge: Gauge::Time, is_preferred: false }
    }

    pub(super) const fn gauge(self, gauge: Gauge) -> Self {
        Self { gauge, ..self }
    }

    /// Returns the same work with replicas of another kind.
    pub(super) const fn with(self, mode: Mode) -> Self {
        Self { plan: Plan { mode, ..self.plan }, ..self }
    }

    /// Returns the same work with so many replicas.
    pub(super) const fn of(self, replicas: usize) -> Self {
        Self { plan: Plan { replicas, ..self.plan }, ..self }
    }

    /// Returns the same work with a program that computes half of the time, at this replica.
    pub(super) const fn busy(self, index: usize) -> Self {
        Self { plan: Plan { busy: Some(index), ..self.plan }, ..self }
    }

    /// Returns the same work between hosts.
    pub(super) const fn over(self, network: Network) -> Self {
        Self { plan: Plan { network, ..self.plan }, ..self }
    }

    /// Returns the same work with replicas whose memory has a file.
    pub(super) const fn on_files(self) -> Self {
        Self { plan: Plan { has_files: true, ..self.plan }, ..self }
    }

    /// Returns the same work with so many operations under way.
    pub(super) const fn deep(self, depth: u64) -> Self {
        Self { depth, ..self }
    }

    pub(super) fn start(self) -> Outcome<Box<dyn Side>> {
        let chain = Chain::start(&self.plan)?;
        if self.is_preferred {
            chain.prefer_devices()?;
        }
        let model = vec![vec![0; self.plan.len]; self.plan.sessions];
        let source = pattern(self.size + SHIFTS);
        let refilling = Duration::ZERO;
        let mut client =
            Client { work: self, chain, model, source, done: 0, round: FIRST, micros: Vec::new(), refilling };
        client.round = if self.plan.mode == Mode::Refilled { client.most() } else { FIRST };
        Ok(Box::new(client))
    }
}

impl Client {
    /// The most operations of a round in each session. Of a refilled chain it is one lap, as is the least number.
    fn most(&self) -> u64 {
        let most = (ROUND / self.work.size.max(64)).clamp(32, 4096) as u64;
        if self.work.plan.mode == Mode::Refilled { self.work.plan.window.into() } else { most }
    }

    /// Writes what a round of flushes makes durable, so that each has something to do.
    fn prepare(&mut self) -> Outcome<()> {
        let write = Work { kind: Kind::Write, gauge: Gauge::Time, ..self.work };
        if self.work.is_prepared() { self.carry_out(write) } else { Ok(()) }
    }

    fn round(&mut self) -> Outcome<()> {
        self.carry_out(self.work)?;
        if self.work.plan.mode == Mode::Refilled {
            self.refill()?;
        }
        Ok(())
    }

    fn carry_out(&mut self, work: Work) -> Outcome<()> {
        let (first, count) = (self.done, self.round);
        for index in 0..self.chain.sessions.len() {
            let session = &mut self.chain.sessions[index];
            let times = matches!(work.gauge, Gauge::Percentile(_)).then_some(&mut self.micros);
            run(session, &work, &self.source, first..first + count, times)?;
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
    fn refill(&mut self) -> Outcome<()> {
        let start = Instant::now();
        self.chain.ask_all("refill")?;
        self.refilling += start.elapsed();
        Ok(())
    }

    /// Does the same with the model, and compares all replicas with it.
    fn check(&mut self) -> Outcome<()> {
        let count = self.round;
        let mut crc = 0;
        for model in &mut self.model {
            (self.done..self.done + count).for_each(|number| self.work.apply(number, &self.source, model));
            crc = crc32c::crc32c_append(crc, model);
        }
        self.done += count;
        let wanted = format!("digest {crc:08x}");
        let answers = self.chain.ask_all("digest")?;
        match answers.iter().position(|answer| *answer != wanted) {
            None => Ok(()),
            Some(index) => {
                let answer = &answers[index];
                Err(Trouble::failed(format!("replica {index} has other octets than were written: {answer}")))
            }
        }
    }

    fn figure(&mut self, used: &Usages, wall: Duration, operations: u64) -> f64 {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / operations.max(1) as f64;
        match self.work.gauge {
            Gauge::Time => 0.0,
            Gauge::Percentile(percent) => percentile(&mut self.micros, percent * 10),
            Gauge::ProgramCpu => each(used.programs.cpu),
            Gauge::AllCpu => each(used.programs.cpu + used.devices.cpu),
            Gauge::Switches => used.programs.switches as f64 * 1000.0 / operations.max(1) as f64,
            Gauge::Refill => each(self.refilling),
            Gauge::Whole => each(wall),
        }
    }
}

impl Side for Client {
    fn turn(&mut self, effort: &Effort) -> Outcome<Sample> {
        let mut watch = Watch::new(effort);
        let mut used = Usages::default();
        self.micros.clear();
        self.refilling = Duration::ZERO;
        self.chain.ask_all("go")?;
        while watch.goes_on() {
            self.prepare()?;
            // Programs that have just answered a line go back to sleep.
            std::thread::sleep(SETTLED);
            let before = self.chain.usages()?;
            watch.time(|| self.round())?;
            let now = self.chain.usages()?.since(&before);
            used.add(&now);
            self.check()?;
            let operations = self.round * self.chain.sessions.len() as u64;
            watch.count(operations, operations * self.work.octets(), operations);
            // Rounds grow while they are short: threads that spin may share a core, so that an operation takes milliseconds.
            if watch.goes_on() {
                self.round = (2 * self.round).min(self.most());
            }
        }
        self.chain.ask_all("rest")?;
        let mut sample = watch.finish();
        sample.cpu += used.programs.cpu + used.devices.cpu;
        sample.figure = self.figure(&used, sample.wall, sample.transfers);
        Ok(sample)
    }
}

impl Work {
    /// Octets of an operation, at each replica.
    const fn octets(&self) -> u64 {
        match self.kind {
            Kind::Swap => 8,
            _ => self.size as u64,
        }
    }

    /// Returns true if each round has writes in front of it, untimed.
    const fn is_prepared(&self) -> bool {
        matches!(self.kind, Kind::Flush) && self.plan.has_files
    }

    /// Returns where operation `number` begins. Those under way at the same time do not touch each other.
    fn place(&self, number: u64) -> usize {
        let step = if self.kind == Kind::Swap { 8 } else { self.size.next_multiple_of(8).max(8) };
        let places = if self.kind == Kind::Copy { self.plan.len / 2 } else { self.plan.len } / step;
        usize::try_from(number % places as u64).unwrap_or(0) * step
    }

    fn begin(&self, session: &mut Session, source: &[u8], number: u64) -> Result<OpId, SessionError> {
        let at = self.place(number);
        let range = at as u64..(at + self.size) as u64;
        match self.kind {
            Kind::Write => session.write(at as u64, self.written(source, number)),
            Kind::Copy => {
                let len = u32::try_from(self.size).unwrap_or(u32::MAX);
                session.copy(at as u64, (at + self.plan.len / 2) as u64, len)
            }
            Kind::Swap => {
                let lap = self.lap(number);
                session.compare_swap(at as u64, lap, lap + 1, Replicas::ALL)
            }
            Kind::Flush => session.flush(range),
            Kind::Persist => {
                let op = Op { write: Some(range.clone()), flush: Some(range), ..Op::default() };
                session.submit(&op, self.written(source, number))
            }
        }
    }

    fn apply(&self, number: u64, source: &[u8], model: &mut [u8]) {
        let at = self.place(number);
        match self.kind {
            Kind::Write | Kind::Persist => {
                model[at..at + self.size].copy_from_slice(self.written(source, number));
            }
            Kind::Flush if self.is_prepared() => {
                model[at..at + self.size].copy_from_slice(self.written(source, number));
            }
            Kind::Copy => model.copy_within(at..at + self.size, at + self.plan.len / 2),
            Kind::Swap => model[at..at + 8].copy_from_slice(&(self.lap(number) + 1).to_ne_bytes()),
            Kind::Flush => {}
        }
    }

    /// Returns what is written. Neighbors differ.
    fn written<'a>(&self, source: &'a [u8], number: u64) -> &'a [u8] {
        let shift = usize::try_from(number % SHIFTS as u64).unwrap_or(0);
        &source[shift..shift + self.size]
    }

    /// How often the word of an operation was swapped before.
    const fn lap(&self, number: u64) -> u64 {
        number / (self.plan.len as u64 / 8)
    }

    /// Checks what was found in words.
    fn check(&self, done: &Done, number: u64) -> Outcome<()> {
        let found = &done.originals[..self.plan.replicas];
        if self.kind == Kind::Swap && found.iter().any(|word| *word != self.lap(number)) {
            return Err(Trouble::failed(format!("words {found:?} before a swap of {}", self.lap(number))));
        }
        Ok(())
    }
}

/// Has operations carried out. With `micros`, each is timed.
#[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
fn run(
    session: &mut Session,
    work: &Work,
    source: &[u8],
    numbers: core::ops::Range<u64>,
    mut micros: Option<&mut Vec<f64>>,
) -> Outcome<()> {
    let (mut next, mut ended) = (numbers.start, numbers.start);
    let mut out = [Done { id: OpId(0), originals: [0; 16] }; 32];
    let mut start = Instant::now();
    while ended < numbers.end {
        while next < numbers.end && next - ended < work.depth {
            match work.begin(session, source, next) {
                Ok(_) => next += 1,
                Err(SessionError::Op(OpError::Full | OpError::Conflict)) => break,
                Err(error) => return Err(say("an operation")(error)),
            }
        }
        let taken = session.poll(&mut out).map_err(say("an acknowledgement"))?;
        for done in &out[..taken] {
            work.check(done, ended)?;
            ended += 1;
        }
        if let Some(micros) = micros.as_deref_mut().filter(|_| taken > 0) {
            micros.push(start.elapsed().as_secs_f64() * 1e6);
            start = Instant::now();
        }
    }
    Ok(())
}

/// Octets of a session's range.
const LEN: usize = 1 << 20;
/// Octets of a round, about.
const ROUND: usize = 1 << 20;
const SHIFTS: usize = 61;
const SETTLED: Duration = Duration::from_millis(1);
/// Operations of the first round.
const FIRST: u64 = 4;
