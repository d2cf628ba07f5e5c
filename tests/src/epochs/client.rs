//! A client: it has a session, and another one in a newer epoch when that is over.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_group::{
    ChangeError, Done, Durability, Op, OpId, Opening, Options, Record, Replicas, Reply, Session,
    SessionError, Swap, UNTOUCHED, Wish, members, pause,
};
use weft_netif::{Duration, Instant};

use super::changing::Changing;
use super::register::{Question, Ticket};
use super::sabotage::Sabotage;
use super::stage::{Stage, WORDS};

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    number: usize,
    host: usize,
    phase: Phase,
    /// The epoch of the last session that was lost, or did not open. Operations of that may be under way still.
    lost: u64,
    /// It has started, and changes the epoch at once.
    is_new: bool,
    /// Another coordinator is at work, which gets so long for its change.
    patient_until: Instant,
    /// What has failed since the last operation was done.
    attempt: u32,
    pending: VecDeque<(OpId, Pending)>,
    /// When an operation was acknowledged, or the first one was begun.
    heard: Instant,
    next: Instant,
    /// Operations that were acknowledged.
    pub(super) done: u64,
    /// It begins nothing more.
    pub(super) is_closing: bool,
}

#[derive(Debug)]
enum Phase {
    Off,
    Idle(Instant),
    Reading(Ticket),
    Changing(Box<Changing>),
    Opening(Box<Opening>, Arc<Record>, Instant),
    Working(Box<Session>),
}

/// An operation under way.
#[derive(Clone, Copy, Debug)]
enum Pending {
    Write { word: usize, value: u64 },
    Read { word: usize, least: u64 },
}

impl Client {
    pub(super) fn new(number: usize, host: usize) -> Self {
        let phase = Phase::Idle(Instant::ZERO);
        let (heard, next, pending) = (Instant::ZERO, Instant::ZERO, VecDeque::new());
        Self {
            number,
            host,
            phase,
            lost: 0,
            is_new: true,
            patient_until: Instant::ZERO,
            attempt: 0,
            pending,
            heard,
            next,
            done: 0,
            is_closing: false,
        }
    }

    /// Its program ends.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Off;
        self.pending.clear();
    }

    /// Another program takes its place. It knows nothing of what was under way.
    pub(super) fn begin(&mut self, now: Instant) {
        *self = Self { phase: Phase::Idle(now), done: self.done, ..Self::new(self.number, self.host) };
    }

    /// Returns whether it has a session of this epoch, with nothing under way.
    pub(super) fn is_at_rest(&self, epoch: u64) -> bool {
        matches!(&self.phase, Phase::Working(session) if session.terms().epoch == epoch)
            && self.pending.is_empty()
    }

    /// Does what there is to do.
    pub(super) fn work(&mut self, stage: &mut Stage) -> Result<(), String> {
        let now = stage.now();
        loop {
            let phase = std::mem::replace(&mut self.phase, Phase::Off);
            let next = match phase {
                Phase::Idle(until) if now >= until => {
                    let ticket = stage.register.ask(Question::Read, now, &mut stage.plan.random);
                    Ok(Phase::Reading(ticket))
                }
                Phase::Reading(ticket) => match stage.register.reply(ticket, now) {
                    Some(Reply::Record(record)) => Ok(self.decide(stage, &record)),
                    Some(_) => Ok(self.pause(stage)),
                    None => Err(Phase::Reading(ticket)),
                },
                Phase::Changing(mut changing) => match changing.work(stage, self.host) {
                    Some(outcome) => Ok(self.changed(stage, outcome)?),
                    None => Err(Phase::Changing(changing)),
                },
                Phase::Opening(mut opening, record, deadline) => match opening.poll() {
                    Some(Ok(session)) => {
                        stage.enter(&record)?;
                        (self.heard, self.next) = (now, now);
                        Ok(Phase::Working(Box::new(session)))
                    }
                    Some(Err(error)) => Ok(self.refused(stage, record.epoch, &error)),
                    None if now >= deadline => Ok(self.refused(stage, record.epoch, &SessionError::TimedOut)),
                    None => Err(Phase::Opening(opening, record, deadline)),
                },
                Phase::Working(mut session) => match self.advance(stage, &mut session)? {
                    None => Err(Phase::Working(session)),
                    Some(error) => Ok(self.lose(stage, &session, &error)),
                },
                phase @ (Phase::Off | Phase::Idle(_)) => Err(phase),
            };
            match next {
                Ok(phase) => self.phase = phase,
                Err(phase) => {
                    self.phase = phase;
                    return Ok(());
                }
            }
        }
    }

    /// Returns when it has to go on if nothing comes.
    pub(super) fn poll_at(&self, stage: &Stage) -> Option<Instant> {
        match &self.phase {
            Phase::Off => None,
            Phase::Idle(until) => Some(*until),
            Phase::Reading(ticket) => stage.register.told_at(*ticket),
            Phase::Changing(changing) => changing.poll_at(stage),
            Phase::Opening(_, _, deadline) => Some(*deadline),
            Phase::Working(_) => {
                let next = (!self.is_closing).then_some(self.next);
                next.into_iter().chain((!self.pending.is_empty()).then_some(self.heard + PATIENCE)).min()
            }
        }
    }

    /// Knows the record: opens a session, or changes the epoch first.
    fn decide(&mut self, stage: &mut Stage, record: &Arc<Record>) -> Phase {
        let may_reopen = stage.sabotage == Some(Sabotage::SameEpoch);
        let is_newer = record.epoch > self.lost || may_reopen;
        if is_newer && !self.is_new && (stage.is_calm || stage.plan.random.percent(90)) {
            return self.open(stage, record);
        }
        if !is_newer && stage.now() < self.patient_until {
            return Phase::Idle(stage.now() + LOOK);
        }
        let is_from_storage = stage.plan.is_stored && stage.is_lost(record);
        let from = is_from_storage || stage.plan.random.percent(50);
        let wish = Wish { from: from.then_some(record.epoch), is_from_storage };
        Phase::Changing(Box::new(Changing::new(Arc::clone(record), wish, stage.now())))
    }

    fn changed(
        &mut self,
        stage: &mut Stage,
        outcome: Result<Arc<Record>, ChangeError>,
    ) -> Result<Phase, String> {
        match outcome {
            Ok(record) => {
                self.is_new = false;
                return Ok(self.open(stage, &record));
            }
            Err(ChangeError::Confused) => return Err("a change of epoch is confused".into()),
            Err(error @ ChangeError::NoSource { is_stored: false }) => {
                let record = Arc::clone(&stage.register.record);
                stage.is_over |= stage.is_lost(&record) && stage.is_spoiled(&record);
                stage.tally.end(&error.to_string());
            }
            Err(error) => stage.tally.end(&error.to_string()),
        }
        Ok(self.pause(stage))
    }

    fn open(&mut self, stage: &mut Stage, record: &Arc<Record>) -> Phase {
        let options = Options {
            topology: record.topology,
            epoch: record.epoch,
            range: Some(0..record.size),
            window: stage.plan.window,
            piece: 64,
            durability: if stage.plan.is_stored { Durability::File } else { Durability::Volatile },
            ..Options::default()
        };
        let (number, deadline) = (stage.plan.random.next(), stage.now() + PATIENCE * 4);
        let Some(device) = &stage.hosts[self.host].device else { return Phase::Off };
        let members = members(record).unwrap_or_default();
        match Opening::new(device, &members, &options, number) {
            Ok(opening) => Phase::Opening(Box::new(opening), Arc::clone(record), deadline),
            Err(error) => self.refused(stage, record.epoch, &error),
        }
    }

    fn refused(&mut self, stage: &mut Stage, epoch: u64, error: &SessionError) -> Phase {
        self.leave(stage, epoch, ("no session", error));
        self.pause(stage)
    }

    fn lose(&mut self, stage: &mut Stage, session: &Session, error: &SessionError) -> Phase {
        self.pending.clear();
        self.leave(stage, session.terms().epoch, ("session", error));
        self.pause(stage)
    }

    fn leave(&mut self, stage: &mut Stage, epoch: u64, (what, error): (&str, &SessionError)) {
        self.tell(stage, what, error);
        self.lost = epoch;
        let is_sealed = match error {
            SessionError::Sealed { .. } => true,
            SessionError::Refused(reason) => reason.contains("epoch"),
            _ => false,
        };
        if is_sealed {
            self.patient_until = stage.now() + PATIENCE * 4;
        }
    }

    fn tell(&self, stage: &mut Stage, what: &str, error: &SessionError) {
        let kind = match error {
            SessionError::Refused(_) => "refused".into(),
            SessionError::Sealed { .. } => "sealed".into(),
            SessionError::Lost(_) => "lost".into(),
            error => error.to_string(),
        };
        stage.tally.end(&format!("{what}: {kind}"));
        stage.note(&format!("client {}: {what}: {error}", self.number));
    }

    /// Waits the longer the more has failed since an operation was done, so that clients do not end each other's sessions for
    /// ever.
    fn pause(&mut self, stage: &mut Stage) -> Phase {
        let pause = pause(stage.plan.random.next(), self.attempt);
        self.attempt += 1;
        Phase::Idle(stage.now() + Duration::from(pause))
    }

    /// Takes what is done, and begins what is due. Returns why the session is over if it is.
    fn advance(&mut self, stage: &mut Stage, session: &mut Session) -> Result<Option<SessionError>, String> {
        let now = stage.now();
        let mut out = [Done { id: OpId(0), originals: [0; 16] }; 8];
        match session.poll(&mut out) {
            Ok(taken) => {
                for done in &out[..taken] {
                    self.take(stage, done, session.replicas())?;
                    self.heard = now;
                }
            }
            Err(error) => return Ok(Some(error)),
        }
        if !self.pending.is_empty() && now >= self.heard + PATIENCE {
            return Ok(Some(SessionError::TimedOut));
        }
        while now >= self.next && !self.is_closing {
            let micros = stage.plan.think.total_micros();
            let micros = stage.plan.random.between(1, usize::try_from(micros).unwrap_or(1) * 2);
            self.next += Duration::from_micros(micros as u64);
            self.submit(stage, session);
        }
        Ok(None)
    }

    fn take(&mut self, stage: &mut Stage, done: &Done, replicas: usize) -> Result<(), String> {
        let of = |reason: String| format!("client {}: {reason}", self.number);
        let Some((id, pending)) = self.pending.pop_front() else { return Err(of(format!("{done:?}"))) };
        if id != done.id {
            return Err(of(format!("{done:?} is done instead of {id:?}")));
        }
        (self.done, self.attempt) = (self.done + 1, 0);
        match pending {
            Pending::Write { word, value } => {
                stage.history.end_write(word, value);
                stage.tally.operation("write", 8);
                Ok(())
            }
            Pending::Read { word, least } => {
                let found = &done.originals[..replicas];
                if found.contains(&UNTOUCHED) {
                    return Err(of(format!("a replica has not looked: {found:x?}")));
                }
                let value = found.iter().min().copied().unwrap_or_default();
                stage.tally.operation("read", 8);
                stage.history.end_read(word, least, value).map_err(of)
            }
        }
    }

    /// Begins an operation, unless the window is full or one of the same word is under way.
    fn submit(&mut self, stage: &mut Stage, session: &mut Session) {
        let random = &mut stage.plan.random;
        let (is_write, own) = (random.percent(50), self.number * WORDS + random.below(WORDS));
        let word = if is_write { own } else { random.below(stage.plan.clients * WORDS) };
        let at = stage.place(word);
        let is_busy = self.pending.iter().any(|(_, pending)| pending.word() == word);
        if is_busy || session.under_way() >= u64::from(stage.plan.window) {
            return;
        }
        let (begun, pending) = if is_write {
            let value = stage.history.begin_write(word);
            let op = Op { write: Some(at..at + 8), flush: Some(at..at + 8), ..Op::default() };
            (session.submit(&op, &value.to_ne_bytes()), Pending::Write { word, value })
        } else {
            let swap = Swap { at, compare: NEVER, swap: NEVER, on: Replicas::ALL };
            let op = Op { swap: Some(swap), ..Op::default() };
            (session.submit(&op, &[]), Pending::Read { word, least: stage.history.begin_read(word) })
        };
        // The next poll tells why it is over.
        let Ok(id) = begun else { return };
        if let (Pending::Write { word, value }, Some(Sabotage::RashWrite)) = (pending, stage.sabotage) {
            stage.history.end_write(word, value);
        }
        if self.pending.is_empty() {
            self.heard = stage.now();
        }
        self.pending.push_back((id, pending));
    }
}

impl Pending {
    const fn word(self) -> usize {
        match self {
            Self::Write { word, .. } | Self::Read { word, .. } => word,
        }
    }
}

/// No word has this value.
const NEVER: u64 = u64::MAX - 1;
/// How often a client looks whether another coordinator has ended its change.
const LOOK: Duration = Duration::from_millis(100);
/// How long nothing may come.
const PATIENCE: Duration = Duration::from_millis(3_000);
