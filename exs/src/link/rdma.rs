//! What carries a socket between two sides with EXS: the session, and what it has of the device.

use std::sync::Weak;
use std::time::Duration;

use weft_exs_core::{HEADER_LEN, Kind, Loss, Mode, Op, Outcome, Role, Session, Terms};
use weft_rnic::{Cause, Completion, DisconnectReason, RegisterError, Stag, Status};

use super::calls::{Calls, Direction};
use super::requests::Requests;
use crate::error::Error;
use crate::in_place::{InPlace, Recycle};
use crate::objects::{Objects, slot_of};
use crate::window::Window;

/// A session over RDMA.
#[derive(Debug)]
pub(super) struct Rdma {
    pub(super) objects: Objects,
    /// The socket that the link belongs to.
    pub(super) socket: Option<Weak<dyn Recycle>>,
    pub(super) session: Session,
    pub(super) terms: Terms,
    pub(super) stage: Stage,
    pub(super) requests: Requests,
    /// The place of the next header.
    pub(super) header: usize,
    /// Windows that no operation uses.
    windows: Vec<Window>,
    /// Memory of this side's operations was not there, which has ended the connection.
    has_faulted: bool,
}

/// How far the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is not established: only receives can be posted.
    Starting,
    Open,
    /// The session has ended. What was posted goes out, until this time.
    Draining(Duration),
    /// The device closes the connection.
    Leaving,
    /// The device has said that it is over.
    Gone,
}

impl Rdma {
    pub(super) fn new(role: Role, objects: Objects, terms: &Terms) -> Self {
        Self {
            socket: None,
            session: Session::new(role, terms),
            terms: *terms,
            objects,
            stage: match role {
                Role::Initiator => Stage::Open,
                Role::Responder => Stage::Starting,
            },
            requests: Requests::default(),
            header: 0,
            windows: Vec::new(),
            has_faulted: false,
        }
    }

    /// Takes the completions that are there, and asks for an announcement of later ones.
    pub(super) fn collect(&mut self, calls: &mut Calls, now: Duration) {
        let mut out = [Completion::EMPTY; BATCH];
        let mut is_armed = false;
        loop {
            let taken = self.objects.cq.poll(&mut out);
            for completion in &out[..taken] {
                self.handle(completion);
            }
            if taken > 0 {
                self.perform(calls, now);
            } else if is_armed {
                return;
            } else {
                self.objects.cq.request_notification(false);
                is_armed = true;
            }
        }
    }

    /// Takes the end of the connection.
    pub(super) fn handle_end(&mut self, reason: &DisconnectReason, calls: &mut Calls, now: Duration) {
        // What came before the end is there, and all that was posted has been flushed.
        self.collect(calls, now);
        self.stage = Stage::Gone;
        self.has_faulted |=
            *reason == DisconnectReason::LocalTerminate(Cause::Local(Status::LocalProtection));
        self.requests.abandon().for_each(|op| self.session.handle_done(op, false));
        self.session.handle_loss(match reason {
            DisconnectReason::Peer => Loss::Fin,
            DisconnectReason::TimedOut => Loss::TimedOut,
            _ => Loss::Reset,
        });
    }

    /// Returns when there is something to do.
    pub(super) fn next_time(&self) -> Option<Duration> {
        let draining = match self.stage {
            Stage::Draining(until) => Some(until),
            _ => None,
        };
        [self.session.poll_at(), draining].into_iter().flatten().min()
    }

    /// Returns a window for an operation, if it needs one.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub(super) fn window(&mut self, direction: Direction, len: u32) -> Result<Option<Window>, RegisterError> {
        let is_needed = match (self.terms.kind, direction) {
            (Kind::Message, Direction::Send) => len > self.terms.immediate,
            (Kind::Stream, Direction::Receive { .. }) => len > 0,
            _ => false,
        };
        let new = || Window::new(&self.objects.pd);
        is_needed.then(|| self.windows.pop().map_or_else(new, Ok)).transpose()
    }

    /// Gives an operation's memory back to the user. Nothing that was posted names it. The side whose memory was not
    /// there hears that instead of the reset which follows.
    pub(super) fn complete(&mut self, op: Op, result: Result<Outcome, Error>, calls: &mut Calls) {
        let result = match result {
            Err(Error::Reset) if self.has_faulted => Err(Error::Memory(RegisterError::Fault)),
            result => result,
        };
        let window = calls.complete(op, result, |outcome| self.in_place(outcome));
        self.windows.extend(window);
    }

    fn handle(&mut self, completion: &Completion) {
        let is_good = completion.status == Status::Success;
        self.has_faulted |= completion.status == Status::LocalProtection;
        let Some(slot) = slot_of(completion.wr_id) else {
            let tell = |op, is_good| self.session.handle_done(op, is_good);
            self.requests.complete(completion.wr_id, is_good, tell);
            return;
        };
        let at = self.objects.slot_at(slot);
        let octets = self.objects.slots.part(at..at + completion.byte_len as usize);
        // A receive that was flushed has no message, and is not posted again.
        if let Some(octets) = octets.filter(|_| is_good) {
            self.session.handle_message(slot, &octets, completion.invalidated.map(Stag));
        }
    }

    /// Hands out the octets of a message in place.
    fn in_place(&self, outcome: &Outcome) -> Option<InPlace> {
        let Mode::InPlace { slot } = outcome.mode else { return None };
        let at = self.objects.slot_at(slot) + HEADER_LEN;
        let octets = self.objects.slots.part(at..at + outcome.octets as usize)?;
        Some(InPlace::new(octets, slot, self.socket.clone()?))
    }
}

/// Completions that are polled at a time.
const BATCH: usize = 32;
