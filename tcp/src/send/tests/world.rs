//! A sender, a path and a peer on virtual time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::format;
use std::string::String;
use std::vec::Vec;

use super::check::{check, check_rack, check_transmit};
use super::judge::Judge;
use super::path::Random;
use super::peer::{Ack, Data, Peer};
use super::plan::Plan;
use super::sabotage::Sabotage;
use crate::send::Sender;
use crate::send::rack::ticks;
use crate::{Acknowledgement, Agreed, Frame, Micros, Sent, Seq, Token, Transmit, Unsent};

/// So many events in a row without any octet acknowledged are a livelock.
const STUCK: u32 = 200_000;

#[derive(Clone, Debug)]
enum Event {
    Data(Data),
    Ack(Ack),
}

/// A frame of the owner: where it lies in the stream, and what has not gone yet.
#[derive(Clone, Copy, Debug)]
struct Kept {
    start: u32,
    len: u32,
    sent: u32,
}

/// All of it.
pub(super) struct World {
    pub(super) plan: Plan,
    /// The EMSS at first.
    emss: u16,
    pub(super) now: Micros,
    pub(super) sender: Sender<Vec<Sent>>,
    pub(super) peer: Peer,
    random: Random,
    events: BTreeMap<(Micros, u64), Event>,
    serial: u64,
    frames: HashMap<Token, Kept>,
    queue: VecDeque<Token>,
    built: u32,
    next_batch: Micros,
    sabotage: Option<Sabotage>,
    progress: (Micros, Seq),
    events_since: u32,
    judge: Judge,
    /// Whether the invariants are not checked at every step.
    pub(super) is_trusted: bool,
    /// All that went: when, and what.
    pub(super) log: Vec<(Micros, Transmit, u32)>,
}

impl World {
    pub(super) fn new(plan: &Plan, seed: u64, sabotage: Option<Sabotage>) -> Self {
        let iss = Seq(plan.iss);
        let records = std::vec![Sent::EMPTY; plan.records];
        let mut sender = Sender::new(&plan.config, iss, records);
        let now = Micros::from_millis(7);
        let agreed = Agreed {
            emss: plan.emss,
            sack: plan.sack,
            ecn: plan.ecn,
            window: plan.reader.buffer,
            wl1: Seq(1),
            rtt: Some(plan.path.delay + plan.path.delay),
            syn_repeated: false,
        };
        sender.established(&agreed, now);
        Self {
            peer: Peer::new(&plan.reader, (plan.sack, plan.timestamps), iss + 1),
            plan: plan.clone(),
            emss: plan.emss,
            now,
            sender,
            random: Random::new(seed ^ 0xabcd),
            events: BTreeMap::new(),
            serial: 0,
            frames: HashMap::new(),
            queue: VecDeque::new(),
            built: 0,
            next_batch: now,
            sabotage,
            progress: (now, iss),
            events_since: 0,
            is_trusted: false,
            judge: Judge::new(iss + 1, iss + 1 + plan.reader.buffer),
            log: std::vec![],
        }
    }

    /// Runs until the FIN is acknowledged.
    pub(super) fn run(&mut self) -> Result<(), String> {
        self.run_until(|world| world.sender.is_closed())?;
        if !self.peer.is_done() {
            return self.fail("the FIN is acknowledged, but the peer has not all");
        }
        if !self.frames.is_empty() {
            return self.fail("frames are not released");
        }
        Ok(())
    }

    /// Runs until a condition holds.
    pub(super) fn run_until(&mut self, mut is_over: impl FnMut(&Self) -> bool) -> Result<(), String> {
        self.build();
        self.pump()?;
        while !is_over(self) {
            self.step()?;
        }
        Ok(())
    }

    fn fail<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("at {} us: {what}", self.now.0))
    }

    /// Goes on to what happens next.
    fn step(&mut self) -> Result<(), String> {
        let event = self.events.keys().next().map(|(at, _)| *at);
        let batch = (self.built < self.plan.octets).then_some(self.next_batch);
        let falls = self.plan.emss_falls.map(|(at, _)| at);
        let timer = self.sender.next_timeout();
        let times = [event, timer, self.peer.ack_at, self.peer.wakes, batch, falls];
        let Some(at) = times.into_iter().flatten().min() else {
            return self.fail("nothing will ever happen");
        };
        self.now = self.now.max(at);
        let now = self.now;
        if event.is_some_and(|at| at <= now) {
            let (_, event) = self.events.pop_first().unwrap();
            self.handle(event)?;
        } else if self.peer.ack_at.is_some_and(|at| at <= now) {
            self.acknowledge();
        } else if self.peer.wakes.is_some_and(|at| at <= now) {
            self.peer.wake();
            self.acknowledge();
        } else if batch.is_some_and(|at| at <= now) {
            self.build();
        } else if falls.is_some_and(|at| at <= now) {
            let (_, emss) = self.plan.emss_falls.take().unwrap();
            self.plan.emss = emss;
            self.sender.set_emss(emss, now);
            self.offer();
        } else if self.sabotage != Some(Sabotage::NoTimer) {
            self.sender.expire(now);
            self.judge.expired(&self.sender, now).or_else(|what| self.fail(what))?;
        }
        if let Some(sabotage) = self.sabotage {
            sabotage.tamper(&mut self.sender, self.now);
        }
        self.watch()?;
        self.pump()
    }

    fn check(&self) -> Result<(), String> {
        if self.is_trusted { Ok(()) } else { check(&self.sender).or_else(|what| self.fail(what)) }
    }

    /// Checks the invariants, and that something moves.
    fn watch(&mut self) -> Result<(), String> {
        self.check()?;
        let una = self.sender.una();
        if una != self.progress.1 || self.built < self.plan.octets && self.queue.is_empty() {
            (self.progress, self.events_since) = ((self.now, una), 0);
            return Ok(());
        }
        self.events_since += 1;
        let since = self
            .progress
            .0
            .max(self.plan.path.good_from.min(self.now))
            .max(self.plan.path.outage.map_or(Micros(0), |(_, to)| to.min(self.now)));
        let longest = Micros::from_secs(130) + self.plan.reader.sleep;
        if self.events_since > STUCK || self.now.since(since) > longest {
            return self.fail("nothing is acknowledged any more");
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Data(data) => {
                if self.peer.receive(&data, self.now, &mut self.random) {
                    self.acknowledge();
                }
            }
            Event::Ack(mut ack) => {
                self.judge.before(&self.sender, &ack);
                if let Some(sabotage) = self.sabotage {
                    sabotage.change(&mut ack);
                }
                let (seq, occupies) = (Seq(1), false);
                let Ack { ack, window, ref sack, echo, ece } = ack;
                let before = self.sender.una();
                let acked = self
                    .sender
                    .acknowledge(&Acknowledgement { seq, ack, window, sack, echo, ece, occupies }, self.now);
                if acked.beyond || before + acked.octets != self.sender.una() {
                    return self.fail("the ACK was taken for something else");
                }
                self.judge.after(&self.sender, self.now).or_else(|what| self.fail(what))?;
                if !self.is_trusted && !ack.is_before(before) {
                    check_rack(&self.sender, self.now).or_else(|what| self.fail(what))?;
                }
                self.release()?;
            }
        }
        Ok(())
    }

    /// Takes back the frames that are acknowledged.
    fn release(&mut self) -> Result<(), String> {
        while let Some(token) = self.sender.released() {
            let Some(kept) = self.frames.remove(&token) else {
                return self.fail("a frame is released twice");
            };
            let end = Seq(self.plan.iss) + 1 + kept.start + kept.len;
            if self.sender.una().is_before(end) {
                return self.fail("a frame is released before its octets are acknowledged");
            }
        }
        Ok(())
    }

    /// The peer sends an ACK.
    fn acknowledge(&mut self) {
        let ack = self.peer.ack();
        if let Some(at) = self.plan.path.ack(self.now, &mut self.random) {
            self.serial += 1;
            self.events.insert((at, self.serial), Event::Ack(ack));
        }
    }

    /// The application hands over what it has by now.
    fn build(&mut self) {
        let (emss, end) =
            (u32::from(self.plan.emss), self.plan.octets.min(self.built.saturating_add(self.plan.batch)));
        while self.built < end {
            let most =
                if self.plan.is_ragged { 1 + self.random.below(emss) } else { emss * self.plan.offload };
            let len = most.min(end - self.built).min(60_000);
            let token = Token(self.built);
            self.frames.insert(token, Kept { start: self.built, len, sent: 0 });
            self.queue.push_back(token);
            self.built += len;
        }
        self.next_batch = self.now + self.plan.pause;
        self.offer();
        if self.built == self.plan.octets {
            self.sender.close(self.now);
        }
    }

    fn offer(&mut self) {
        let octets = self.queue.iter().map(|token| self.frames[token].len - self.frames[token].sent).sum();
        let first = self.queue.front().map_or(0, |token| self.frames[token].len - self.frames[token].sent);
        self.sender.offer(Unsent { octets, first: first.min(self.plan.emss.into()) }, self.now);
    }

    /// Sends all that may go.
    fn pump(&mut self) -> Result<(), String> {
        for _ in 0..100_000 {
            if self.sender.is_full() && self.sender.in_flight() {
                let larger = std::vec![Sent::EMPTY; (2 * self.sender.board.ring.capacity()).min(1 << 16)];
                self.sender.swap_records(larger).map_err(|_| String::from("records do not fit"))?;
            }
            let Some(transmit) = self.sender.poll_transmit(self.now) else { return Ok(()) };
            self.send(transmit)?;
            self.check()?;
        }
        self.fail("it sends without end")
    }

    fn send(&mut self, transmit: Transmit) -> Result<(), String> {
        let (now, emss) = (self.now, u32::from(self.plan.emss));
        match transmit {
            Transmit::New { seq, room, cwr, .. } => {
                let Some(&token) = self.queue.front() else { return self.fail("there is nothing new") };
                let Some(kept) = self.frames.get_mut(&token) else { return self.fail("the frame is gone") };
                let left = kept.len - kept.sent;
                let whole = if room >= left || room < emss { room } else { room / emss * emss };
                let len = whole.min(left);
                let ends = len == left;
                let frame = Frame {
                    token,
                    offset: u16::try_from(kept.sent).unwrap(),
                    len: u16::try_from(len).unwrap(),
                    segment: u16::try_from(len.min(emss)).unwrap(),
                    ends,
                };
                if Seq(self.plan.iss) + 1 + kept.start + kept.sent != seq {
                    return self.fail("new octets have another number");
                }
                kept.sent += len;
                if ends {
                    self.queue.pop_front();
                }
                self.look(transmit, len)?;
                self.sender.sent_new(&transmit, &frame, now);
                self.offer();
                self.carry(seq, len, cwr);
            }
            Transmit::Again { seq, token, offset, len, .. } => {
                let Some(kept) = self.frames.get(&token) else { return self.fail("the frame is gone") };
                if Seq(self.plan.iss) + 1 + kept.start + u32::from(offset) != seq {
                    return self.fail("other octets go again");
                }
                self.look(transmit, len.into())?;
                self.sender.sent(&transmit, now);
                self.carry(seq, len.into(), false);
            }
            Transmit::Fin { seq, .. } => {
                if seq != Seq(self.plan.iss) + 1 + self.plan.octets {
                    return self.fail("the FIN has another number");
                }
                self.look(transmit, 1)?;
                self.sender.sent(&transmit, now);
                self.carry(seq, 0, false);
            }
        }
        Ok(())
    }

    fn look(&mut self, transmit: Transmit, len: u32) -> Result<(), String> {
        self.log.push((self.now, transmit, len));
        let cut = self.plan.emss < self.emss;
        check_transmit(&self.sender, &transmit, len).or_else(|what| self.fail(what))?;
        self.judge.sent(&self.sender, &transmit, len, (cut, self.now)).or_else(|what| self.fail(what))
    }

    /// Carries octets in segments over the path. None of them is the FIN.
    fn carry(&mut self, seq: Seq, len: u32, cwr: bool) {
        let (emss, now, timestamp) = (u32::from(self.plan.emss), self.now, ticks(self.now));
        let mut at = 0;
        while at < len || at == 0 {
            let is_fin = len == 0;
            let part = if is_fin { 1 } else { emss.min(len - at) };
            let data =
                Data { seq: seq + at, len: part, is_fin, cwr: cwr && at == 0, is_marked: false, timestamp };
            let Self { plan, random, events, serial, .. } = self;
            let ecn = plan.ecn;
            plan.path.data(part, now, random, |passed| {
                *serial += 1;
                let data = Data { is_marked: passed.is_marked && ecn, ..data };
                events.insert((passed.at, *serial), Event::Data(data));
            });
            at += part;
        }
    }
}
