//! The way back to TCP, asked for by the reader: what the reader has not taken from the ring goes through the kernel's
//! socket, so that a program without this library can go on with the stream.
//!
//! Inside a host nothing has to announce that in the kernel's stream. The sender publishes the leg by TCP before its
//! first octet, and the reader takes nothing between its question and the answer.

use crate::broken::Broken;
use crate::inbound::Inbound;
use crate::layout::{ASKED, ATTACHED, COMMITTED, DECLINED, FINAL};
use crate::leg::{Carrier, Leg};
use crate::outbound::Outbound;
use crate::reason::Reason;
#[cfg(not(loom))]
use crate::ring::{Ring, index};
use crate::sync::Ordering;

impl Outbound<'_> {
    /// Promises the reader that the next leg is a ring: the sender's last step before that leg. From now on the reader
    /// has to ask. Returns false if the reader has not attached, or has withdrawn.
    #[must_use]
    pub fn commit(&self) -> bool {
        let attached = &self.shared.reader.attached;
        let committed = attached.compare_exchange(ATTACHED, COMMITTED, Ordering::AcqRel, Ordering::Relaxed);
        matches!(committed, Ok(_) | Err(COMMITTED))
    }

    /// Goes back to TCP for good if the reader has asked for it. What the reader has not taken becomes the
    /// [backlog](Self::backlog). Returns false if the reader has not asked, or if the stream has ended: the kernel takes
    /// nothing behind the end.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn obey(&self) -> Result<bool, Broken> {
        if !self.has_question() {
            return Ok(false);
        }
        if self.is_attached() != Some(false) {
            self.give_back()?;
            self.shared.reader.attached.store(DECLINED, Ordering::Release);
        }
        Ok(true)
    }

    /// Returns why the reader asks for TCP, as a reason of this end: the other one is drained, or declined. `None`: it does not
    /// ask, though its daemon may.
    #[must_use]
    pub fn why_asked(&self) -> Option<Reason> {
        let reader = &self.shared.reader;
        let is_asked = reader.please.load(Ordering::Acquire) == ASKED;
        let is_drained = reader.why.load(Ordering::Relaxed) == Reason::Drained as u32;
        is_asked.then_some(if is_drained { Reason::Drained } else { Reason::Refused })
    }

    /// True if the reader asks for TCP, and has not taken all of a ring that the sender has left by itself. What others
    /// have written to the kernel's socket since then would come before the rest. So the sender [gives it
    /// back](Self::give_back) and sends it before it [obeys](Self::obey), and does not obey if others have written.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn owes_rest(&self) -> Result<bool, Broken> {
        let leg = self.own.leg();
        if !self.has_question() || self.is_attached() == Some(false) || leg.carrier != Carrier::Tcp {
            return Ok(false);
        }
        let is_begun = self.own.backlog.load(Ordering::Relaxed) != 0;
        Ok(is_begun || self.first_unread(leg)? < self.start_of(leg))
    }

    /// True if the reader has asked for TCP, and the stream goes on.
    fn has_question(&self) -> bool {
        let is_ended = self.shared.producer.flags.load(Ordering::Relaxed) & FINAL != 0;
        self.shared.reader.please.load(Ordering::Acquire) != 0 && !is_ended
    }

    /// Begins a leg by TCP at the first octet that the reader, which has asked for that, has not taken. The reader takes
    /// nothing before the sender [obeys](Self::obey).
    ///
    /// # Errors
    /// As [`room`](Self::room), or if octets have gone by TCP already that would come before those of the ring.
    pub fn give_back(&self) -> Result<(), Broken> {
        self.publish(0, false)?;
        let leg = self.own.leg();
        let (start, end) = (self.start_of(leg), self.own.written.load(Ordering::Relaxed));
        let from = self.first_unread(leg)?;
        let (next, backlog) = match leg.carrier {
            Carrier::Ring(place) if end.wrapping_sub(start.max(from)) <= place.len() => {
                (leg.next(Carrier::Tcp), if from < end { leg.to_word() } else { 0 })
            }
            // The reader has come to it.
            Carrier::Tcp if from >= start => return Ok(()),
            // The sender has gone back by itself, and the reader is in the ring still: this leg begins earlier.
            Carrier::Tcp if end == start => (leg, self.own.before.load(Ordering::Relaxed)),
            // What went by TCP since then would come before the rest of the ring.
            _ => return Err(Broken),
        };
        self.own.head.store(from, Ordering::Relaxed);
        self.own.backlog.store(backlog, Ordering::Relaxed);
        self.own.starts[usize::from(next.number & 1)].store(from, Ordering::Relaxed);
        self.own.leg.store(next.to_word(), Ordering::Release);
        self.republish();
        Ok(())
    }

    /// Returns the octets of the last ring that have to go out before all else: address and length of at most two
    /// pieces, or `None` if there are none.
    #[cfg(not(loom))]
    #[must_use]
    pub fn backlog(&self) -> Option<[(*mut u8, usize); 2]> {
        let word = self.own.backlog.load(Ordering::Relaxed);
        let leg = Leg::from_word(word).filter(|leg| leg.carrier != Carrier::Tcp)?;
        let from = self.own.head.load(Ordering::Relaxed);
        let start = self.start_of(leg);
        let (carrier, end) = if from < start {
            (self.before(), start)
        } else {
            (leg.carrier, self.own.written.load(Ordering::Relaxed))
        };
        let Carrier::Ring(place) = carrier else { return None };
        let left = end.checked_sub(from)?;
        let is_due = self.own.leg().carrier == Carrier::Tcp && left > 0;
        is_due.then(|| Ring::new(self.link.ring(place)).pieces(from, index(left)))
    }

    /// The first octet that the reader, which takes none at the moment, has not taken of the leg and the one before.
    fn first_unread(&self, leg: Leg) -> Result<u64, Broken> {
        let is_adopted = self.shared.consumer.adopted.load(Ordering::Acquire) == u64::from(leg.number);
        let head = self.shared.consumer.head.load(Ordering::Acquire);
        let (start, written) = (self.start_of(leg), self.own.written.load(Ordering::Relaxed));
        let is_possible = match self.before() {
            _ if is_adopted => (start..=written).contains(&head),
            Carrier::Ring(place) => head <= start && start - head <= place.len(),
            // The reader takes what went by TCP from there.
            Carrier::Tcp => return Ok(start),
        };
        if is_possible { Ok(head) } else { Err(Broken) }
    }

    pub(crate) fn start_of(&self, leg: Leg) -> u64 {
        self.own.starts[usize::from(leg.number & 1)].load(Ordering::Relaxed)
    }

    fn before(&self) -> Carrier {
        Leg::from_word(self.own.before.load(Ordering::Relaxed)).unwrap_or_default().carrier
    }

    /// Notes that the kernel's socket has taken the first `len` octets of the backlog.
    pub fn resent(&self, len: usize) {
        let now = self.own.head.load(Ordering::Relaxed).wrapping_add(len as u64);
        if now >= self.own.written.load(Ordering::Relaxed) {
            // Before the head: a relative that takes the lock of a dead owner must not take what it writes for a rest.
            self.own.backlog.store(0, Ordering::Relaxed);
        }
        self.own.head.store(now, Ordering::Relaxed);
    }
}

impl Inbound<'_> {
    /// Leaves the ring before the sender has come to it. Returns false if the sender has [committed](Outbound::commit)
    /// itself: then the reader has to ask it.
    #[must_use]
    pub fn withdraw(&self) -> bool {
        let attached = &self.shared.reader.attached;
        let withdrawn = attached.compare_exchange(ATTACHED, DECLINED, Ordering::AcqRel, Ordering::Acquire);
        !matches!(withdrawn, Err(COMMITTED))
    }

    /// Asks the sender to go back to TCP at the next octet. The reader keeps the direction's lock until the sender
    /// [has answered](Self::is_answered).
    pub fn ask_back(&self) {
        self.republish();
        self.shared.reader.please.store(ASKED, Ordering::Release);
    }

    /// As [`ask_back`](Self::ask_back), and tells the sender why.
    pub fn ask_back_because(&self, reason: Option<Reason>) {
        self.shared.reader.why.store(reason.map_or(0, |reason| reason as u32), Ordering::Relaxed);
        self.ask_back();
    }

    /// Takes the question back, since the sender has not answered for long.
    pub fn ask_no_more(&self) {
        self.shared.reader.please.store(0, Ordering::Release);
    }

    /// True if the sender is back on TCP, or never leaves it. A sender whose stream has [ended](Self::end) does not answer.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.shared.reader.attached.load(Ordering::Acquire) == DECLINED
    }

    /// Goes on to the leg by TCP that the sender has begun by itself, if all octets before it are taken. Returns true if
    /// the reader is there. The sender stays on TCP and need not be asked: its process may be another program by now.
    #[must_use]
    pub fn follow(&self) -> bool {
        let is_sound = self.source().is_ok();
        let leg = self.own.leg();
        is_sound && leg.carrier == Carrier::Tcp && leg.number != 0
    }

    /// Goes on with TCP after the sender's answer.
    ///
    /// # Errors
    /// The sender's last leg is no TCP, or not one of the next two: the reader may be a ring behind.
    pub fn come_back(&self) -> Result<(), Broken> {
        let (word, own) = (self.shared.legs.leg.load(Ordering::Acquire), self.own.leg().number);
        match Leg::from_word(word) {
            Some(Leg { carrier: Carrier::Tcp, number }) if number.wrapping_sub(own) <= 2 => {
                self.own.tail.store(self.own.consumed.load(Ordering::Relaxed), Ordering::Relaxed);
                self.own.leg.store(word, Ordering::Release);
                Ok(())
            }
            _ => Err(Broken),
        }
    }
}
