//! A client's session: operations go to the head of a chain, and acknowledgements come from its tail.

use std::collections::VecDeque;

use weft_rnic::{
    Access, Completion, Cq, CqInit, Data, Device, Mr, Pd, PostError, Qp, QpCapacity, QpInit, RecvWr,
    SendOpcode, SendWr, Stag, Status,
};

use crate::message::{MAX_MESSAGE, Name, Originals, decode_acknowledgement, encode, message_len};
use crate::op::{Copy, Op, OpError, Replicas, Swap};
use crate::replica::SetupError;
use crate::window::Window;

/// What the client and the replicas have agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How many replicas the chain has.
    pub replicas: usize,
    /// Slots: a power of two.
    pub window: u32,
    /// Octets of the session's range.
    pub len: u64,
    /// The longest write of one slot, in octets.
    pub piece: u32,
    /// The epoch of the group.
    pub epoch: u64,
    /// The session.
    pub session: u64,
}

/// A session of a client. It has no thread of its own.
#[derive(Debug)]
pub struct Session {
    terms: Terms,
    /// The range at the head, where written octets go.
    target: Stag,
    head: Qp,
    tail: Qp,
    acknowledged: Cq,
    /// Octets that are written: a piece for each slot.
    staging: Mr,
    messages: Mr,
    answers: Mr,
    window: Window,
    /// For each operation under way: whether it is the last slot of what the caller has asked for.
    ends: VecDeque<bool>,
    is_lost: bool,
    _sent: Cq,
    _pd: Pd,
}

/// Names what a call has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// Something that every replica has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// What it is.
    pub id: OpId,
    /// What each replica found in the word of a swap.
    pub originals: Originals,
}

/// Why a call fails. Nothing was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The operation makes no sense, or has to wait.
    Op(OpError),
    /// A request cannot be posted: the connection to the head is lost.
    Post(PostError),
    /// A connection is lost, or the chain has answered something else than was asked. The session is over.
    Lost,
}

impl Session {
    /// Makes the objects of a session, and posts receives for its acknowledgements. Both queue pairs have to be connected.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn new(device: &Device, terms: Terms) -> Result<Self, SetupError> {
        let is_sound = (1..=crate::MAX_REPLICAS).contains(&terms.replicas)
            && terms.window.is_power_of_two()
            && terms.window <= crate::MAX_WINDOW;
        if !is_sound {
            return Err(SetupError::Shape);
        }
        let pd = device.alloc_pd();
        let sent = device.create_cq_with(&CqInit { ignore_overrun: true, ..CqInit::new(terms.window) })?;
        let acknowledged = device.create_cq(terms.window, None)?;
        let capacity =
            |send_wr, recv_wr| QpCapacity { send_wr, recv_wr, send_sge: 1, recv_sge: 1, inline: 0 };
        let create =
            |capacity| device.create_qp(&pd, &QpInit { capacity, ..QpInit::new(&sent, &acknowledged) });
        // A Write and a Send for each operation.
        let (head, tail) = (create(capacity(2 * terms.window, 1))?, create(capacity(2, terms.window))?);
        let slots = terms.window as usize;
        let memory = |len: usize| pd.register(len * slots, Access::LOCAL_WRITE);
        let (staging, messages) = (memory(terms.piece as usize)?, memory(MAX_MESSAGE)?);
        let answers = memory(message_len(terms.replicas, terms.replicas))?;
        let session = Self {
            terms,
            target: Stag(0),
            head,
            tail,
            acknowledged,
            staging,
            messages,
            answers,
            window: Window::new(terms.window),
            ends: VecDeque::new(),
            is_lost: false,
            _sent: sent,
            _pd: pd,
        };
        for slot in 0..u64::from(terms.window) {
            session.await_acknowledgement(slot)?;
        }
        Ok(session)
    }

    /// Returns the queue pair to the head of the chain.
    pub const fn head(&self) -> &Qp {
        &self.head
    }

    /// Returns the queue pair to the tail, which acknowledges.
    pub const fn tail(&self) -> &Qp {
        &self.tail
    }

    /// Notes where the octets of writes go: the range in the memory of the head.
    pub const fn set_target(&mut self, target: Stag) {
        self.target = target;
    }

    /// Writes octets at all replicas (gWRITE). They are copied. What is longer than a piece takes several slots.
    ///
    /// # Errors
    /// [`SessionError`]; [`OpError::TooLong`] for more than all slots hold.
    pub fn write(&mut self, at: u64, octets: &[u8]) -> Result<OpId, SessionError> {
        let range = at..at.saturating_add(octets.len() as u64);
        let pieces = octets.len().div_ceil((self.terms.piece as usize).max(1)).max(1) as u64;
        let whole = Op { write: Some(range), ..Op::default() };
        whole.check(self.terms.len, u32::MAX)?;
        if pieces > self.terms.window.into() {
            return Err(OpError::TooLong.into());
        }
        // All or nothing: the pieces do not conflict among themselves.
        self.window.check(&whole, pieces)?;
        let mut last = None;
        let mut chunks = octets.chunks((self.terms.piece as usize).max(1)).peekable();
        let mut from = at;
        loop {
            let piece = chunks.next().unwrap_or_default();
            let op = Op { write: Some(from..from + piece.len() as u64), ..Op::default() };
            from += piece.len() as u64;
            let is_last = chunks.peek().is_none();
            last = Some(self.begin(&op, piece, is_last)?).or(last);
            if is_last {
                return last.ok_or(SessionError::Lost);
            }
        }
    }

    /// Copies octets in the memory of each replica (gMEMCPY).
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn copy(&mut self, from: u64, to: u64, len: u32) -> Result<OpId, SessionError> {
        self.submit(&Op { copy: Some(Copy { from, to, len }), ..Op::default() }, &[])
    }

    /// Compares and swaps a word at some replicas (gCAS). [`Done::originals`] tells what stood there.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn compare_swap(
        &mut self,
        at: u64,
        compare: u64,
        swap: u64,
        on: Replicas,
    ) -> Result<OpId, SessionError> {
        self.submit(&Op { swap: Some(Swap { at, compare, swap, on }), ..Op::default() }, &[])
    }

    /// Makes octets durable at all replicas (gFLUSH). The memory of replicas is volatile so far: all that was begun before is
    /// in it when this is done, and nothing else has to be done for it.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn flush(&mut self, range: core::ops::Range<u64>) -> Result<OpId, SessionError> {
        self.submit(&Op { flush: Some(range), ..Op::default() }, &[])
    }

    /// Begins several parts in one pass: the write, with these octets, then the copy, the swap and the flush.
    ///
    /// # Errors
    /// [`SessionError`]; [`OpError::Bounds`] too if there are not as many octets as are to be written.
    pub fn submit(&mut self, op: &Op, octets: &[u8]) -> Result<OpId, SessionError> {
        op.check(self.terms.len, self.terms.piece)?;
        let written = op.write.as_ref().map_or(0, |write| write.end - write.start);
        if written != octets.len() as u64 {
            return Err(OpError::Bounds.into());
        }
        // Volatile memory is flushed when the rest is done.
        self.begin(&Op { flush: None, ..op.clone() }, octets, true)
    }

    /// Takes what is done, oldest first, and returns how many there were.
    ///
    /// # Errors
    /// [`SessionError::Lost`]; what is not done then may be done in part.
    pub fn poll(&mut self, out: &mut [Done]) -> Result<usize, SessionError> {
        let mut taken = 0;
        while taken < out.len() {
            let Some(completion) = self.acknowledged.poll_one() else { break };
            if let Some(done) = self.take(&completion)? {
                out[taken] = done;
                taken += 1;
            }
        }
        if self.is_lost && taken == 0 { Err(SessionError::Lost) } else { Ok(taken) }
    }

    /// Returns how many slots are in use.
    pub fn under_way(&self) -> u64 {
        self.window.len()
    }

    fn begin(&mut self, op: &Op, octets: &[u8], is_last: bool) -> Result<OpId, SessionError> {
        if self.is_lost {
            return Err(SessionError::Lost);
        }
        let number = self.window.begin(op)?;
        self.ends.push_back(is_last);
        let sent = self.send(op, octets, number);
        // Whatever was not sent is never acknowledged, and neither is what comes behind it.
        self.is_lost |= sent.is_err();
        sent.map(|()| OpId(number))
    }

    fn send(&self, op: &Op, octets: &[u8], number: u64) -> Result<(), SessionError> {
        if let Some(write) = op.write.as_ref().filter(|write| !write.is_empty()) {
            let at = self.place(number, self.terms.piece as usize);
            self.staging.write(at, octets).map_err(|_| SessionError::Lost)?;
            let sges = [self.staging.sge(at, u32::try_from(octets.len()).unwrap_or(u32::MAX))];
            let opcode = SendOpcode::Write { stag: self.target, to: write.start };
            self.head.post_send(&SendWr { data: Data::Sges(&sges), ..SendWr::new(opcode) })?;
        }
        let name = Name { number, epoch: self.terms.epoch, session: self.terms.session };
        let mut message = [0; MAX_MESSAGE];
        let len = encode(op, &name, self.terms.replicas, &mut message).ok_or(SessionError::Lost)?;
        let at = self.place(number, MAX_MESSAGE);
        self.messages.write(at, &message[..len]).map_err(|_| SessionError::Lost)?;
        let sges = [self.messages.sge(at, u32::try_from(len).unwrap_or(u32::MAX))];
        Ok(self.head.post_send(&SendWr { data: Data::Sges(&sges), ..SendWr::new(SendOpcode::Send) })?)
    }

    /// Takes an acknowledgement. `None`: it is not the last one of what the caller has asked for.
    fn take(&mut self, completion: &Completion) -> Result<Option<Done>, SessionError> {
        let taken = self.acknowledge(completion);
        self.is_lost |= taken.is_none();
        let (number, originals, is_last) = taken.ok_or(SessionError::Lost)?;
        Ok(is_last.then_some(Done { id: OpId(number), originals }))
    }

    /// Ends the oldest operation, if this is its acknowledgement.
    fn acknowledge(&mut self, completion: &Completion) -> Option<(u64, Originals, bool)> {
        let len = message_len(self.terms.replicas, self.terms.replicas);
        if completion.status != Status::Success || completion.byte_len as usize != len {
            return None;
        }
        let mut octets = [0; MAX_MESSAGE];
        let octets = octets.get_mut(..len)?;
        self.answers.read(self.place(completion.wr_id, len), octets).ok()?;
        let (name, originals) = decode_acknowledgement(octets, self.terms.replicas)?;
        let number = self.window.end()?;
        let is_its = name == Name { number, epoch: self.terms.epoch, session: self.terms.session };
        let is_last = self.ends.pop_front()?;
        self.await_acknowledgement(completion.wr_id).ok()?;
        is_its.then_some((number, originals, is_last))
    }

    fn await_acknowledgement(&self, slot: u64) -> Result<(), PostError> {
        let len = message_len(self.terms.replicas, self.terms.replicas);
        let sges = [self.answers.sge(self.place(slot, len), u32::try_from(len).unwrap_or(u32::MAX))];
        self.tail.post_recv(&RecvWr { wr_id: slot, sges: &sges })
    }

    /// Returns where the memory of a slot begins that has `len` octets for each.
    fn place(&self, number: u64, len: usize) -> usize {
        let slot = number & u64::from(self.terms.window - 1);
        usize::try_from(slot).unwrap_or(0) * len
    }
}

impl core::fmt::Display for SessionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Op(error) => error.fmt(f),
            Self::Post(error) => error.fmt(f),
            Self::Lost => f.write_str("a connection of the session is lost: open another one"),
        }
    }
}

impl core::error::Error for SessionError {}

impl From<OpError> for SessionError {
    fn from(error: OpError) -> Self {
        Self::Op(error)
    }
}

impl From<PostError> for SessionError {
    fn from(error: PostError) -> Self {
        Self::Post(error)
    }
}
