//! The sending end of a stream: what goes on the wire next, and where the peer's memory takes it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use weft_ddp::Stag;

use super::ring::Ring;
use super::sends::{Part, Sends, Sent};
use super::{Way, next_epoch};
use crate::fault::Fault;
use crate::hello;
use crate::message::{Advert, Data, Target};
use crate::op::Op;

/// What a sender knows of both ends when the connection starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SenderTerms {
    /// The ring of the peer, if it has one.
    pub ring: Option<hello::Ring>,
    /// Octets that one DATA takes of the ring at most: a quarter of it, and at least 1.
    pub ring_part: u32,
    /// Octets that go as immediate data at most. 0: none do.
    pub inline_max: u32,
    /// Octets of a send that have to be left for HOLD.
    pub direct_min: u32,
    /// How many adverts the peer may have stored here.
    pub adverts: usize,
}

/// The sending end of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    terms: SenderTerms,
    /// Octets on the wire so far.
    pub(crate) position: u64,
    /// The epoch of the adverts that are valid, or 0.
    pub(crate) epoch: u32,
    /// The last epoch that the peer has begun, or 0.
    heard: u32,
    /// The part of each advert that is not used. The first one is used first.
    pub(crate) adverts: VecDeque<Advert>,
    pub(crate) ring: Ring,
    /// The last advert had room for a long send: further ones are worth waiting for.
    is_read_long: bool,
    /// No octet goes out until the ring is empty or an advert is valid.
    pub(crate) holds: bool,
    /// REVOKEs without an answer.
    pub(crate) owed: u32,
    sends: Sends,
}

/// Octets that go on the wire together: the Writes, and then DATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The RDMA Writes, in order. They share out the octets of the parts. Immediate data has none.
    pub writes: [Option<Write>; 2],
    /// The message behind them.
    pub data: Data,
}

/// An RDMA Write into memory of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The STag of the sink.
    pub stag: Stag,
    /// The tagged offset of the first octet.
    pub to: u64,
    /// Octets, at least 1.
    pub len: u32,
}

/// What queued octets wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// An advert.
    Advert,
    /// Octets of the ring.
    Ring,
}

impl Sender {
    /// The sending end at the start of a connection.
    #[must_use]
    pub fn new(terms: SenderTerms) -> Self {
        Self {
            position: 0,
            epoch: 0,
            heard: 0,
            adverts: VecDeque::new(),
            ring: Ring::new(terms.ring.map_or(0, |ring| ring.len)),
            is_read_long: false,
            holds: false,
            owed: 0,
            sends: Sends::new(),
            terms,
        }
    }

    /// Queues a send of `len` octets, which lie in `elements` pieces of memory.
    pub fn send(&mut self, op: Op, len: u32, elements: u8) {
        self.sends.queue(op, len, elements);
    }

    /// Takes a send back if none of its octets is on the wire. Returns false if it is too late.
    #[must_use]
    pub fn cancel(&mut self, op: Op) -> bool {
        self.sends.cancel(op)
    }

    /// Takes an advert of the peer. Returns false if it is stale: this side has sent octets through the ring since the
    /// peer sent it.
    ///
    /// # Errors
    /// [`Fault::OutOfOrder`] for an epoch that is not the peer's last or the next one, or a position that was not sent,
    /// [`Fault::TooManyAdverts`], [`Fault::WrongState`] for an epoch that begins while adverts of another are valid, or
    /// an advert beyond the last tagged offset.
    pub fn handle_advert(&mut self, advert: Advert) -> Result<bool, Fault> {
        let epoch = if advert.first.is_some() { next_epoch(self.heard) } else { self.heard };
        if advert.epoch != epoch || epoch == 0 {
            return Err(Fault::OutOfOrder);
        }
        if advert.to.checked_add(u64::from(advert.len)).is_none() {
            return Err(Fault::WrongState);
        }
        self.is_read_long = advert.len >= self.terms.direct_min;
        if let Some(position) = advert.first {
            self.heard = epoch;
            if position > self.position {
                return Err(Fault::OutOfOrder);
            }
            if !self.adverts.is_empty() {
                return Err(Fault::WrongState);
            }
            if position == self.position {
                // The ring was empty when the peer sent this, and nothing was sent since.
                self.epoch = epoch;
                self.ring.read(self.ring.unread());
                self.holds = false;
            }
        }
        if epoch != self.epoch {
            return Ok(false);
        }
        if self.adverts.len() >= self.terms.adverts {
            return Err(Fault::TooManyAdverts);
        }
        self.adverts.push_back(advert);
        Ok(true)
    }

    /// Takes FREE: the peer has read so many octets of its ring since the start.
    ///
    /// # Errors
    /// [`Fault::FreedTooMuch`].
    pub fn handle_free(&mut self, read: u64) -> Result<(), Fault> {
        if !self.ring.read_to(read) {
            return Err(Fault::FreedTooMuch);
        }
        self.holds &= self.ring.unread() > 0;
        Ok(())
    }

    /// Takes REVOKE: the adverts of the epoch are void. The answer is due.
    ///
    /// # Errors
    /// [`Fault::OutOfOrder`] for an epoch that is not the peer's last, [`Fault::WrongState`] for 2^32 REVOKEs without
    /// an answer.
    pub fn handle_revoke(&mut self, epoch: u32) -> Result<(), Fault> {
        if epoch != self.heard || epoch == 0 {
            return Err(Fault::OutOfOrder);
        }
        self.owed = self.owed.checked_add(1).ok_or(Fault::WrongState)?;
        self.epoch = 0;
        self.adverts.clear();
        Ok(())
    }

    /// Takes what goes on the wire next, if anything does: octets of the sends, or the answer to REVOKE, which is DATA
    /// of no octets. The octets of DATA are those of `parts`, at most 31 elements of memory or one send. What stood in
    /// `parts` is gone.
    pub fn poll_transfer(&mut self, parts: &mut Vec<Part>) -> Option<Transfer> {
        parts.clear();
        if self.owed > 0 {
            self.owed -= 1;
            let target = Target::Ring { holds: false };
            let data = Data { position: self.position, len: 0, is_inline: false, target };
            return Some(Transfer { writes: [None; 2], data });
        }
        self.push(parts)
    }

    /// The oldest DATA with octets of [`Self::poll_transfer`] that has not left for TCP has left, and its Writes with
    /// it.
    pub fn handle_left(&mut self) {
        self.sends.handle_left();
    }

    /// Returns the next send whose memory is free, in the order of the sends. It needs no room for a Send.
    pub fn poll_sent(&mut self) -> Option<Sent> {
        self.sends.poll()
    }

    /// Returns how many DATA with octets have not left.
    #[must_use]
    pub fn out(&self) -> usize {
        self.sends.out()
    }

    /// Takes all sends that were not polled, in order. The connection has ended, and nothing reads their memory.
    pub fn abandon(&mut self) -> impl Iterator<Item = Op> {
        self.sends.abandon()
    }

    /// Returns all sends that were not polled, in order.
    pub fn ops(&self) -> impl Iterator<Item = Op> {
        self.sends.ops()
    }

    /// Returns what queued octets wait for, if they wait for the peer.
    #[must_use]
    pub fn wait(&self) -> Option<Wait> {
        let waits = !self.sends.are_taken() && self.adverts.is_empty();
        match self.ring.len() {
            _ if !waits => None,
            0 => Some(Wait::Advert),
            _ if self.holds => Some(Wait::Advert),
            _ => (self.ring.free() == 0).then_some(Wait::Ring),
        }
    }

    /// Returns true if the peer has room for octets of another send.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.sends.are_taken() && (!self.adverts.is_empty() || !self.holds && self.ring.free() > 0)
    }

    /// Returns how many adverts are not used up, and how many may be stored.
    #[must_use]
    pub fn adverts(&self) -> [u32; 2] {
        [self.adverts.len(), self.terms.adverts].map(|all| u32::try_from(all).unwrap_or(u32::MAX))
    }

    /// Returns how many octets of the peer's ring are in use, as far as it has told, and how many there are.
    #[must_use]
    pub const fn ring(&self) -> [u32; 2] {
        [self.ring.unread(), self.ring.len()]
    }

    /// Returns the position behind all sends, if all are on the wire. SHUTDOWN says it.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.sends.are_taken().then_some(self.position)
    }

    /// Returns how many octets of the stream are on the wire or were.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Puts queued octets on the wire, as many as the first advert or the ring takes.
    fn push(&mut self, parts: &mut Vec<Part>) -> Option<Transfer> {
        let limit = match self.adverts.front() {
            Some(advert) => advert.len,
            None if self.holds => 0,
            // The next advert may come before what is in the send queue has left.
            None if self.is_read_long && self.sends.out() > 0 && self.is_next_long() => 0,
            None => self.ring.free().min(self.terms.ring_part),
        };
        let len = self.sends.gather(limit, parts);
        if len == 0 {
            return None;
        }
        let is_inline = len <= self.terms.inline_max;
        let way = match self.adverts.front() {
            _ if is_inline => Way::Inline,
            Some(_) => Way::Direct,
            None => Way::Ring,
        };
        self.sends.take(parts, way);
        let (target, writes) = match self.adverts.front_mut() {
            Some(advert) => {
                let write = Write { stag: advert.stag, to: advert.to, len };
                advert.to += u64::from(len);
                advert.len -= len;
                let is_last = advert.len == 0 || !advert.waits_for_all;
                if is_last {
                    self.adverts.pop_front();
                }
                (Target::Advert { epoch: self.epoch, is_last }, [Some(write), None])
            }
            None => self.fill_ring(len),
        };
        let data = Data { position: self.position, len, is_inline, target };
        self.position += u64::from(len);
        Some(Transfer { writes: if is_inline { [None; 2] } else { writes }, data })
    }

    /// Takes octets of the ring. The peer drops its adverts when they come, so they are void from now on.
    fn fill_ring(&mut self, len: u32) -> (Target, [Option<Write>; 2]) {
        self.epoch = 0;
        let writes = self.ring.write(len).map(|span| {
            let hello::Ring { stag, to, .. } = self.terms.ring.filter(|_| span.len > 0)?;
            Some(Write { stag, to: to.wrapping_add(u64::from(span.at)), len: span.len })
        });
        self.holds = (self.is_read_long || self.ring.free() == 0) && self.is_next_long();
        (Target::Ring { holds: self.holds }, writes)
    }

    /// Returns true if the next octets belong to a send of which so much is left that it should go directly.
    fn is_next_long(&self) -> bool {
        self.sends.next_rest() >= self.terms.direct_min.max(1)
    }
}
