//! A client's session: operations go to the heads of its chains, and acknowledgements come from their tails.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use weft_rnic::{Access, CompChannel, Completion, Device, Mr, Pd, Qp, Stag};

use crate::control::End;
use crate::message::{Originals, UNTOUCHED};
use crate::op::{Copy, MAX_REPLICAS, Op, OpError, Replicas, Swap};
use crate::replica::SetupError;
use crate::window::Window;

mod error;
mod lane;
mod terms;
mod waiting;

pub use error::SessionError;
pub(crate) use lane::Lane;
pub use terms::Terms;
pub use waiting::Fresh;

/// A session of a client. It has no thread of its own.
#[derive(Debug)]
pub struct Session {
    terms: Terms,
    /// One chain of all replicas, or a chain of one replica for each of them.
    lanes: Vec<Lane>,
    /// Octets that are written: a piece for each slot.
    staging: Mr,
    /// Where octets go that are read: a piece.
    sink: Mr,
    channel: CompChannel,
    timeout: Duration,
    window: Window,
    /// The operations under way, oldest first.
    flights: VecDeque<Flight>,
    /// What is done, and was not handed to the caller.
    done: VecDeque<Done>,
    /// Why the session is over.
    over: Option<SessionError>,
    /// The control plane has told it.
    is_told: bool,
    _pd: Pd,
}

/// An operation under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    /// It is the last slot of what the caller has asked for.
    is_last: bool,
    originals: Originals,
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

impl Session {
    /// Makes the objects of a session with one chain, and posts receives for its acknowledgements. Both queue pairs have to
    /// be connected. [`Session::open`] does all that.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn new(device: &Device, terms: Terms) -> Result<Self, SetupError> {
        Self::with(device, terms, (1, Duration::from_secs(5)))
    }

    /// Makes the objects of a session with so many chains, which waits so long for an acknowledgement.
    pub(crate) fn with(
        device: &Device,
        terms: Terms,
        (chains, timeout): (usize, Duration),
    ) -> Result<Self, SetupError> {
        let is_sound = (1..=MAX_REPLICAS).contains(&terms.replicas)
            && (1..=MAX_REPLICAS / terms.replicas).contains(&chains)
            && terms.window.is_power_of_two()
            && terms.window <= crate::MAX_WINDOW
            && terms.piece > 0;
        if !is_sound {
            return Err(SetupError::Shape);
        }
        let pd = device.alloc_pd();
        let channel = device.create_comp_channel().map_err(SetupError::Channel)?;
        let lanes = (0..chains).map(|_| Lane::new(device, &pd, &channel, terms)).collect::<Result<_, _>>()?;
        let area = terms.window as usize * terms.piece as usize;
        let staging = pd.register(area, Access::LOCAL_WRITE)?;
        let sink = pd.register(terms.piece as usize, Access::LOCAL_WRITE)?;
        let slots = terms.window as usize;
        Ok(Self {
            terms,
            lanes,
            staging,
            sink,
            channel,
            timeout,
            window: Window::new(terms.window),
            flights: VecDeque::with_capacity(slots),
            done: VecDeque::with_capacity(slots),
            over: None,
            is_told: false,
            _pd: pd,
        })
    }

    /// Returns the queue pair to the head of the first chain.
    pub fn head(&self) -> &Qp {
        &self.lanes[0].head
    }

    /// Returns the queue pair to the tail of the first chain, which acknowledges.
    pub fn tail(&self) -> &Qp {
        &self.lanes[0].tail
    }

    /// Sets the STag of the range at the head of the first chain.
    pub fn set_target(&mut self, target: Stag) {
        self.lanes[0].target = target;
    }

    /// Sets the STag of the range at the tail of the first chain, from where octets are read.
    pub fn set_source(&mut self, source: Stag) {
        self.lanes[0].source = source;
    }

    /// Returns what the session was opened with.
    pub const fn terms(&self) -> Terms {
        self.terms
    }

    /// Returns how many replicas there are, in all chains together.
    pub const fn replicas(&self) -> usize {
        self.terms.replicas * self.lanes.len()
    }

    pub(crate) fn lanes(&mut self) -> &mut [Lane] {
        &mut self.lanes
    }

    /// Writes octets to the same place of every replica (gWRITE). Octets longer than a piece take several slots.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn write(&mut self, at: u64, octets: &[u8]) -> Result<OpId, SessionError> {
        let end = at.checked_add(octets.len() as u64).ok_or(OpError::Bounds)?;
        let whole = Op { write: Some(at..end), ..Op::default() };
        whole.check(self.terms.len, u32::MAX)?;
        let piece = self.terms.piece as usize;
        let pieces = octets.len().div_ceil(piece).max(1) as u64;
        if pieces > self.terms.window.into() {
            return Err(OpError::TooLong.into());
        }
        // All or nothing: the pieces do not conflict among themselves.
        self.window.check(&whole, pieces)?;
        let mut chunks = octets.chunks(piece).peekable();
        let mut from = at;
        loop {
            let piece = chunks.next().unwrap_or_default();
            let op = Op { write: Some(from..from + piece.len() as u64), ..Op::default() };
            from += piece.len() as u64;
            let is_last = chunks.peek().is_none();
            let id = self.begin(&op, piece, is_last)?;
            if is_last {
                return Ok(id);
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

    /// Makes octets durable at all replicas (gFLUSH): what was begun before has reached them when this is done, and is in the
    /// file where the memory of a replica has one. Volatile memory has nothing more to be done.
    ///
    /// # Errors
    /// [`SessionError`]; [`OpError::TooLong`] for 4 GiB and more.
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
        let flush = op.flush.clone().filter(|_| self.terms.durability.takes_sync());
        self.begin(&Op { flush, ..op.clone() }, octets, true)
    }

    /// Takes what is done, oldest first, and returns how many there were.
    ///
    /// # Errors
    /// Why the session is over, when nothing is left to be taken. What is not done then may be done in part.
    pub fn poll(&mut self, out: &mut [Done]) -> Result<usize, SessionError> {
        self.collect();
        let taken = out.len().min(self.done.len());
        for (place, done) in out.iter_mut().zip(self.done.drain(..taken)) {
            *place = done;
        }
        match &self.over {
            Some(_) if taken == 0 => Err(self.reason()),
            _ => Ok(taken),
        }
    }

    /// Returns how many slots are in use.
    pub fn under_way(&self) -> u64 {
        self.window.len()
    }

    fn begin(&mut self, op: &Op, octets: &[u8], is_last: bool) -> Result<OpId, SessionError> {
        if self.over.is_some() {
            return Err(self.reason());
        }
        let number = self.window.begin(op)?;
        self.flights.push_back(Flight { is_last, originals: [UNTOUCHED; MAX_REPLICAS] });
        match self.send(op, octets, number) {
            Ok(()) => Ok(OpId(number)),
            // Whatever was not sent is never acknowledged, and neither is what comes behind it.
            Err(error) => Err(self.over.insert(error).clone()),
        }
    }

    fn send(&self, op: &Op, octets: &[u8], number: u64) -> Result<(), SessionError> {
        let at = self.terms.place(number, self.terms.piece as usize);
        self.staging.write(at, octets).map_err(|_| SessionError::Lost(None))?;
        for (index, lane) in self.lanes.iter().enumerate() {
            let staged = (&self.staging, at);
            match op.swap.filter(|_| self.lanes.len() > 1) {
                None => lane.send(op, staged, number)?,
                // The chain of a replica has no other one in it.
                Some(swap) => {
                    let on = if swap.on.contains(index) { Replicas::ALL } else { Replicas(0) };
                    lane.send(&Op { swap: Some(Swap { on, ..swap }), ..op.clone() }, staged, number)?;
                }
            }
        }
        Ok(())
    }

    /// Takes the acknowledgements that are there.
    fn collect(&mut self) {
        let mut out = [Completion::EMPTY; 16];
        for index in 0..self.lanes.len() {
            loop {
                let taken = self.lanes[index].acknowledged.poll(&mut out);
                if !out[..taken].iter().all(|completion| self.acknowledge(index, completion).is_some()) {
                    let of = if self.lanes.len() > 1 { Some(index) } else { None };
                    self.over.get_or_insert(SessionError::Lost(of));
                }
                if taken < out.len() {
                    break;
                }
            }
        }
        while self.lanes.iter().all(|lane| lane.taken > self.window.oldest()) {
            let (Some(number), Some(flight)) = (self.window.end(), self.flights.pop_front()) else { break };
            if flight.is_last {
                self.done.push_back(Done { id: OpId(number), originals: flight.originals });
            }
        }
    }

    /// Notes an acknowledgement of one chain; `None` if it is none.
    fn acknowledge(&mut self, index: usize, completion: &Completion) -> Option<()> {
        let is_chain = self.lanes.len() == 1;
        let lane = &mut self.lanes[index];
        let at = lane.taken.checked_sub(self.window.oldest())?;
        let flight = self.flights.get_mut(usize::try_from(at).ok()?)?;
        let originals = lane.acknowledge(completion)?;
        if is_chain {
            flight.originals = originals;
        } else {
            flight.originals[index] = originals[0];
        }
        Some(())
    }

    /// Returns why the session is over, with the number of the lost replica if the control plane has told it.
    fn reason(&mut self) -> SessionError {
        let reason = self.over.clone().unwrap_or(SessionError::Lost(None));
        if self.is_told || !matches!(reason, SessionError::Lost(_)) {
            return reason;
        }
        let is_fan = self.lanes.len() > 1;
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            let known = match lane.end() {
                None => continue,
                Some(End::Sealed(epoch)) => SessionError::Sealed { epoch },
                Some(End::Lost(_)) if is_fan => SessionError::Lost(Some(index)),
                Some(End::Lost(replica)) => SessionError::Lost(Some(replica)),
            };
            self.is_told = true;
            self.over = Some(known.clone());
            return known;
        }
        reason
    }
}

impl AsFd for Session {
    /// Returns a descriptor that becomes readable when something is done, or the session is over. Before a program sleeps on
    /// it, it calls [`Session::arm`], and then [`Session::poll`] until that finds nothing.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
