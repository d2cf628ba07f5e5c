//! The link of a socket: its session, and the device that does what the session wants.
//!
//! A link is changed under its socket's lock, by `Endpoint::with`, which also does what
//! follows: it tells the time, performs the actions, and wakes threads and tasks when the lock is free again.

use core::task::Waker;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use weft_exs_core::{
    HEADER_LEN, Kind, Loss, Mode, Op, Outcome, RecvRequest, Role, SendRequest, Session, Terms,
};
use weft_rnic::{Completion, DisconnectReason, Qp, RegisterError, Stag, Status};

use crate::error::Error;
use crate::in_place::{InPlace, Received, Recycle};
use crate::memory::Area;
use crate::objects::{Objects, slot_of};
use crate::pending::{Pending, Settle};
use crate::ready::Ready;
use crate::window::Window;

mod asking;
mod performing;
mod requests;

use requests::Requests;

/// The session of a socket, and what it has of the device.
#[derive(Debug)]
pub(crate) struct Link {
    objects: Objects,
    /// The socket that the link belongs to.
    socket: Option<Weak<dyn Recycle>>,
    session: Session,
    terms: Terms,
    stage: Stage,
    requests: Requests,
    /// The place of the next header.
    header: usize,
    transfers: HashMap<Op, Transfer>,
    /// Windows that no operation uses.
    windows: Vec<Window>,
    /// Sends and receives among them.
    under_way: [usize; 2],
    last_op: u64,
    /// TCP gave up.
    has_timed_out: bool,
    /// The own end and the peer's.
    addresses: Option<[SocketAddr; 2]>,
    /// Those who wait for readiness.
    waiting: Vec<(Op, Ready, Arc<Pending<Ready>>)>,
    is_closed: bool,
    /// Who wants to hear of that.
    closing: Vec<Arc<Pending<Result<(), Error>>>>,
    /// What has ended since the lock was taken.
    ended: Vec<Ended>,
}

/// How far the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
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

/// An operation under way, with its memory.
#[derive(Debug)]
struct Transfer {
    area: Area,
    /// The peer's way to the octets, if it needs one.
    window: Option<Window>,
    direction: Direction,
    /// Octets could not be copied to its memory.
    has_faulted: bool,
    pending: Arc<dyn Settle>,
}

/// What is left of an operation that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Whom to wake when the lock is free.
    pub(crate) waker: Option<Waker>,
    /// The outcome with the user's memory, if nobody wants it any more. It is dropped without the lock.
    _outcome: Option<Arc<dyn Settle>>,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Send,
    Receive {
        /// It waits until it is full.
        waits_for_all: bool,
        /// Immediate data is handed out in its slot.
        is_in_place: bool,
    },
}

impl Link {
    /// Makes the link of an initiator whose connection is established, or of a responder that is going to accept.
    pub(crate) fn new(role: Role, objects: Objects, terms: &Terms) -> Self {
        let addresses = objects.qp.addresses();
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
            transfers: HashMap::new(),
            windows: Vec::new(),
            under_way: [0; 2],
            last_op: 0,
            has_timed_out: false,
            addresses,
            waiting: Vec::new(),
            is_closed: false,
            closing: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Notes the socket, which takes slots back.
    pub(crate) fn recycles_to(&mut self, socket: Weak<dyn Recycle>) {
        self.socket = Some(socket);
    }

    pub(crate) const fn qp(&self) -> &Qp {
        &self.objects.qp
    }

    /// Notes that the connection of a responder is established.
    pub(crate) fn open(&mut self) {
        if self.stage == Stage::Starting {
            self.stage = Stage::Open;
            self.addresses = self.objects.qp.addresses();
        }
    }

    /// Tells the session the time.
    pub(crate) fn tell(&mut self, now: Duration) {
        self.session.handle_time(now);
    }

    /// Starts an operation on octets of memory. Returns its name. If it cannot be started it ends at once.
    pub(crate) fn start(
        &mut self,
        area: Area,
        direction: Direction,
        pending: Arc<dyn Settle>,
        now: Duration,
    ) -> Op {
        let is_full = self.under_way[direction.index()] >= MAX_OPERATIONS;
        self.under_way[direction.index()] += 1;
        self.last_op += 1;
        let op = Op(self.last_op);
        let window = self.window(direction, area.len);
        let refused = if is_full {
            Some(Error::Full)
        } else {
            window.as_ref().err().map(|error| Error::Memory(*error))
        };
        let window = window.ok().flatten();
        let (len, to, elements) = (area.len, area.tagged_offset(), area.count());
        let stag = window.as_ref().map_or(Stag(0), Window::stag);
        self.transfers.insert(op, Transfer { area, window, direction, has_faulted: false, pending });
        let options = &self.objects.options;
        let deadline = |timeout: Option<Duration>| timeout.map(|timeout| now.saturating_add(timeout));
        let started = match (refused, direction) {
            (Some(error), _) => Err(error),
            (None, Direction::Send) => {
                let deadline = deadline(options.send_timeout);
                self.session.send(SendRequest { op, len, elements, stag, to, deadline }).map_err(Error::from)
            }
            (None, Direction::Receive { waits_for_all, is_in_place }) => {
                let deadline = deadline(options.recv_timeout);
                let request = RecvRequest { op, len, is_in_place, waits_for_all, stag, to, deadline };
                self.session.receive(request).map_err(Error::from)
            }
        };
        if let Err(error) = started {
            self.complete(op, Err(error));
        }
        op
    }

    pub(crate) fn cancel(&mut self, op: Option<Op>) -> usize {
        let waits = self.waiting.extract_if(.., |(waiting, ..)| Some(*waiting) == op);
        let wakers: Vec<_> = waits.map(|(.., pending)| pending.settle(Ready::default())).collect();
        self.ended.extend(wakers.iter().cloned().map(|waker| Ended { waker, _outcome: None }));
        wakers.len() + self.session.cancel(op)
    }

    pub(crate) fn shut_down(&mut self) {
        self.session.shutdown();
    }

    pub(crate) fn stop_receiving(&mut self) {
        self.session.stop_receiving();
    }

    /// Closes the socket, by its option at the latest.
    pub(crate) fn close(&mut self, now: Duration, pending: Option<Arc<Pending<Result<(), Error>>>>) {
        if self.is_closed {
            self.tell_closed(pending);
        } else {
            self.closing.extend(pending);
            self.session.close(now.saturating_add(self.objects.options.linger));
        }
    }

    /// Takes the completions that are there, and asks for an announcement of later ones.
    pub(crate) fn collect(&mut self, now: Duration) {
        let mut out = [Completion::EMPTY; BATCH];
        let mut is_armed = false;
        loop {
            let taken = self.objects.cq.poll(&mut out);
            for completion in &out[..taken] {
                self.handle(completion);
            }
            if taken > 0 {
                self.perform(now);
            } else if is_armed {
                return;
            } else {
                self.objects.cq.request_notification(false);
                is_armed = true;
            }
        }
    }

    /// Takes the end of the connection.
    pub(crate) fn handle_end(&mut self, reason: &DisconnectReason, now: Duration) {
        // What came before the end is there, and all that was posted has been flushed.
        self.collect(now);
        self.stage = Stage::Gone;
        self.requests.abandon().for_each(|op| self.session.handle_done(op, false));
        self.session.handle_loss(match reason {
            DisconnectReason::Peer => Loss::Fin,
            DisconnectReason::Lost if self.has_timed_out => Loss::TimedOut,
            _ => Loss::Reset,
        });
    }

    /// Returns when the link has something to do.
    pub(crate) fn next_time(&self) -> Option<Duration> {
        let draining = match self.stage {
            Stage::Draining(until) => Some(until),
            _ => None,
        };
        [self.session.poll_at(), draining].into_iter().flatten().min()
    }

    /// Returns whether nothing is left to be done.
    pub(crate) fn is_over(&self) -> bool {
        self.is_closed && self.stage == Stage::Gone && self.session.is_idle()
    }

    pub(crate) fn take_ended(&mut self) -> Vec<Ended> {
        core::mem::take(&mut self.ended)
    }

    /// Returns a window for an operation, if it needs one.
    ///
    /// # Errors
    /// [`RegisterError`].
    fn window(&mut self, direction: Direction, len: u32) -> Result<Option<Window>, RegisterError> {
        let is_needed = match (self.terms.kind, direction) {
            (Kind::Message, Direction::Send) => len > self.terms.immediate,
            (Kind::Stream, Direction::Receive { .. }) => len > 0,
            _ => false,
        };
        let new = || Window::new(&self.objects.pd);
        is_needed.then(|| self.windows.pop().map_or_else(new, Ok)).transpose()
    }

    /// Tells those who want to hear that the socket is closed.
    fn tell_closed(&mut self, closing: impl IntoIterator<Item = Arc<Pending<Result<(), Error>>>>) {
        let wakers = closing.into_iter().map(|pending| pending.settle(Ok(())));
        self.ended.extend(wakers.map(|waker| Ended { waker, _outcome: None }));
    }

    fn handle(&mut self, completion: &Completion) {
        let is_good = completion.status == Status::Success;
        let Some(slot) = slot_of(completion.wr_id) else {
            self.has_timed_out |= completion.status == Status::RetryExceeded;
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

    /// Takes back a slot that was handed out.
    pub(crate) fn recycle(&mut self, slot: u16) {
        self.session.recycle(slot);
    }

    /// Gives an operation's memory back to the user. Nothing that was posted names it.
    fn complete(&mut self, op: Op, result: Result<Outcome, Error>) {
        let Some(transfer) = self.transfers.remove(&op) else { return };
        let Transfer { area, window, direction, has_faulted, pending } = transfer;
        self.under_way[direction.index()] -= 1;
        self.windows.extend(window);
        // The memory is not in use any more when the user hears of the end.
        drop(area);
        let result = if has_faulted { Err(Error::Memory(RegisterError::Fault)) } else { result };
        let result = result.map(|outcome| Received { outcome, in_place: self.in_place(&outcome) });
        let waker = pending.end(result);
        self.ended.push(Ended { waker, _outcome: Some(pending) });
    }
}

impl Direction {
    const fn index(self) -> usize {
        match self {
            Self::Send => 0,
            Self::Receive { .. } => 1,
        }
    }
}

/// Operations of each direction at a time.
const MAX_OPERATIONS: usize = 64;
/// Completions that are polled at a time.
const BATCH: usize = 32;
