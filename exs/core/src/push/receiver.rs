//! The receiving end of a stream: what it advertises, what it copies out of the ring, and which receives complete.

use alloc::collections::VecDeque;

use super::control::{Control, Window};
use super::local::{Local, Place, Received};
use super::ring::Ring;
use super::{Way, next_epoch};
use crate::fault::Fault;
use crate::message::{Data, Target};
use crate::op::Op;

/// What a receiver knows of both ends when the connection starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReceiverTerms {
    /// Octets of the own ring. 0: there is none.
    pub ring: u32,
    /// FREE is due when so many octets of the ring are free and not told: a quarter of it, and at least 1.
    pub ring_part: u32,
    /// How many receives are advertised at a time, at least 1 and no more than the peer stores.
    pub adverts: usize,
    /// A receive of at most so many octets is advertised only in front of a longer one, since immediate data fills it.
    pub small: u32,
}

/// The receiving end of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receiver {
    terms: ReceiverTerms,
    /// Octets that came so far.
    position: u64,
    pub(crate) ring: Ring,
    /// Octets of the ring of which the peer has heard that they are read.
    pub(crate) told: u64,
    /// The first has room. If the ring has unread octets, there are no receives.
    receives: VecDeque<Receive>,
    /// How many of the receives are advertised: the first ones.
    pub(crate) advertised: usize,
    /// The epoch of the last advert, or 0.
    pub(crate) epoch: u32,
    /// The epoch is over, or there was none.
    pub(crate) is_void: bool,
    /// The peer sends nothing until the ring is empty or an advert comes.
    pub(crate) holds: bool,
    /// REVOKE was sent, and its answer has not come.
    pub(crate) awaits_answer: bool,
    /// SHUTDOWN came.
    has_ended: bool,
    /// The user reads no more.
    is_shut: bool,
    local: VecDeque<Local>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Receive {
    op: Op,
    len: u32,
    waits_for_all: bool,
    filled: u32,
    /// Only a receive that is advertised: the others leave at once.
    is_canceled: bool,
    way: Way,
}

impl Receive {
    const fn rest(&self) -> u32 {
        self.len - self.filled
    }
}

impl Receiver {
    /// The receiving end at the start of a connection.
    #[must_use]
    pub fn new(terms: ReceiverTerms) -> Self {
        Self {
            position: 0,
            ring: Ring::new(terms.ring),
            told: 0,
            receives: VecDeque::new(),
            advertised: 0,
            epoch: 0,
            is_void: true,
            holds: false,
            awaits_answer: false,
            has_ended: false,
            is_shut: false,
            local: VecDeque::new(),
            terms,
        }
    }

    /// Queues a receive of `len` octets. It completes with the first octets that come, or when it is full if it
    /// `waits_for_all`.
    pub fn receive(&mut self, op: Op, len: u32, waits_for_all: bool) {
        let way = Way::Direct;
        self.receives.push_back(Receive { op, len, waits_for_all, filled: 0, is_canceled: false, way });
        self.settle();
    }

    /// Begins to end a receive, and returns false if there is none that was not canceled before. A receive that is not
    /// advertised ends at once, in front of those before it. One that is ends when the peer has answered a REVOKE.
    /// Octets may come until then, with which it completes.
    #[must_use]
    pub fn cancel(&mut self, op: Op) -> bool {
        let mut receives = self.receives.iter();
        let at = receives.position(|receive| receive.op == op && !receive.is_canceled);
        let Some(at) = at else { return false };
        if at < self.advertised {
            self.mark_canceled(at);
        } else if let Some(receive) = self.receives.remove(at) {
            // Also if this side reads no more: it does not end in its turn.
            self.end(&receive, true);
            self.settle();
        }
        true
    }

    /// Reads no more: receives end with what they hold, now and later, those that are advertised by way of
    /// [`Self::cancel`]. Octets of the peer fill the ring, and nothing is freed.
    pub fn shut_down(&mut self) {
        self.is_shut = true;
        (0..self.advertised).for_each(|at| self.mark_canceled(at));
        self.settle();
    }

    /// Ends all receives, since the connection has ended. Those that hold octets end with them, the others as canceled.
    pub fn abandon(&mut self) {
        self.receives.iter_mut().for_each(|receive| receive.is_canceled = true);
        while !self.receives.is_empty() {
            self.end_first();
        }
    }

    /// Takes DATA. Its octets have been written before, or are in the slot.
    ///
    /// # Errors
    /// [`Fault::AfterShutdown`], [`Fault::OutOfOrder`] for another position, [`Fault::NoAdvert`],
    /// [`Fault::RingOverfilled`], [`Fault::WrongState`] for DATA of 0 octets that is no answer to REVOKE, or an advert
    /// that the peer says to be used up when it is not, or the reverse.
    pub fn handle_data(&mut self, data: &Data) -> Result<(), Fault> {
        let Data { position, len, is_inline, target } = *data;
        let is_answer = len == 0 && self.awaits_answer && matches!(target, Target::Ring { holds: false });
        if self.has_ended && !is_answer {
            return Err(Fault::AfterShutdown);
        }
        if position != self.position {
            return Err(Fault::OutOfOrder);
        }
        if len == 0 && !is_answer {
            return Err(Fault::WrongState);
        }
        match target {
            Target::Advert { epoch, is_last } => self.place(len, is_inline, (epoch, is_last))?,
            Target::Ring { .. } if is_answer => {
                self.awaits_answer = false;
                self.void();
            }
            Target::Ring { holds } => {
                if len > self.ring.free() {
                    return Err(Fault::RingOverfilled);
                }
                self.void();
                self.holds = holds;
                self.fill_ring(len, is_inline);
            }
        }
        self.position += u64::from(len);
        self.settle();
        Ok(())
    }

    /// Takes SHUTDOWN: the peer has sent `end` octets, and sends no more.
    ///
    /// # Errors
    /// [`Fault::AfterShutdown`] for a second one, [`Fault::OutOfOrder`] for another position.
    pub fn handle_shutdown(&mut self, end: u64) -> Result<(), Fault> {
        if self.has_ended {
            return Err(Fault::AfterShutdown);
        }
        if end != self.position {
            return Err(Fault::OutOfOrder);
        }
        self.has_ended = true;
        self.settle();
        Ok(())
    }

    /// Takes what goes on the wire next, if anything does.
    pub fn poll_control(&mut self) -> Option<Control> {
        if self.has_ended {
            return None;
        }
        if !self.awaits_answer {
            if self.receives.iter().take(self.advertised).any(|receive| receive.is_canceled) {
                self.awaits_answer = true;
                return Some(Control::Revoke { epoch: self.epoch });
            }
            // In front of FREE, which would let the peer send octets through the ring and make the advert stale.
            if let Some(window) = self.advertise() {
                return Some(Control::Advert(window));
            }
        }
        let is_due = if self.holds {
            // An advert ends the hold too. If FREE came first, the advert would be stale.
            self.ring.unread() == 0 && self.receives.is_empty()
        } else {
            self.ring.total_read() - self.told >= u64::from(self.terms.ring_part)
        };
        if !is_due {
            return None;
        }
        self.told = self.ring.total_read();
        self.holds = false;
        Some(Control::Free { read: self.told })
    }

    /// Returns what has to be done next on this side.
    pub fn poll_local(&mut self) -> Option<Local> {
        self.local.pop_front()
    }

    /// Returns all receives that have not ended, in order.
    pub fn ops(&self) -> impl Iterator<Item = Op> {
        self.receives.iter().map(|receive| receive.op)
    }

    /// Returns how many octets in the ring nobody has read.
    #[must_use]
    pub const fn unread(&self) -> u32 {
        self.ring.unread()
    }

    /// Returns true if octets wait for a receive, or no further ones come.
    #[must_use]
    pub const fn is_readable(&self) -> bool {
        self.ring.unread() > 0 || self.has_ended || self.is_shut
    }

    /// Returns true if SHUTDOWN came: no octet follows those that are unread.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns how many octets of the stream came.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Takes octets for the first receive, which have been written there or are in the slot.
    fn place(&mut self, len: u32, is_inline: bool, (epoch, is_last): (u32, bool)) -> Result<(), Fault> {
        let is_valid = epoch == self.epoch && !self.is_void && self.advertised > 0;
        let head = self.receives.front().filter(|head| is_valid && len <= head.rest());
        let head = head.ok_or(Fault::NoAdvert)?;
        if is_last != (len == head.rest() || !head.waits_for_all) {
            return Err(Fault::WrongState);
        }
        // The peer has taken the first advert of the epoch, which said that the ring was empty.
        self.told = self.ring.total_read();
        self.holds = false;
        if is_inline {
            self.fill(Place::Slot { at: 0 }, len, Way::Inline);
        } else if let Some(head) = self.receives.front_mut() {
            head.filled += len;
        }
        Ok(())
    }

    /// Takes octets of the ring into use. Immediate data goes to receives that wait, and what is left into the ring.
    fn fill_ring(&mut self, len: u32, is_inline: bool) {
        if !is_inline {
            self.ring.write(len);
            return;
        }
        let mut at = 0;
        while at < len && !self.is_shut {
            let filled = self.fill(Place::Slot { at }, len - at, Way::Inline);
            if filled == 0 {
                break;
            }
            at += filled;
            self.ring.write(filled);
            self.ring.read(filled);
            self.end_full();
        }
        for span in self.ring.write(len - at).into_iter().filter(|span| span.len > 0) {
            let (from, to) = (Place::Slot { at }, Place::Ring { at: span.at });
            self.local.push_back(Local::Copy { from, to, len: span.len });
            at += span.len;
        }
    }

    /// All adverts are void, and the next one is the first of an epoch. Canceled receives end.
    fn void(&mut self) {
        for receive in self.receives.iter().take(self.advertised) {
            self.local.push_back(Local::Unbind { op: receive.op });
        }
        let mut at = 0;
        for _ in 0..self.advertised {
            let is_canceled = self.receives.get(at).is_some_and(|receive| receive.is_canceled);
            match if is_canceled { self.receives.remove(at) } else { None } {
                Some(receive) => self.end(&receive, !self.is_shut),
                None => at += 1,
            }
        }
        self.advertised = 0;
        self.is_void = true;
    }

    /// Copies what the ring holds to receives, and ends the receives that are done.
    fn settle(&mut self) {
        while let Some(head) = self.receives.front() {
            if !self.is_shut {
                for span in self.ring.read(head.rest()).into_iter().filter(|span| span.len > 0) {
                    self.fill(Place::Ring { at: span.at }, span.len, Way::Ring);
                }
            }
            let is_empty = self.ring.unread() == 0;
            let is_done = |head: &Receive| {
                let has_some = head.filled > 0 && !head.waits_for_all;
                head.rest() == 0 || is_empty && (has_some || self.has_ended)
            };
            let is_unread = self.is_shut && self.advertised == 0;
            if !self.receives.front().is_some_and(|head| is_unread || is_done(head)) {
                break;
            }
            self.end_first();
        }
    }

    /// Copies octets into the first receive, as many as it has room for, and returns how many.
    fn fill(&mut self, from: Place, len: u32, way: Way) -> u32 {
        let Some(head) = self.receives.front_mut() else { return 0 };
        let len = len.min(head.rest());
        let to = Place::Receive { op: head.op, at: head.filled };
        head.filled += len;
        head.way = head.way.max(way);
        self.local.push_back(Local::Copy { from, to, len });
        len
    }

    fn end_full(&mut self) {
        while self.receives.front().is_some_and(|head| head.rest() == 0) {
            self.end_first();
        }
    }

    fn end_first(&mut self) {
        if let Some(receive) = self.receives.pop_front() {
            if self.advertised > 0 {
                self.advertised -= 1;
                self.local.push_back(Local::Unbind { op: receive.op });
            }
            self.end(&receive, receive.is_canceled && !self.is_shut);
        }
    }

    fn end(&mut self, receive: &Receive, is_canceled: bool) {
        let Receive { op, filled, way, .. } = *receive;
        let is_canceled = is_canceled && filled == 0;
        self.local.push_back(Local::Done(Received { op, octets: filled, is_canceled, way }));
    }

    fn mark_canceled(&mut self, at: usize) {
        if let Some(receive) = self.receives.get_mut(at) {
            receive.is_canceled = true;
        }
    }

    /// Advertises the next receive, if one may be. REVOKE without an answer is the caller's to look at.
    pub(crate) fn advertise(&mut self) -> Option<Window> {
        if self.ring.unread() > 0 || self.advertised >= self.terms.adverts {
            return None;
        }
        let mut next = self.receives.iter().skip(self.advertised);
        // Without a ring, and when the peer holds, the peer waits for an advert.
        let is_needed = self.terms.ring == 0
            || self.holds
            || next.clone().any(|receive| receive.rest() > self.terms.small);
        let receive = next.next().filter(|receive| is_needed && receive.len > 0)?;
        let first = self.is_void.then_some(self.position);
        if self.is_void {
            self.epoch = next_epoch(self.epoch);
            self.is_void = false;
        }
        self.advertised += 1;
        let Receive { op, filled, waits_for_all, .. } = *receive;
        Some(Window { op, at: filled, len: receive.rest(), epoch: self.epoch, first, waits_for_all })
    }
}
