//! The receiving half: receives and messages match first to first.

use alloc::collections::{BTreeSet, VecDeque};
use core::time::Duration;

use weft_ddp::Stag;

use crate::action::{self, Action, Cause};
use crate::fault::Fault;
use crate::message::{Ack, Extent, Msg, Source};
use crate::op::{Mode, Op, OpError, Outcome, RecvRequest};
use crate::terms::Terms;

/// Receives that wait for messages, messages that wait for receives, and those that have met and are not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Receiver {
    /// Messages that may be here without acknowledgement.
    credits: usize,
    /// Slots that are neither posted nor hold a message.
    spare: BTreeSet<u16>,
    /// Messages that have come since the start.
    taken: u64,
    /// Receives without a message, in the order of their starts.
    receives: VecDeque<RecvRequest>,
    /// Messages without a receive, in the order of their numbers.
    arrived: VecDeque<Arrived>,
    /// Messages whose receive is there, up to the oldest one that is not acknowledged.
    matched: VecDeque<Matched>,
    /// The receives of the first of those have completed.
    completed: usize,
    /// Reads that are to be posted.
    reads: VecDeque<Action>,
    /// The peer sends nothing more.
    is_at_end: bool,
    /// This side takes nothing more.
    is_stopped: bool,
    /// Why the connection has ended.
    ended: Option<Cause>,
}

/// A message without a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Arrived {
    len: u32,
    place: Place,
}

/// Where the octets of a message are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Slot(u16),
    Peer { stag: Stag, to: u64 },
}

/// A message whose receive is there, or that nobody takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Matched {
    /// `None`: nobody takes it.
    op: Option<Op>,
    len: u32,
    placed: u32,
    /// The peer's STag, if its octets are read.
    stag: Option<Stag>,
    /// The slot in which the octets are handed out, until it is recycled.
    held: Option<u16>,
    progress: Progress,
}

/// How far a message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Progress {
    /// Its Read has not been posted.
    Waiting,
    /// Its Read has not completed.
    Reading,
    /// Its Read has failed, and the connection ends.
    Failed,
    /// The octets are where they belong.
    Done,
}

impl Receiver {
    pub(super) fn new(terms: &Terms) -> Self {
        let credits = terms.recv_credits;
        Self {
            credits: credits.into(),
            spare: (terms.window..terms.window + credits).collect(),
            taken: 0,
            receives: VecDeque::new(),
            arrived: VecDeque::new(),
            matched: VecDeque::new(),
            completed: 0,
            reads: VecDeque::new(),
            is_at_end: false,
            is_stopped: false,
            ended: None,
        }
    }

    pub(super) fn start(&mut self, request: RecvRequest, actions: &mut VecDeque<Action>) {
        self.receives.push_back(request);
        self.advance(actions);
    }

    /// Takes a message that has come in this slot. Returns the slot that is to be posted in its place.
    ///
    /// # Errors
    /// [`Fault::AfterShutdown`], [`Fault::OutOfOrder`], [`Fault::BeyondCredits`].
    pub(super) fn handle_msg(
        &mut self,
        msg: &Msg,
        slot: u16,
        actions: &mut VecDeque<Action>,
    ) -> Result<u16, Fault> {
        if self.is_at_end {
            return Err(Fault::AfterShutdown);
        }
        if msg.id != Msg::id_of(self.taken) {
            return Err(Fault::OutOfOrder);
        }
        if self.arrived.len() + self.matched.len() >= self.credits {
            return Err(Fault::BeyondCredits);
        }
        let place = match msg.source {
            Source::Inline => Place::Slot(slot),
            Source::Memory { stag, to } => {
                self.spare.insert(slot);
                Place::Peer { stag, to }
            }
        };
        self.taken += 1;
        self.arrived.push_back(Arrived { len: msg.len, place });
        self.advance(actions);
        // There is one: messages in slots are no more than credits.
        self.spare.pop_first().ok_or(Fault::BeyondCredits)
    }

    /// Takes the end of the peer's messages, of which it has sent so many.
    ///
    /// # Errors
    /// [`Fault::AfterShutdown`], [`Fault::OutOfOrder`].
    pub(super) fn handle_shutdown(&mut self, end: u64, actions: &mut VecDeque<Action>) -> Result<(), Fault> {
        if self.is_at_end {
            return Err(Fault::AfterShutdown);
        }
        if end != self.taken {
            return Err(Fault::OutOfOrder);
        }
        self.is_at_end = true;
        self.advance(actions);
        Ok(())
    }

    /// Takes the completion of a Read. One that is not `ok` was flushed, or ends the connection.
    pub(super) fn handle_done(&mut self, op: Op, ok: bool, actions: &mut VecDeque<Action>) {
        if let Some(progress) = self.progress(op).filter(|progress| **progress == Progress::Reading) {
            *progress = if ok { Progress::Done } else { Progress::Failed };
            self.advance(actions);
        }
    }

    /// Takes back a slot whose octets were handed out. Returns whether it was.
    pub(super) fn recycle(&mut self, slot: u16) -> bool {
        let Some(matched) = self.matched.iter_mut().find(|matched| matched.held == Some(slot)) else {
            return false;
        };
        matched.held = None;
        self.spare.insert(slot)
    }

    /// Ends the receives that `is_chosen` and that no message has met. Returns how many.
    pub(super) fn cancel(
        &mut self,
        is_chosen: impl Fn(Op, Option<Duration>) -> bool,
        error: OpError,
        actions: &mut VecDeque<Action>,
    ) -> usize {
        let before = self.receives.len();
        self.receives.retain(|request| {
            let is_canceled = is_chosen(request.op, request.deadline);
            if is_canceled {
                actions.push_back(Action::Complete { op: request.op, result: Err(error) });
            }
            !is_canceled
        });
        before - self.receives.len()
    }

    /// Takes nothing more from now on.
    pub(super) fn stop(&mut self, actions: &mut VecDeque<Action>) {
        self.is_stopped = true;
        self.advance(actions);
    }

    /// Ends all receives as soon as nothing posted can reach their memory.
    pub(super) fn end(&mut self, cause: Cause, actions: &mut VecDeque<Action>) {
        self.ended = Some(cause);
        self.reads.clear();
        for matched in self.matched.iter_mut().filter(|matched| matched.progress == Progress::Waiting) {
            matched.progress = Progress::Failed;
        }
        self.advance(actions);
    }

    /// Returns the next Read.
    pub(super) fn poll_read(&mut self) -> Option<Action> {
        let read = self.reads.pop_front()?;
        if let Action::Read { op, .. } = read
            && let Some(progress) = self.progress(op)
        {
            *progress = Progress::Reading;
        }
        Some(read)
    }

    /// Returns the next acknowledgement, and the peer's STag if the last message had one. It covers as many messages as
    /// can be told at once.
    pub(super) fn poll_ack(&mut self) -> Option<(Ack, Option<Stag>)> {
        let first = self.taken - (self.arrived.len() + self.matched.len()) as u64;
        let ready = self.matched.iter().take(self.completed).take_while(|matched| matched.held.is_none());
        let alone = |matched: &Matched| matched.stag.is_some() || matched.extent() != Extent::Full;
        let covered = ready.clone().position(alone).map_or_else(|| ready.count(), |place| place + 1);
        let last = self.matched.drain(..covered).next_back()?;
        self.completed -= covered;
        let id = Msg::id_of(first + covered as u64 - 1);
        Some((Ack { id, extent: last.extent() }, last.stag))
    }

    /// Returns whether there are octets that the user has not read, or not given back.
    pub(super) fn has_unread(&self) -> bool {
        !self.arrived.is_empty() || self.matched.iter().any(|matched| matched.held.is_some())
    }

    /// Returns whether a message waits for a receive, or no further one comes.
    pub(super) fn is_readable(&self) -> bool {
        !self.arrived.is_empty() || self.is_at_end || self.is_stopped
    }

    /// Returns whether all receives have completed.
    pub(super) fn is_empty(&self) -> bool {
        self.receives.is_empty() && self.completed == self.matched.len()
    }

    /// Returns whether all messages of the peer have come, and have been acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.is_at_end && self.arrived.is_empty() && self.matched.is_empty()
    }

    pub(super) fn poll_at(&self) -> Option<Duration> {
        self.receives.iter().filter_map(|request| request.deadline).min()
    }

    /// Brings messages and receives together, and completes the first receives as far as they are done.
    fn advance(&mut self, actions: &mut VecDeque<Action>) {
        while self.ended.is_none()
            && (self.is_stopped || !self.receives.is_empty())
            && let Some(arrived) = self.arrived.pop_front()
        {
            let request = if self.is_stopped { None } else { self.receives.pop_front() };
            let matched = self.meet(arrived, request, actions);
            self.matched.push_back(matched);
        }
        let is_failed = |matched: &Matched| matched.progress == Progress::Failed;
        while let Some(matched) = self.matched.get(self.completed) {
            let result = match (matched.progress, self.ended) {
                // A message is not received behind one that was lost.
                (Progress::Done, Some(cause)) if self.matched.iter().take(self.completed).any(is_failed) => {
                    Err(cause.error())
                }
                (Progress::Done, _) => Ok(matched.outcome()),
                (Progress::Failed, Some(cause)) => Err(cause.error()),
                _ => return,
            };
            if let Some(op) = matched.op {
                actions.push_back(Action::Complete { op, result });
            }
            self.completed += 1;
        }
        let result = match self.ended {
            Some(Cause::Closed) => Ok(Outcome::END),
            Some(cause) => Err(cause.error()),
            None if self.is_at_end || self.is_stopped => Ok(Outcome::END),
            None => return,
        };
        actions.extend(self.receives.drain(..).map(|request| Action::Complete { op: request.op, result }));
    }

    /// Starts to move the octets of a message to its receive, or nowhere.
    fn meet(
        &mut self,
        Arrived { len, place }: Arrived,
        request: Option<RecvRequest>,
        actions: &mut VecDeque<Action>,
    ) -> Matched {
        let op = request.map(|request| request.op);
        let placed = request.map_or(0, |request| request.len.min(len));
        let plain = Matched { op, len, placed, stag: None, held: None, progress: Progress::Done };
        match (place, op) {
            (Place::Slot(slot), Some(_)) if request.is_some_and(|request| request.is_in_place) => {
                Matched { placed: len, held: Some(slot), ..plain }
            }
            (Place::Slot(slot), op) => {
                if let Some(op) = op.filter(|_| placed > 0) {
                    let from = action::Place::Slot { slot, at: 0 };
                    let to = action::Place::Memory { op, at: 0 };
                    actions.push_back(Action::Copy { from, to, len: placed });
                }
                self.spare.insert(slot);
                plain
            }
            (Place::Peer { stag, to }, Some(op)) if placed > 0 => {
                self.reads.push_back(Action::Read { op, len: placed, stag, to });
                Matched { stag: Some(stag), progress: Progress::Waiting, ..plain }
            }
            (Place::Peer { stag, .. }, _) => Matched { stag: Some(stag), ..plain },
        }
    }

    /// Returns how far the message of a receive has come that has not completed.
    fn progress(&mut self, op: Op) -> Option<&mut Progress> {
        let mut open = self.matched.range_mut(self.completed..);
        open.find(|matched| matched.op == Some(op)).map(|matched| &mut matched.progress)
    }
}

impl Matched {
    fn extent(&self) -> Extent {
        match self.op {
            None => Extent::NotTaken,
            Some(_) if self.placed < self.len => Extent::Placed(self.placed),
            Some(_) => Extent::Full,
        }
    }

    fn outcome(&self) -> Outcome {
        let mode = match (self.held, self.stag) {
            (Some(slot), _) => Mode::InPlace { slot },
            (None, Some(_)) => Mode::Read,
            (None, None) => Mode::Inline,
        };
        Outcome { octets: self.placed, message_len: self.len, mode }
    }
}
