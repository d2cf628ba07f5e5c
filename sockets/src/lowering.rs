//! The way back to TCP, asked for by the reader: what the reader has not taken from the ring goes through the kernel's
//! socket, so that a program without this library can go on with the stream.
//!
//! Inside a host nothing has to announce that in the kernel's stream. The sender publishes the leg by TCP before its
//! first octet, and the reader takes nothing between its question and the answer.

use crate::broken::Broken;
use crate::inbound::Inbound;
use crate::layout::{ATTACHED, COMMITTED, DECLINED};
use crate::leg::{Carrier, Leg};
use crate::outbound::Outbound;
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
    /// [backlog](Self::backlog). Returns false if the reader has not asked.
    ///
    /// # Errors
    /// As [`room`](Self::room).
    pub fn obey(&self) -> Result<bool, Broken> {
        if self.shared.reader.please.load(Ordering::Acquire) == 0 {
            return Ok(false);
        }
        let leg = self.own.leg();
        if let Carrier::Ring(place) = leg.carrier {
            self.publish(0, false)?;
            let (from, end) = (self.first_unread(leg)?, self.own.written.load(Ordering::Relaxed));
            if end.wrapping_sub(self.start_of(leg).max(from)) > place.len() {
                return Err(Broken);
            }
            self.own.head.store(from, Ordering::Relaxed);
            self.own.backlog.store(if from < end { leg.to_word() } else { 0 }, Ordering::Relaxed);
            let next = leg.next(Carrier::Tcp);
            self.own.starts[usize::from(next.number & 1)].store(from, Ordering::Relaxed);
            self.own.leg.store(next.to_word(), Ordering::Release);
            self.republish();
        }
        self.shared.reader.attached.store(DECLINED, Ordering::Release);
        Ok(true)
    }

    /// Returns the octets of the last ring that have to go out before all else: address and length of at most two
    /// pieces, or `None` if there are none.
    #[cfg(not(loom))]
    #[must_use]
    pub fn backlog(&self) -> Option<[(*mut u8, usize); 2]> {
        let leg = Leg::from_word(self.own.backlog.load(Ordering::Relaxed))?;
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

    fn start_of(&self, leg: Leg) -> u64 {
        self.own.starts[usize::from(leg.number & 1)].load(Ordering::Relaxed)
    }

    fn before(&self) -> Carrier {
        Leg::from_word(self.own.before.load(Ordering::Relaxed)).unwrap_or_default().carrier
    }

    /// Notes that the kernel's socket has taken the first `len` octets of the backlog.
    pub fn resent(&self, len: usize) {
        let now = self.own.head.load(Ordering::Relaxed).wrapping_add(len as u64);
        self.own.head.store(now, Ordering::Relaxed);
        if now >= self.own.written.load(Ordering::Relaxed) {
            self.own.backlog.store(0, Ordering::Relaxed);
        }
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
        self.shared.reader.please.store(1, Ordering::Release);
    }

    /// Takes the question back, since the sender has not answered for long.
    pub fn ask_no_more(&self) {
        self.shared.reader.please.store(0, Ordering::Release);
    }

    /// True if the sender is back on TCP, or never leaves it.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.shared.reader.attached.load(Ordering::Acquire) == DECLINED
    }

    /// Goes on with TCP after the sender's answer.
    ///
    /// # Errors
    /// The sender's last leg is no TCP.
    pub fn come_back(&self) -> Result<(), Broken> {
        let word = self.shared.legs.leg.load(Ordering::Acquire);
        match Leg::from_word(word) {
            Some(Leg { carrier: Carrier::Tcp, .. }) => self.own.leg.store(word, Ordering::Release),
            _ => return Err(Broken),
        }
        Ok(())
    }
}
