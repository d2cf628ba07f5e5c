//! The calls of a socket: operations under way with their memory, and those who wait for the socket.

use core::task::Waker;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_exs_core::{Op, Outcome};
use weft_rnic::RegisterError;

use crate::error::Error;
use crate::in_place::{InPlace, Received};
use crate::memory::Area;
use crate::options::Options;
use crate::pending::{Pending, Post, Settle};
use crate::ready::Ready;
use crate::window::Window;

/// The calls of a socket.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) options: Options,
    pub(super) transfers: HashMap<Op, Transfer>,
    /// Sends and receives among them.
    under_way: [usize; 2],
    last_op: u64,
    /// The own end and the peer's.
    pub(super) addresses: Option<[SocketAddr; 2]>,
    /// Those who wait for readiness.
    waiting: Vec<(Op, Ready, Arc<Pending<Ready>>)>,
    /// How the close has ended.
    pub(super) closed: Option<Result<(), Error>>,
    /// Calls that wait for the close.
    closing: Vec<Arc<Pending<Result<(), Error>>>>,
    /// What has ended since the lock was taken.
    ended: Vec<Ended>,
}

/// An operation under way, with its memory.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) area: Area,
    /// The peer's way to the octets, if it needs one.
    pub(super) window: Option<Window>,
    direction: Direction,
    /// Octets could not be copied from or to its memory.
    pub(super) has_faulted: bool,
    pending: Arc<dyn Settle>,
}

/// What is left of an operation that has ended, until the lock is free.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) waker: Option<Waker>,
    /// The outcome, which becomes an event, or is dropped with the user's memory if nobody wants it any more.
    pub(crate) outcome: Arc<dyn Post>,
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

impl Calls {
    pub(super) fn new(options: Options, addresses: Option<[SocketAddr; 2]>) -> Self {
        Self {
            options,
            transfers: HashMap::new(),
            under_way: [0; 2],
            last_op: 0,
            addresses,
            waiting: Vec::new(),
            closed: None,
            closing: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Notes an operation. Returns its name.
    ///
    /// # Errors
    /// [`Error::Full`]: it is noted all the same, and to be completed.
    pub(super) fn begin(
        &mut self,
        (area, window): (Area, Option<Window>),
        direction: Direction,
        pending: Arc<dyn Settle>,
    ) -> (Op, Result<(), Error>) {
        let is_full = self.under_way[direction.index()] >= MAX_OPERATIONS;
        self.under_way[direction.index()] += 1;
        let op = self.name();
        self.transfers.insert(op, Transfer { area, window, direction, has_faulted: false, pending });
        (op, if is_full { Err(Error::Full) } else { Ok(()) })
    }

    /// Gives an operation's memory back to the user. Nothing names it any more. `in_place` makes what the user gets in
    /// place. Returns the operation's window.
    pub(super) fn complete(
        &mut self,
        op: Op,
        result: Result<Outcome, Error>,
        in_place: impl FnOnce(&Outcome) -> Option<InPlace>,
    ) -> Option<Window> {
        let Transfer { area, window, direction, has_faulted, pending } = self.transfers.remove(&op)?;
        self.under_way[direction.index()] -= 1;
        // The memory is not in use any more when the user hears of the end.
        drop(area);
        let result = if has_faulted { Err(Error::Memory(RegisterError::Fault)) } else { result };
        let result = result.map(|outcome| Received { outcome, in_place: in_place(&outcome) });
        let waker = pending.end(result);
        self.ended.push(Ended { waker, outcome: pending });
        window
    }

    /// Returns how many sends and receives are under way.
    pub(super) const fn under_way(&self) -> [usize; 2] {
        self.under_way
    }

    /// Notes that octets of an operation could not be copied.
    pub(super) fn fault(&mut self, op: Op) {
        if let Some(transfer) = self.transfers.get_mut(&op) {
            transfer.has_faulted = true;
        }
    }

    /// Has a wait end when the connection is ready for something of what is wanted. Returns its name.
    pub(super) fn await_ready(&mut self, wanted: Ready, pending: Arc<Pending<Ready>>) -> Op {
        let op = self.name();
        self.waiting.push((op, wanted, pending));
        op
    }

    /// Returns whether somebody waits for readiness.
    pub(super) const fn is_ready_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Ends the waits for which there is something, or which have this name.
    pub(super) fn end_waits(&mut self, ready: Ready, canceled: Option<Op>) -> usize {
        let is_over = |(op, wanted, _): &mut (Op, Ready, _)| {
            Some(*op) == canceled || canceled.is_none() && ready.of(*wanted).is_some()
        };
        let before = self.ended.len();
        for (_, wanted, pending) in self.waiting.extract_if(.., is_over) {
            let waker = pending.settle(ready.of(wanted).unwrap_or_default());
            self.ended.push(Ended { waker, outcome: pending });
        }
        self.ended.len() - before
    }

    /// Notes a call that waits for the close. Returns whether the socket is open still.
    pub(super) fn await_close(&mut self, pending: Option<Arc<Pending<Result<(), Error>>>>) -> bool {
        self.closing.extend(pending);
        if let Some(outcome) = self.closed {
            self.tell_closed(outcome);
        }
        self.closed.is_none()
    }

    /// Tells those who want to hear how the close has ended.
    pub(super) fn tell_closed(&mut self, outcome: Result<(), Error>) {
        self.closed = Some(outcome);
        for pending in self.closing.drain(..) {
            let waker = pending.settle(outcome);
            self.ended.push(Ended { waker, outcome: pending });
        }
    }

    /// Takes what has ended.
    pub(super) fn take_ended(&mut self) -> impl Iterator<Item = Ended> {
        self.ended.drain(..)
    }

    const fn name(&mut self) -> Op {
        self.last_op += 1;
        Op(self.last_op)
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
