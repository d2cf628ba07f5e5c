//! A stream over TCP alone, to a peer without EXS: the user's operations, and which octets go where.
//!
//! It has the calls of a [`Session`](crate::Session), and sends nothing of the protocol. The caller owns TCP: it does
//! what [`Plain::poll`] returns, and answers each request for TCP before it polls again.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::action::Cause;
use crate::op::{Op, OpError, RecvRequest, SendRequest};
use crate::session::Loss;
use crate::shutdown::Shutdown;
use crate::stats::{Counted, Stats};

mod action;
mod ends;

pub use action::PlainAction;

/// A connected socket over TCP alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plain {
    /// Octets of one request for TCP at most.
    part: u32,
    sends: VecDeque<Transfer>,
    receives: VecDeque<Transfer>,
    actions: VecDeque<PlainAction>,
    /// The last time that the caller has told.
    now: Duration,
    /// What may find something. What has found nothing waits for [`Self::handle_ready`].
    may: May,
    /// The last request was for octets of the peer: the next one is for room, if that is wanted.
    is_senders_turn: bool,
    incoming: Incoming,
    /// The user reads no more.
    is_shut: bool,
    shutdown: Shutdown,
    close: Close,
    /// What the close has not done, if it was the close that waited for it.
    close_error: Counted<Option<OpError>>,
    ended: Option<Cause>,
    stats: Counted<Stats>,
}

/// An operation under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Transfer {
    op: Op,
    len: u32,
    /// Octets that TCP has been given, or that came.
    done: u32,
    waits_for_all: bool,
    deadline: Option<Duration>,
}

/// Which requests for TCP may find something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct May {
    send: bool,
    receive: bool,
    confirm: bool,
}

/// What is known of the octets that the peer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Incoming {
    Open,
    /// TCP has octets that nobody has received.
    Unread,
    /// The peer sends nothing more, and all of it has been received.
    Ended,
}

/// How far a close has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Close {
    Open,
    /// Waits for the peer's FIN, and for all octets to be acknowledged, until this time.
    Lingering(Duration),
    /// The caller has been told.
    Told,
}

impl Plain {
    /// Makes the socket of an established connection. One request for TCP has at most `part` octets, at least 1.
    #[must_use]
    pub fn new(part: u32) -> Self {
        Self {
            part: part.max(1),
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            actions: VecDeque::new(),
            now: Duration::ZERO,
            may: May { send: true, receive: true, confirm: true },
            is_senders_turn: false,
            incoming: Incoming::Open,
            is_shut: false,
            shutdown: Shutdown::Open,
            close: Close::Open,
            close_error: Counted::default(),
            ended: None,
            stats: Counted::default(),
        }
    }

    /// Starts to send octets.
    ///
    /// # Errors
    /// The operation is not started: [`OpError::Shutdown`] after [`Self::shutdown`], or why the connection has ended.
    pub fn send(&mut self, request: SendRequest) -> Result<(), OpError> {
        let SendRequest { op, len, deadline, .. } = request;
        match self.ended {
            Some(cause) => Err(cause.error()),
            None if self.shutdown != Shutdown::Open => Err(OpError::Shutdown),
            None => {
                self.sends.push_back(Transfer { op, len, done: 0, waits_for_all: true, deadline });
                self.finish_sends();
                Ok(())
            }
        }
    }

    /// Starts to receive octets.
    ///
    /// # Errors
    /// The receive is not started: [`OpError::Shutdown`] after [`Self::close`], or why the connection has ended. A
    /// clean end is no error, but a receive of no octets.
    pub fn receive(&mut self, request: RecvRequest) -> Result<(), OpError> {
        let RecvRequest { op, len, waits_for_all, deadline, .. } = request;
        match self.ended {
            _ if self.close != Close::Open => Err(OpError::Shutdown),
            Some(Cause::Closed) | None => {
                self.receives.push_back(Transfer { op, len, done: 0, waits_for_all, deadline });
                self.finish_receives();
                Ok(())
            }
            Some(cause) => Err(cause.error()),
        }
    }

    /// Cancels an operation, or all. Returns how many end so: sends of which TCP has nothing, and all receives. One that
    /// holds octets ends with them.
    pub fn cancel(&mut self, op: Option<Op>) -> usize {
        let is_chosen = |transfer: &Transfer| op.is_none_or(|op| op == transfer.op);
        self.cancel_sends(OpError::Canceled, is_chosen) + self.cancel_receives(OpError::Canceled, is_chosen)
    }

    /// Sends nothing more behind what was started.
    pub fn shutdown(&mut self) {
        if self.shutdown == Shutdown::Open {
            self.shutdown = Shutdown::Wanted;
        }
    }

    /// Receives nothing more: what comes is not taken.
    pub fn stop_receiving(&mut self) {
        self.is_shut = true;
        self.finish_receives();
    }

    /// Closes the socket, by this time at the latest; at once if it is not later than the last time that was told.
    ///
    /// Receives without octets are canceled. Octets that nobody has received end the connection at once. A second close
    /// may shorten the time of the first one.
    pub fn close(&mut self, until: Duration) {
        match self.close {
            Close::Open => {
                self.close = Close::Lingering(until);
                self.shutdown();
                self.cancel_receives(OpError::Canceled, |_| true);
            }
            Close::Lingering(before) => self.close = Close::Lingering(until.min(before)),
            Close::Told => return,
        }
        if until <= self.now {
            self.end(Cause::Abandoned);
        }
    }

    /// Returns how the close has ended of which [`PlainAction::Closed`] tells.
    ///
    /// # Errors
    /// Those of [`Session::closed`](crate::Session::closed).
    pub const fn closed(&self) -> Result<(), OpError> {
        match self.close_error.0 {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Takes that TCP has taken the first so many octets of what [`PlainAction::Send`] has offered.
    pub fn handle_sent(&mut self, octets: u32) {
        let part = self.part;
        let Some(send) = self.sends.front_mut() else { return };
        let octets = octets.min(send.rest());
        self.may.send = octets == send.rest().min(part);
        send.done += octets;
        self.stats.0.sent.plain += u64::from(octets);
        self.finish_sends();
    }

    /// Takes so many octets that TCP had for [`PlainAction::Receive`]. If there were none, [`Self::handle_ready`] tells
    /// when there is something.
    pub fn handle_received(&mut self, octets: u32) {
        let part = self.part;
        let Some(receive) = self.receives.front_mut() else { return };
        let octets = octets.min(receive.rest());
        let were_all = octets < receive.rest().min(part);
        receive.done += octets;
        let is_done = were_all && receive.done > 0 && !receive.waits_for_all;
        self.may.receive = octets > 0;
        self.incoming = Incoming::Open;
        self.stats.0.received.plain += u64::from(octets);
        if is_done && let Some(receive) = self.receives.pop_front() {
            self.end_receive(&receive, None);
        }
        self.finish_receives();
    }

    /// Takes whether TCP has octets, as [`PlainAction::Look`] asks.
    pub const fn handle_look(&mut self, is_there: bool) {
        if is_there {
            self.incoming = Incoming::Unread;
        } else {
            self.may.receive = false;
        }
    }

    /// Takes that the peer sends nothing more, and that all octets have been received.
    pub fn handle_finished(&mut self) {
        self.incoming = Incoming::Ended;
        self.finish_receives();
    }

    /// Takes whether the peer has acknowledged all octets, as [`PlainAction::Confirm`] asks.
    pub fn handle_delivery(&mut self, is_complete: bool) {
        if is_complete && self.is_quiet() {
            self.end(Cause::Closed);
        } else {
            self.may.confirm = false;
        }
    }

    /// Takes that TCP may have what a request has not found before.
    pub const fn handle_ready(&mut self) {
        self.may = May { send: true, receive: true, confirm: true };
    }

    /// Takes the end of the connection. With [`Loss::Fin`] both directions are closed, and nothing was lost.
    pub fn handle_loss(&mut self, loss: Loss) {
        match loss {
            Loss::Fin => {
                self.handle_finished();
                self.end(if self.is_quiet() { Cause::Closed } else { Cause::Reset });
            }
            Loss::Reset => self.end(Cause::Reset),
            Loss::TimedOut => self.end(Cause::TimedOut),
        }
    }

    /// Takes the time since an origin that the caller chooses. The caller tells it before anything else of a turn.
    pub fn handle_time(&mut self, now: Duration) {
        self.now = now;
        if self.ended.is_some() {
            return;
        }
        let is_over = |transfer: &Transfer| transfer.deadline.is_some_and(|deadline| deadline <= now);
        self.cancel_receives(OpError::TimedOut, is_over);
        self.cancel_sends(OpError::TimedOut, is_over);
        if self.sends.iter().any(is_over) {
            self.end(Cause::TimedOut);
        }
        if let Close::Lingering(until) = self.close
            && until <= now
        {
            self.end(Cause::TimedOut);
        }
    }

    /// Returns what is to be done next.
    pub fn poll(&mut self) -> Option<PlainAction> {
        if self.actions.is_empty() {
            self.settle();
        }
        self.actions.pop_front().or_else(|| self.poll_request().filter(|_| self.ended.is_none()))
    }

    /// Returns when [`Self::handle_time`] has something to do.
    #[must_use]
    pub fn poll_at(&self) -> Option<Duration> {
        let close = match self.close {
            Close::Lingering(until) => Some(until),
            Close::Open | Close::Told => None,
        };
        let transfers = self.sends.iter().chain(&self.receives);
        let times = transfers.filter_map(|transfer| transfer.deadline).chain(close);
        times.min().filter(|_| self.ended.is_none())
    }

    /// Returns whether a receive that is started now ends without further octets of the peer.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.ended.is_some()
            || self.close != Close::Open
            || self.is_shut
            || match self.incoming {
                Incoming::Open => false,
                Incoming::Unread => self.receives.is_empty(),
                Incoming::Ended => true,
            }
    }

    /// Returns whether octets of a send that is started now go to TCP at once, as far as is known, or the send is
    /// refused.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.ended.is_some() || self.shutdown != Shutdown::Open || self.sends.is_empty() && self.may.send
    }

    /// Returns why the connection has ended.
    #[must_use]
    pub const fn ended(&self) -> Option<Cause> {
        self.ended
    }

    /// Returns what the socket has counted.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats.0
    }

    /// Returns whether no operation is left.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.sends.is_empty() && self.receives.is_empty() && self.actions.is_empty()
    }

    /// Returns the next request for TCP.
    fn poll_request(&mut self) -> Option<PlainAction> {
        if core::mem::take(&mut self.is_senders_turn)
            && let Some(send) = self.next_send()
        {
            return Some(send);
        }
        let receive = self.next_receive();
        self.is_senders_turn = receive.is_some();
        let request = receive.or_else(|| self.next_send());
        if request.is_some() {
            return request;
        }
        if self.shutdown == Shutdown::Wanted && self.sends.is_empty() {
            self.shutdown = Shutdown::Sent;
            return Some(PlainAction::Finish);
        }
        (self.is_quiet() && self.may.confirm).then_some(PlainAction::Confirm)
    }

    fn next_send(&self) -> Option<PlainAction> {
        let send = self.sends.front().filter(|_| self.may.send)?;
        Some(PlainAction::Send { op: send.op, at: send.done, len: send.rest().min(self.part) })
    }

    fn next_receive(&self) -> Option<PlainAction> {
        match (self.receives.front(), self.incoming) {
            _ if !self.may.receive => None,
            (Some(receive), Incoming::Open | Incoming::Unread) => {
                let len = receive.rest().min(self.part);
                Some(PlainAction::Receive { op: receive.op, at: receive.done, len })
            }
            (None, Incoming::Open) => Some(PlainAction::Look),
            _ => None,
        }
    }

    /// Ends the connection if it is to be closed and octets are unread, and tells when the socket is closed.
    fn settle(&mut self) {
        if let Close::Lingering(_) = self.close {
            if self.incoming == Incoming::Unread {
                self.end(Cause::Abandoned);
            }
            if self.ended.is_some() && self.sends.is_empty() && self.receives.is_empty() {
                self.close = Close::Told;
                self.actions.push_back(PlainAction::Closed);
            }
        }
    }

    /// Returns whether both sides have said that nothing more comes.
    fn is_quiet(&self) -> bool {
        self.shutdown == Shutdown::Sent && self.incoming == Incoming::Ended
    }
}

impl Transfer {
    const fn rest(&self) -> u32 {
        self.len - self.done
    }
}
