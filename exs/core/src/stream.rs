//! A stream (SOCK_STREAM): the two directions of a socket, as [`push`](crate::push) has them, and the user's
//! operations.
//!
//! DATA is a burst of requests: up to two Writes and a Send, all of which gather octets of the user's memory. A send
//! completes when the last Send of its octets has, since the requests of a send queue complete in order. A receive
//! completes at once, whatever is posted: taking its window out of use takes a Bind with it that was not carried out.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use weft_ddp::Stag;

use crate::action::{Action, Cause, Place};
use crate::fault::Fault;
use crate::message::Body;
use crate::op::{Mode, Op, OpError, Outcome, RecvRequest, SendRequest};
use crate::pull::Draft;
use crate::push::{
    Control, Local, Part, Place as End, Received, Receiver, ReceiverTerms, Sender, SenderTerms, Wait, Way,
    Window, Write,
};
use crate::stats::{Counted, Credits, Stall};
use crate::terms::Terms;

/// Both directions of a socket for a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stream {
    sender: Sender,
    receiver: Receiver,
    /// Sends with a deadline that have not ended.
    deadlines: Vec<(Op, Duration)>,
    /// Receives that have not ended, in order.
    receives: VecDeque<Receiving>,
    /// The parts of the DATA that is made. Empty but while it is.
    parts: Vec<Part>,
    /// The last message was the receiver's: the next one is the sender's, if there is one.
    is_senders_turn: bool,
    pub(crate) stale_adverts: Counted<u64>,
    /// DATA of which the Send was flushed.
    flushed: usize,
    /// The connection has ended, and everything that is left ends so.
    ended: Option<OpError>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Receiving {
    /// With the STag for the next time that the window is bound.
    request: RecvRequest,
    /// How it ends if it is canceled.
    error: OpError,
}

impl Stream {
    pub(crate) fn new(terms: &Terms) -> Self {
        let Terms { immediate: inline_max, direct_min, ring, peer_ring, .. } = *terms;
        let part = |len: u32| (len / 4).max(1);
        Self {
            sender: Sender::new(SenderTerms {
                ring: peer_ring,
                ring_part: part(peer_ring.map_or(0, |ring| ring.len)),
                inline_max,
                direct_min,
                adverts: terms.recv_credits.into(),
            }),
            receiver: Receiver::new(ReceiverTerms {
                ring,
                ring_part: part(ring),
                adverts: terms.send_credits.into(),
                small: inline_max,
            }),
            deadlines: Vec::new(),
            receives: VecDeque::new(),
            parts: Vec::new(),
            is_senders_turn: false,
            stale_adverts: Counted::default(),
            flushed: 0,
            ended: None,
        }
    }

    pub(crate) fn send(&mut self, request: SendRequest, actions: &mut VecDeque<Action>) {
        let SendRequest { op, len, elements, deadline, .. } = request;
        self.deadlines.extend(deadline.map(|deadline| (op, deadline)));
        self.sender.send(op, len, elements);
        self.finish_sends(actions);
    }

    pub(crate) fn receive(&mut self, request: RecvRequest, actions: &mut VecDeque<Action>) {
        let RecvRequest { op, len, waits_for_all, .. } = request;
        let error = self.ended.unwrap_or(OpError::Canceled);
        self.receives.push_back(Receiving { request, error });
        self.receiver.receive(op, len, waits_for_all);
        if self.ended.is_some() {
            // The receive ends with the octets that came before the loss.
            self.receiver.abandon();
        }
        self.act(None, actions);
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
            _ if invalidated.is_some() => return Err(Fault::NotOut),
            Body::Credit => {}
            Body::Data(data) => self.receiver.handle_data(data)?,
            Body::Advert(advert) => {
                let is_taken = self.sender.handle_advert(*advert)?;
                self.stale_adverts.0 += u64::from(!is_taken);
            }
            Body::Free { read } => self.sender.handle_free(*read)?,
            Body::Revoke { epoch } => self.sender.handle_revoke(*epoch)?,
            Body::Shutdown { end } => self.receiver.handle_shutdown(*end)?,
            Body::Msg(_) | Body::Ack(_) | Body::Abort(_) => return Err(Fault::WrongState),
        }
        self.act(Some(slot), actions);
        Ok(slot)
    }

    /// Takes the completion of the Send of the oldest DATA.
    pub(crate) fn handle_done(&mut self, ok: bool, actions: &mut VecDeque<Action>) {
        if ok {
            self.sender.handle_left();
        } else {
            self.flushed += 1;
        }
        self.finish_sends(actions);
    }

    /// Ends operations whose time is over. Returns true if that of a send is over that is on the wire.
    #[must_use]
    pub(crate) fn expire(&mut self, now: Duration, actions: &mut VecDeque<Action>) -> bool {
        let is_over = |deadline: Option<Duration>| deadline.is_some_and(|deadline| deadline <= now);
        self.cancel_receives_that(OpError::TimedOut, |request| is_over(request.deadline), actions);
        let over = self.deadlines.iter().filter(|(_, deadline)| *deadline <= now).map(|(op, _)| *op);
        let over: Vec<Op> = over.collect();
        over.into_iter().any(|op| !self.cancel_send(op, OpError::TimedOut, actions))
    }

    /// Ends an operation, or all: sends of which nothing is on the wire, and receives that nothing has filled. Returns
    /// how many have begun to end.
    pub(crate) fn cancel(&mut self, op: Option<Op>, actions: &mut VecDeque<Action>) -> usize {
        let is_chosen = |one| op.is_none_or(|op| op == one);
        let sends: Vec<Op> = self.sender.ops().filter(|op| is_chosen(*op)).collect();
        let sends = sends.into_iter().filter(|op| self.cancel_send(*op, OpError::Canceled, actions)).count();
        sends + self.cancel_receives_that(OpError::Canceled, |request| is_chosen(request.op), actions)
    }

    /// Ends the receives that nothing has filled.
    pub(crate) fn cancel_receives(&mut self, actions: &mut VecDeque<Action>) {
        self.cancel_receives_that(OpError::Canceled, |_| true, actions);
    }

    /// Takes nothing more from now on.
    pub(crate) fn stop_receiving(&mut self, actions: &mut VecDeque<Action>) {
        self.receiver.shut_down();
        self.act(None, actions);
    }

    /// Ends all operations as soon as nothing posted can reach their memory.
    pub(crate) fn end(&mut self, cause: Cause, actions: &mut VecDeque<Action>) {
        self.ended = Some(cause.error());
        self.receives.iter_mut().for_each(|receiving| receiving.error = cause.error());
        self.receiver.abandon();
        self.act(None, actions);
        self.finish_sends(actions);
    }

    /// Returns the next message, and puts what has to be posted in front of it into `actions`. There is a place for it.
    pub(crate) fn poll_message(&mut self, actions: &mut VecDeque<Action>) -> Option<Draft> {
        if core::mem::take(&mut self.is_senders_turn)
            && let Some(draft) = self.poll_data(actions)
        {
            return Some(draft);
        }
        let Some(control) = self.receiver.poll_control() else { return self.poll_data(actions) };
        self.is_senders_turn = true;
        let body = match control {
            Control::Free { read } => Body::Free { read },
            Control::Revoke { epoch } => Body::Revoke { epoch },
            Control::Advert(window) => self.bind(&window, actions)?,
        };
        Some(Draft { body, payload: None, invalidate: None, op: None })
    }

    /// Returns how many octets have been sent, if all are that were started.
    pub(crate) fn end_of_sends(&self) -> Option<u64> {
        self.sender.end()
    }

    /// Returns whether all octets of this side have left for TCP, and the peer sends no more.
    pub(crate) fn is_done(&self) -> bool {
        !self.has_sends() && self.receiver.has_ended()
    }

    /// Returns whether no operation is left.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_sends() && self.receives.is_empty()
    }

    /// Returns whether sends are under way.
    pub(crate) fn has_sends(&self) -> bool {
        self.sender.ops().next().is_some()
    }

    /// Returns whether there is something for receives when the connection has ended: octets, or the peer's SHUTDOWN.
    pub(crate) const fn has_left(&self) -> bool {
        self.receiver.unread() > 0 || self.receiver.has_ended()
    }

    /// Returns whether there are octets that the user has not read.
    pub(crate) const fn has_unread(&self) -> bool {
        self.receiver.unread() > 0
    }

    pub(crate) fn credits(&self) -> Credits {
        Credits { adverts: self.sender.adverts(), ring: self.sender.ring(), ..Credits::default() }
    }

    /// Returns what sends wait for, if the peer takes Sends.
    pub(crate) fn stall(&self) -> Option<Stall> {
        self.sender.wait().map(|wait| match wait {
            Wait::Advert => Stall::Advert,
            Wait::Ring => Stall::Ring,
        })
    }

    pub(crate) const fn is_readable(&self) -> bool {
        self.receiver.is_readable()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.sender.is_writable()
    }

    pub(crate) fn poll_at(&self) -> Option<Duration> {
        let receives = self.receives.iter().filter_map(|receiving| receiving.request.deadline);
        self.deadlines.iter().map(|(_, deadline)| *deadline).chain(receives).min()
    }

    /// Takes a send back of which nothing is on the wire.
    fn cancel_send(&mut self, op: Op, error: OpError, actions: &mut VecDeque<Action>) -> bool {
        let is_canceled = self.sender.cancel(op);
        if is_canceled {
            self.complete_send(op, Err(error), actions);
            // Sends of no octets may have their turn now.
            self.finish_sends(actions);
        }
        is_canceled
    }

    fn cancel_receives_that(
        &mut self,
        error: OpError,
        is_chosen: impl Fn(&RecvRequest) -> bool,
        actions: &mut VecDeque<Action>,
    ) -> usize {
        let mut canceled = 0;
        for receiving in self.receives.iter_mut().filter(|receiving| is_chosen(&receiving.request)) {
            // It ends in any case, also if it was canceled before, or this side reads no more.
            receiving.request.deadline = None;
            if self.receiver.cancel(receiving.request.op) {
                receiving.error = error;
                canceled += 1;
            }
        }
        self.act(None, actions);
        canceled
    }

    /// Returns the next DATA. Its requests gather its octets.
    fn poll_data(&mut self, actions: &mut VecDeque<Action>) -> Option<Draft> {
        let transfer = self.sender.poll_transfer(&mut self.parts)?;
        let op = self.parts.last().map(|part| part.op);
        let mut parts = self.parts.drain(..);
        if transfer.data.is_inline {
            actions.extend(parts.map(gather));
        } else {
            let mut rest: Option<Part> = None;
            for Write { stag, to, len } in transfer.writes.into_iter().flatten() {
                let mut wanted = len;
                while wanted > 0
                    && let Some(part) = rest.take().or_else(|| parts.next())
                {
                    let now = part.len.min(wanted);
                    wanted -= now;
                    actions.push_back(gather(Part { len: now, ..part }));
                    rest = Some(Part { at: part.at + now, len: part.len - now, ..part })
                        .filter(|rest| rest.len > 0);
                }
                actions.push_back(Action::Write { stag, to, len });
            }
        }
        Some(Draft { body: Body::Data(transfer.data), payload: None, invalidate: None, op })
    }

    /// Binds the window of a receive, each time with another key.
    fn bind(&mut self, window: &Window, actions: &mut VecDeque<Action>) -> Option<Body> {
        let &Window { op, at, len, .. } = window;
        let receiving = self.receives.iter_mut().find(|receiving| receiving.request.op == op)?;
        let RecvRequest { stag, to, .. } = receiving.request;
        let [block @ .., key] = stag.0.to_be_bytes();
        let [a, b, c] = block;
        receiving.request.stag = Stag(u32::from_be_bytes([a, b, c, key.wrapping_add(1)]));
        actions.push_back(Action::BindPart { op, at, len, stag });
        Some(Body::Advert(window.advert(stag, to.wrapping_add(at.into()))))
    }

    /// Completes sends that have left, and all that are left when the connection has ended.
    fn finish_sends(&mut self, actions: &mut VecDeque<Action>) {
        while let Some(sent) = self.sender.poll_sent() {
            let outcome = Outcome { octets: sent.octets, message_len: sent.octets, mode: mode(sent.way) };
            self.complete_send(sent.op, Ok(outcome), actions);
        }
        if let Some(error) = self.ended
            && self.sender.out() == self.flushed
        {
            self.flushed = 0;
            self.deadlines.clear();
            actions.extend(self.sender.abandon().map(|op| Action::Complete { op, result: Err(error) }));
        }
    }

    fn complete_send(&mut self, op: Op, result: Result<Outcome, OpError>, actions: &mut VecDeque<Action>) {
        self.deadlines.retain(|(one, _)| *one != op);
        actions.push_back(Action::Complete { op, result });
    }

    /// Does what the receiver asks for. This slot has the last message.
    fn act(&mut self, slot: Option<u16>, actions: &mut VecDeque<Action>) {
        let place = |end| match end {
            End::Slot { at } => slot.map(|slot| Place::Slot { slot, at }),
            End::Ring { at } => Some(Place::Ring { at }),
            End::Receive { op, at } => Some(Place::Memory { op, at }),
        };
        while let Some(local) = self.receiver.poll_local() {
            match local {
                Local::Unbind { op } => actions.push_back(Action::Revoke { op }),
                Local::Copy { from, to, len } => {
                    let places = place(from).zip(place(to));
                    actions.extend(places.map(|(from, to)| Action::Copy { from, to, len }));
                }
                Local::Done(received) => self.complete_receive(&received, actions),
            }
        }
    }

    fn complete_receive(&mut self, received: &Received, actions: &mut VecDeque<Action>) {
        let &Received { op, octets, is_canceled, way } = received;
        let at = self.receives.iter().position(|receiving| receiving.request.op == op);
        let Some(receiving) = at.and_then(|at| self.receives.remove(at)) else { return };
        let result = if is_canceled {
            Err(receiving.error)
        } else if octets == 0 && receiving.request.len > 0 {
            Ok(Outcome::END)
        } else {
            Ok(Outcome { octets, message_len: octets, mode: mode(way) })
        };
        actions.push_back(Action::Complete { op, result });
    }
}

fn gather(part: Part) -> Action {
    let Part { op, at, len } = part;
    Action::Gather { op, at, len }
}

fn mode(way: Way) -> Mode {
    match way {
        Way::Direct => Mode::Direct,
        Way::Inline => Mode::Inline,
        Way::Ring => Mode::Ring,
    }
}
