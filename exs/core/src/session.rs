//! A connected socket: what its user wants, what the peer says, and what is to be done.
//!
//! The caller owns the device: slots, queues, windows and the user's memory. It tells a session of calls, of messages
//! and of completions, and then does what [`Session::poll`] returns until that returns nothing. A session never looks
//! at memory. All that it knows comes from calls and from the octets of messages, which nobody can change any more.

use alloc::collections::VecDeque;
use core::time::Duration;

use weft_ddp::Stag;

use crate::action::{Action, Cause, Outgoing};
use crate::fault::Fault;
use crate::flow::{Flow, each};
use crate::message::{Body, Message};
use crate::op::{Op, OpError, RecvRequest, SendRequest};
use crate::pull::Draft;
use crate::shutdown::Shutdown;
use crate::stats::{Counted, Stall, Stats};
use crate::terms::Terms;
use crate::window::Window;

mod closing;
mod told;

/// A connected socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    role: Role,
    window: Window,
    flow: Flow,
    actions: VecDeque<Action>,
    /// The last time that the caller has told.
    now: Duration,
    /// The initiator's first message has been sent, or has come.
    is_greeted: bool,
    shutdown: Shutdown,
    close: Close,
    /// What the close has not done, if it was the close that waited for it.
    close_error: Counted<Option<OpError>>,
    ended: Option<Cause>,
    stats: Counted<Stats>,
    /// What sends wait for, as it was counted last.
    stall: Counted<Option<Stall>>,
}

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It has connected. It speaks first, and closes the connection.
    Initiator,
    /// It has accepted. It is silent until the first message has come.
    Responder,
}

/// How the network has ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The peer has closed it.
    Fin,
    /// RST or Terminate, or an error of a request that no other event explains.
    Reset,
    /// TCP gave up.
    TimedOut,
}

/// How far a close has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Close {
    Open,
    /// Waits for the peer's SHUTDOWN and for all ACKs, until this time.
    Lingering(Duration),
    /// All is done. Waits for the initiator's FIN until this time.
    Quiet(Duration),
    /// The caller has been told.
    Told,
}

impl Session {
    /// Makes the session of a connection. Its first actions post the slots 0 to WINDOW - 1.
    ///
    /// The caller has as many slots as [`Terms::window`] and [`Terms::recv_credits`] together; for a stream, as
    /// [`Terms::window`].
    #[must_use]
    pub fn new(role: Role, terms: &Terms) -> Self {
        Self {
            role,
            window: Window::new(terms.window, terms.peer_window),
            flow: Flow::new(terms),
            actions: (0..terms.window).map(|slot| Action::Recv { slot }).collect(),
            now: Duration::ZERO,
            is_greeted: false,
            shutdown: Shutdown::Open,
            close: Close::Open,
            close_error: Counted::default(),
            ended: None,
            stats: Counted::default(),
            stall: Counted::default(),
        }
    }

    /// Starts to send a message, or octets of a stream.
    ///
    /// # Errors
    /// The operation is not started: [`OpError::Shutdown`] after [`Self::shutdown`], or why the connection has ended.
    pub fn send(&mut self, request: SendRequest) -> Result<(), OpError> {
        match self.ended {
            Some(cause) => Err(cause.error()),
            None if self.shutdown != Shutdown::Open => Err(OpError::Shutdown),
            None => {
                match &mut self.flow {
                    Flow::Messages(pull) => pull.send(request),
                    Flow::Stream(stream) => stream.send(request, &mut self.actions),
                }
                Ok(())
            }
        }
    }

    /// Starts to receive a message, or octets of a stream.
    ///
    /// # Errors
    /// The receive is not started: [`OpError::Shutdown`] after [`Self::close`], or why the connection has ended. A
    /// clean end is no error, but a receive of no octets. Octets of a stream that came before the connection was lost
    /// are received first, and the peer's SHUTDOWN behind them stays a clean end.
    pub fn receive(&mut self, request: RecvRequest) -> Result<(), OpError> {
        match self.ended {
            _ if self.close != Close::Open => Err(OpError::Shutdown),
            Some(cause) if !self.outlasts(cause) => Err(cause.error()),
            _ => {
                each!(&mut self.flow, flow => flow.receive(request, &mut self.actions));
                Ok(())
            }
        }
    }

    /// Cancels an operation, or all. Returns how many end so: messages that the peer does not know of, and receives
    /// that no message has met; of a stream, sends of which nothing is on the wire, and all receives. A receive that
    /// the peer knows of ends when the peer has given it up. Until then octets may come, with which it completes.
    pub fn cancel(&mut self, op: Option<Op>) -> usize {
        each!(&mut self.flow, flow => flow.cancel(op, &mut self.actions))
    }

    /// Takes back a slot that [`Mode::InPlace`](crate::Mode::InPlace) has handed out. Returns whether it was.
    pub fn recycle(&mut self, slot: u16) -> bool {
        match &mut self.flow {
            Flow::Messages(pull) => pull.recycle(slot),
            Flow::Stream(_) => false,
        }
    }

    /// Sends nothing more behind what was started.
    pub fn shutdown(&mut self) {
        if self.shutdown == Shutdown::Open {
            self.shutdown = Shutdown::Wanted;
        }
    }

    /// Receives nothing more: what comes is not taken.
    pub fn stop_receiving(&mut self) {
        each!(&mut self.flow, flow => flow.stop_receiving(&mut self.actions));
    }

    /// Takes a message that has come in this slot, with this STag taken out of use.
    pub fn handle_message(&mut self, slot: u16, octets: &[u8], invalidated: Option<Stag>) {
        if self.ended.is_some() {
            return;
        }
        match self.take(slot, octets, invalidated) {
            Ok(slot) if self.ended.is_none() => self.actions.push_back(Action::Recv { slot }),
            Ok(_) => {}
            Err(fault) => self.end(Cause::Fault(fault), Some(fault)),
        }
    }

    /// Takes the completion of something posted for an operation: of a Bind, a Read, or a Send that has named it. One
    /// that is not `ok` was flushed, or ends the connection, of which [`Self::handle_loss`] tells.
    pub fn handle_done(&mut self, op: Op, ok: bool) {
        match &mut self.flow {
            Flow::Messages(pull) => pull.handle_done(op, ok, &mut self.actions),
            Flow::Stream(stream) => stream.handle_done(ok, &mut self.actions),
        }
    }

    /// Takes the end of the connection. The caller has told all messages and completions that came before: without
    /// those, the peer's FIN is no clean end.
    pub fn handle_loss(&mut self, loss: Loss) {
        let cause = match loss {
            Loss::Fin if self.is_quiet() => Cause::Closed,
            Loss::Fin | Loss::Reset => Cause::Reset,
            Loss::TimedOut => Cause::TimedOut,
        };
        self.end(cause, None);
    }

    /// Takes the time since an origin that the caller chooses. The caller tells it before anything else of a turn.
    pub fn handle_time(&mut self, now: Duration) {
        self.now = now;
        if self.ended.is_some() {
            return;
        }
        if each!(&mut self.flow, flow => flow.expire(now, &mut self.actions)) {
            self.end(Cause::TimedOut, Some(Fault::UnreadData));
        }
        match self.close {
            Close::Lingering(until) if until <= now => self.end(Cause::TimedOut, Some(Fault::UnreadData)),
            Close::Quiet(until) if until <= now => self.end(Cause::Closed, None),
            _ => {}
        }
    }

    /// Returns what is to be done next. Bind, BindPart, Write, Read and Send take one entry of the send queue each.
    /// There is `room` if three are free: up to two Writes and a Send belong together. Without it, nothing of that is
    /// begun.
    pub fn poll(&mut self, room: bool) -> Option<Action> {
        if self.actions.is_empty() {
            self.settle();
        }
        let action = self.actions.pop_front();
        if action.is_some() || !room || self.ended.is_some() { action } else { self.poll_post() }
    }

    /// Returns when [`Self::handle_time`] has something to do.
    #[must_use]
    pub fn poll_at(&self) -> Option<Duration> {
        let close = match self.close {
            Close::Lingering(until) | Close::Quiet(until) => Some(until),
            Close::Open | Close::Told => None,
        };
        let times = [close, each!(&self.flow, flow => flow.poll_at())];
        times.into_iter().flatten().min().filter(|_| self.ended.is_none())
    }

    /// Returns whether a receive that is started now ends without further messages of the peer.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.ended.is_some() || self.close != Close::Open || each!(&self.flow, flow => flow.is_readable())
    }

    /// Returns whether a message or octets of a send that is started now go out at once, as far as this depends on the
    /// peer's user, or the send is refused.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.ended.is_some()
            || self.shutdown != Shutdown::Open
            || each!(&self.flow, flow => flow.is_writable())
    }

    /// Returns why the connection has ended.
    #[must_use]
    pub const fn ended(&self) -> Option<Cause> {
        self.ended
    }

    /// Returns whether no operation is left.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        each!(&self.flow, flow => flow.is_empty()) && self.actions.is_empty()
    }

    /// Takes a message. Returns the slot that is to be posted in its place.
    fn take(&mut self, slot: u16, octets: &[u8], invalidated: Option<Stag>) -> Result<u16, Fault> {
        let (message, _) = Message::parse(octets)?;
        self.window.handle_send(message.limit)?;
        if self.role == Role::Responder && !self.is_greeted {
            self.is_greeted = true;
            if message.body != Body::Credit {
                return Err(Fault::WrongState);
            }
        }
        if let Body::Abort(fault) = message.body {
            self.end(if fault == Fault::UnreadData { Cause::Reset } else { Cause::Blamed(fault) }, None);
            return Ok(slot);
        }
        let slot = each!(&mut self.flow, flow => {
            flow.handle(&message.body, (slot, invalidated), &mut self.actions)?
        });
        self.stats.0.received.count(&message.body);
        Ok(slot)
    }

    /// Returns the next request for the send queue.
    fn poll_post(&mut self) -> Option<Action> {
        if !self.is_greeted {
            self.is_greeted = self.role == Role::Initiator;
            return self.is_greeted.then(|| self.message(Body::Credit));
        }
        let may_send = self.window.may_send();
        if self.is_quiet() {
            return None;
        }
        if let Flow::Messages(pull) = &mut self.flow
            && let Some(work) = pull.poll_work(may_send)
        {
            return Some(work);
        }
        if may_send {
            let draft = match &mut self.flow {
                Flow::Messages(pull) => pull.poll_message(),
                Flow::Stream(stream) => stream.poll_message(&mut self.actions),
            };
            if let Some(Draft { body, payload, invalidate, op }) = draft {
                self.stats.0.count_sent(&body);
                let message = Message { limit: self.window.send(), body };
                self.actions.push_back(Action::Send(Outgoing { message, payload, invalidate, op }));
                return self.actions.pop_front();
            }
            if self.shutdown == Shutdown::Wanted
                && let Some(end) = each!(&self.flow, flow => flow.end_of_sends())
            {
                self.shutdown = Shutdown::Sent;
                return Some(self.message(Body::Shutdown { end }));
            }
        }
        self.note_stall(may_send);
        let owes = self.window.owes() && self.window.may_send_credit();
        owes.then(|| self.message(Body::Credit))
    }

    /// Counts a wait of the sends that were started, if it has begun now.
    fn note_stall(&mut self, may_send: bool) {
        let stall = match each!(&self.flow, flow => flow.end_of_sends()) {
            Some(_all_are_out) => None,
            None if !may_send => Some(Stall::Window),
            None => each!(&self.flow, flow => flow.stall()),
        };
        if stall != self.stall.0 {
            stall.into_iter().for_each(|stall| self.stats.0.count_stall(stall));
            self.stall.0 = stall;
        }
    }

    fn end(&mut self, cause: Cause, fault: Option<Fault>) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(cause);
        self.note_close(cause);
        let is_told = self.is_greeted && self.window.may_send_credit();
        let abort = fault.filter(|_| is_told).map(|fault| {
            let limit = self.window.send();
            Message { limit, body: Body::Abort(fault) }
        });
        self.actions.push_back(Action::End { cause, abort });
        each!(&mut self.flow, flow => flow.end(cause, &mut self.actions));
    }

    fn message(&mut self, body: Body) -> Action {
        let message = Message { limit: self.window.send(), body };
        Action::Send(Outgoing { message, payload: None, invalidate: None, op: None })
    }

    /// Returns whether both sides have said that nothing more comes, and all messages have been acknowledged.
    fn is_quiet(&self) -> bool {
        self.shutdown == Shutdown::Sent && each!(&self.flow, flow => flow.is_done())
    }
}
