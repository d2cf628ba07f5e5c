//! The link of a socket: its session, and what carries it.
//!
//! A link is changed under its socket's lock, by `Endpoint::with`, which also does what
//! follows: it tells the time, performs the actions, and tells threads and tasks when the lock is free again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use weft_exs_core::{Loss, Op, Outcome, RecvRequest, Role, SendRequest, Terms};
use weft_rnic::{DisconnectReason, Qp, Stag, StreamingConnection};

use crate::error::Error;
use crate::in_place::Recycle;
use crate::memory::Area;
use crate::objects::Objects;
use crate::options::Options;
use crate::pending::{Pending, Settle};
use crate::ready::Ready;
use crate::window::Window;

mod asking;
mod calls;
mod performing;
mod plain;
mod rdma;
mod requests;

pub(crate) use asking::Status;
use calls::Calls;
pub(crate) use calls::{Direction, Ended};
use plain::Plain;
use rdma::{Rdma, Stage};

/// The session of a socket with what carries it, and the calls of its users.
#[derive(Debug)]
pub(crate) struct Link {
    calls: Calls,
    carrier: Carrier,
}

/// What carries the octets. Both kinds have a `session` with the same calls.
#[derive(Debug)]
enum Carrier {
    Rdma(Box<Rdma>),
    Plain(Box<Plain>),
}

/// Does the same with both kinds.
macro_rules! each {
    ($carrier:expr, $one:ident => $call:expr) => {
        match $carrier {
            $crate::link::Carrier::Rdma($one) => $call,
            $crate::link::Carrier::Plain($one) => $call,
        }
    };
}
use each;

impl Link {
    /// Makes the link of an initiator whose connection is established, or of a responder that is going to accept.
    pub(crate) fn new(role: Role, objects: Objects, terms: &Terms) -> Self {
        let calls = Calls::new(objects.options, objects.qp.addresses());
        Self { calls, carrier: Carrier::Rdma(Box::new(Rdma::new(role, objects, terms))) }
    }

    /// Makes the link of a socket over TCP alone, whose connection is open.
    pub(crate) fn plain(tcp: StreamingConnection, options: &Options) -> Self {
        let addresses = tcp.local().map(|local| [local, tcp.peer()]);
        Self { calls: Calls::new(*options, addresses), carrier: Carrier::Plain(Box::new(Plain::new(tcp))) }
    }

    /// Notes the socket, which takes slots back.
    pub(crate) fn recycles_to(&mut self, socket: Weak<dyn Recycle>) {
        if let Carrier::Rdma(rdma) = &mut self.carrier {
            rdma.socket = Some(socket);
        }
    }

    /// Returns the queue pair, if it has one.
    pub(crate) const fn qp(&self) -> Option<&Qp> {
        match &self.carrier {
            Carrier::Rdma(rdma) => Some(&rdma.objects.qp),
            Carrier::Plain(_) => None,
        }
    }

    /// Notes that the connection of a responder is established.
    pub(crate) fn open(&mut self) {
        if let Carrier::Rdma(rdma) = &mut self.carrier
            && rdma.stage == Stage::Starting
        {
            rdma.stage = Stage::Open;
            self.calls.addresses = rdma.objects.qp.addresses();
        }
    }

    /// Tells the session the time.
    pub(crate) fn tell(&mut self, now: Duration) {
        each!(&mut self.carrier, carrier => carrier.session.handle_time(now));
    }

    /// Starts an operation on octets of memory. Returns its name. If it cannot be started it ends at once.
    pub(crate) fn start(
        &mut self,
        area: Area,
        direction: Direction,
        pending: Arc<dyn Settle>,
        now: Duration,
    ) -> Op {
        let window = match &mut self.carrier {
            Carrier::Rdma(rdma) => rdma.window(direction, area.len),
            Carrier::Plain(_) => Ok(None),
        };
        let refused = window.as_ref().err().map(|error| Error::Memory(*error));
        let window = window.ok().flatten();
        let (len, to, elements) = (area.len, area.tagged_offset(), area.count());
        let stag = window.as_ref().map_or(Stag(0), Window::stag);
        let (op, has_room) = self.calls.begin((area, window), direction, pending);
        let options = &self.calls.options;
        let deadline = |timeout: Option<Duration>| timeout.map(|timeout| now.saturating_add(timeout));
        let refused = has_room.err().or(refused);
        let started = refused.map_or(Ok(()), Err).and_then(|()| match direction {
            Direction::Send => {
                let deadline = deadline(options.send_timeout);
                let request = SendRequest { op, len, elements, stag, to, deadline };
                each!(&mut self.carrier, carrier => carrier.session.send(request)).map_err(Error::from)
            }
            Direction::Receive { waits_for_all, is_in_place } => {
                let deadline = deadline(options.recv_timeout);
                let request = RecvRequest { op, len, is_in_place, waits_for_all, stag, to, deadline };
                each!(&mut self.carrier, carrier => carrier.session.receive(request)).map_err(Error::from)
            }
        });
        if let Err(error) = started {
            self.complete(op, Err(error));
        }
        op
    }

    pub(crate) fn cancel(&mut self, op: Option<Op>) -> usize {
        let waits = if op.is_some() { self.calls.end_waits(Ready::default(), op) } else { 0 };
        waits + each!(&mut self.carrier, carrier => carrier.session.cancel(op))
    }

    pub(crate) fn shut_down(&mut self) {
        each!(&mut self.carrier, carrier => carrier.session.shutdown());
    }

    pub(crate) fn stop_receiving(&mut self) {
        each!(&mut self.carrier, carrier => carrier.session.stop_receiving());
    }

    /// Closes the socket, by its option at the latest.
    pub(crate) fn close(&mut self, now: Duration, pending: Option<Arc<Pending<Result<(), Error>>>>) {
        if self.calls.await_close(pending) {
            let until = now.saturating_add(self.calls.options.linger);
            each!(&mut self.carrier, carrier => carrier.session.close(until));
        }
    }

    /// Returns whether the socket is closed, and all that it had to say is with the device.
    pub(crate) fn has_left(&self) -> bool {
        let is_out = match &self.carrier {
            Carrier::Rdma(rdma) => matches!(rdma.stage, Stage::Leaving | Stage::Gone),
            Carrier::Plain(_) => true,
        };
        self.calls.closed.is_some() && is_out
    }

    /// Ends the connection of a socket whose close is late: the peer hears of a reset, and not of an end. A peer whose
    /// TCP has acknowledged all octets has lost none.
    pub(crate) fn give_up(&mut self, _now: Duration) {
        let is_delivered = match &self.carrier {
            Carrier::Rdma(_) => false,
            Carrier::Plain(plain) => self.calls.under_way()[0] == 0 && plain.is_delivered(),
        };
        if !is_delivered {
            each!(&mut self.carrier, carrier => carrier.session.close(Duration::ZERO));
        }
    }

    /// Takes what the device has announced.
    pub(crate) fn collect(&mut self, now: Duration) {
        match &mut self.carrier {
            Carrier::Rdma(rdma) => rdma.collect(&mut self.calls, now),
            Carrier::Plain(plain) => plain.session.handle_ready(),
        }
    }

    /// Does all that the session wants, as far as there is room.
    pub(crate) fn perform(&mut self, now: Duration) {
        match &mut self.carrier {
            Carrier::Rdma(rdma) => rdma.perform(&mut self.calls, now),
            Carrier::Plain(plain) => plain.perform(&mut self.calls),
        }
    }

    /// Takes the end of the connection.
    pub(crate) fn handle_end(&mut self, reason: &DisconnectReason, now: Duration) {
        match &mut self.carrier {
            Carrier::Rdma(rdma) => rdma.handle_end(reason, &mut self.calls, now),
            Carrier::Plain(plain) => plain.session.handle_loss(Loss::Reset),
        }
    }

    /// Returns when the link has something to do.
    pub(crate) fn next_time(&self, now: Duration) -> Option<Duration> {
        match &self.carrier {
            Carrier::Rdma(rdma) => rdma.next_time(),
            Carrier::Plain(plain) if plain.has_more => Some(now),
            Carrier::Plain(plain) => plain.session.poll_at(),
        }
    }

    /// Returns whether nothing is left to be done.
    pub(crate) fn is_over(&self) -> bool {
        let is_gone = match &self.carrier {
            Carrier::Rdma(rdma) => rdma.stage == Stage::Gone,
            Carrier::Plain(_) => true,
        };
        self.calls.closed.is_some() && is_gone && each!(&self.carrier, carrier => carrier.session.is_idle())
    }

    pub(crate) fn take_ended(&mut self) -> impl Iterator<Item = Ended> {
        self.calls.take_ended()
    }

    /// Takes back a slot that was handed out.
    pub(crate) fn recycle(&mut self, slot: u16) {
        if let Carrier::Rdma(rdma) = &mut self.carrier {
            rdma.session.recycle(slot);
        }
    }

    fn complete(&mut self, op: Op, result: Result<Outcome, Error>) {
        match &mut self.carrier {
            Carrier::Rdma(rdma) => rdma.complete(op, result, &mut self.calls),
            Carrier::Plain(_) => _ = self.calls.complete(op, result, |_| None),
        }
    }
}
