//! Messages (SOCK_SEQPACKET): the receiver pulls them out of the sender's memory.
//!
//! ```text
//! sender                              receiver
//!   send: bind a window, MSG ─────────► the next receive: Read into its memory
//!   complete, window out of use ◄───── ACK, with the STag invalidated; complete
//!
//!   send, short: MSG with octets ─────► copied into the next receive, or handed out in the slot
//!   complete ◄───────────────────────── ACK, one for many
//! ```
//!
//! MSGs, Reads, ACKs and successes are each in the order of the sends. A sender has at most so many MSGs without ACK as
//! the receiver takes: the octets of those that nobody has received lie in slots, or still at the sender.
//!
//! An operation completes only when no posted request can reach its memory any more. An ACK alone does not tell that: a
//! peer may send it before it has received anything.

mod receiver;
mod sender;

use alloc::collections::VecDeque;
use core::time::Duration;

use weft_ddp::Stag;

use crate::action::{Action, Cause};
use crate::fault::Fault;
use crate::message::{Body, Message};
use crate::op::{Op, OpError, RecvRequest, SendRequest};
use crate::stats::{Credits, Stall};
use crate::terms::Terms;
use receiver::Receiver;
use sender::Sender;

/// Both halves of a socket for messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pull {
    sender: Sender,
    receiver: Receiver,
    /// The peer's STags may be invalidated.
    invalidates: bool,
    /// The last message was an ACK: the next one is a MSG, if there is one.
    is_msgs_turn: bool,
}

/// A message to be sent, without its limit: what [`Outgoing`](crate::Outgoing) has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft {
    pub(crate) body: Body,
    pub(crate) payload: Option<Op>,
    pub(crate) invalidate: Option<Stag>,
    pub(crate) op: Option<Op>,
}

impl Pull {
    pub(crate) fn new(terms: &Terms) -> Self {
        let (sender, receiver) = (Sender::new(terms), Receiver::new(terms));
        Self { sender, receiver, invalidates: terms.invalidates, is_msgs_turn: false }
    }

    pub(crate) fn send(&mut self, request: SendRequest) {
        self.sender.start(request);
    }

    pub(crate) fn receive(&mut self, request: RecvRequest, actions: &mut VecDeque<Action>) {
        self.receiver.start(request, actions);
    }

    /// Takes a message that has come in this slot, with this STag taken out of use. Returns the slot that is to be
    /// posted in its place.
    ///
    /// # Errors
    /// The peer's fault.
    pub(crate) fn handle(
        &mut self,
        body: &Body,
        (slot, invalidated): (u16, Option<Stag>),
        actions: &mut VecDeque<Action>,
    ) -> Result<u16, Fault> {
        match body {
            Body::Ack(ack) => self.sender.handle_ack(*ack, invalidated, actions).map(|()| slot),
            _ if invalidated.is_some() => Err(Fault::NotOut),
            Body::Msg(msg) => self.receiver.handle_msg(msg, slot, actions),
            Body::Shutdown { end } => self.receiver.handle_shutdown(*end, actions).map(|()| slot),
            Body::Credit => Ok(slot),
            _ => Err(Fault::WrongState),
        }
    }

    /// Takes the completion of something posted for an operation.
    pub(crate) fn handle_done(&mut self, op: Op, ok: bool, actions: &mut VecDeque<Action>) {
        if !self.sender.handle_done(op, actions) {
            self.receiver.handle_done(op, ok, actions);
        }
    }

    /// Ends operations whose time is over. Returns true if that of a message is over that the peer knows.
    #[must_use]
    pub(crate) fn expire(&mut self, now: Duration, actions: &mut VecDeque<Action>) -> bool {
        let is_over = |_, deadline: Option<Duration>| deadline.is_some_and(|deadline| deadline <= now);
        self.sender.cancel(is_over, OpError::TimedOut, actions);
        self.receiver.cancel(is_over, OpError::TimedOut, actions);
        self.sender.has_expired(now)
    }

    /// Ends an operation, or all, if the peer does not know of them. Returns how many.
    pub(crate) fn cancel(&mut self, op: Option<Op>, actions: &mut VecDeque<Action>) -> usize {
        let is_chosen = |one, _| op.is_none_or(|op| op == one);
        self.sender.cancel(is_chosen, OpError::Canceled, actions)
            + self.receiver.cancel(is_chosen, OpError::Canceled, actions)
    }

    /// Ends the receives that no message has met.
    pub(crate) fn cancel_receives(&mut self, actions: &mut VecDeque<Action>) {
        self.receiver.cancel(|_, _| true, OpError::Canceled, actions);
    }

    pub(crate) fn recycle(&mut self, slot: u16) -> bool {
        self.receiver.recycle(slot)
    }

    /// Takes nothing more from now on.
    pub(crate) fn stop_receiving(&mut self, actions: &mut VecDeque<Action>) {
        self.receiver.stop(actions);
    }

    /// Ends all operations as soon as nothing posted can reach their memory.
    pub(crate) fn end(&mut self, cause: Cause, actions: &mut VecDeque<Action>) {
        self.sender.end(cause.error(), actions);
        self.receiver.end(cause, actions);
    }

    /// Returns the next request that is no message. If `may_send`, there is a place for a message.
    pub(crate) fn poll_work(&mut self, may_send: bool) -> Option<Action> {
        let read = self.receiver.poll_read();
        read.or_else(|| if may_send { self.sender.poll_bind().map(|op| Action::Bind { op }) } else { None })
    }

    /// Returns the next message. There is a place for it.
    pub(crate) fn poll_message(&mut self) -> Option<Draft> {
        let is_msgs_turn = core::mem::take(&mut self.is_msgs_turn);
        if is_msgs_turn && let Some(draft) = self.poll_msg() {
            return Some(draft);
        }
        let Some((ack, stag)) = self.receiver.poll_ack() else { return self.poll_msg() };
        self.is_msgs_turn = true;
        let invalidate = stag.filter(|_| self.invalidates);
        Some(Draft { body: Body::Ack(ack), payload: None, invalidate, op: None })
    }

    /// Returns how many messages have been sent, if all are that were started.
    pub(crate) fn end_of_sends(&self) -> Option<u64> {
        self.sender.is_drained().then(|| self.sender.sent())
    }

    /// Returns whether all messages of both sides have been acknowledged, and the peer sends no more.
    pub(crate) fn is_done(&self) -> bool {
        self.sender.is_empty() && self.receiver.is_done()
    }

    /// Returns whether no operation is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.sender.is_empty() && self.receiver.is_empty()
    }

    /// Returns whether sends are under way.
    pub(crate) fn has_sends(&self) -> bool {
        !self.sender.is_empty()
    }

    /// Returns whether there is something for receives when the connection has ended. There is not: the sender of a
    /// message has heard that it has failed.
    #[expect(clippy::unused_self, reason = "a stream has the same call")]
    pub(crate) const fn has_left(&self) -> bool {
        false
    }

    /// Returns whether there are octets that the user has not read, or not given back.
    pub(crate) fn has_unread(&self) -> bool {
        self.receiver.has_unread()
    }

    pub(crate) fn credits(&self) -> Credits {
        Credits { messages: self.sender.credits(), ..Credits::default() }
    }

    /// Returns what messages wait for, if the peer takes Sends.
    pub(crate) fn stall(&self) -> Option<Stall> {
        self.sender.has_no_credit().then_some(Stall::Advert)
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.receiver.is_readable()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.sender.is_writable()
    }

    pub(crate) fn poll_at(&self) -> Option<Duration> {
        [self.sender.poll_at(), self.receiver.poll_at()].into_iter().flatten().min()
    }

    fn poll_msg(&mut self) -> Option<Draft> {
        let (msg, op) = self.sender.poll_msg()?;
        let body = Body::Msg(msg);
        let payload = Some(op).filter(|_| Message { limit: 0, body }.payload_len() > 0);
        Some(Draft { body, payload, invalidate: None, op: Some(op) })
    }
}
