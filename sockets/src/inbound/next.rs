//! The leg behind the current one: what its ring has already.

use crate::broken::Broken;
use crate::inbound::Inbound;
use crate::layout::ASKED;
use crate::leg::{Carrier, Leg};
use crate::ring::Ring;
use crate::sync::Ordering;

impl<'a> Inbound<'a> {
    /// Returns how many octets wait in the ring of the next leg, behind the rest of this one.
    ///
    /// # Errors
    /// As [`source`](Self::source).
    pub fn behind(&self) -> Result<u64, Broken> {
        Ok(self.next_ring()?.map_or(0, |(_, _, available)| available))
    }

    /// True if the next leg is one by TCP.
    ///
    /// # Errors
    /// As [`source`](Self::source).
    pub fn is_before_tcp(&self) -> Result<bool, Broken> {
        let next = self.next_leg(self.own.consumed.load(Ordering::Relaxed))?;
        Ok(next.is_some_and(|(leg, _)| leg.carrier == Carrier::Tcp))
    }

    /// As [`peek`](Self::peek), in the ring of the next leg: place 0 is behind the rest of this one.
    ///
    /// # Errors
    /// As [`source`](Self::source).
    pub fn peek_behind(&self, offset: u64, octets: &mut [u8]) -> Result<usize, Broken> {
        let Some((ring, start, available)) = self.next_ring()? else { return Ok(0) };
        Ok(self.copy(&ring, available.saturating_sub(offset), start.wrapping_add(offset), octets))
    }

    /// True if the reader has asked for TCP before it came to a ring. It comes to none any more: a sender on another host sends
    /// no record then.
    pub(super) fn asks_before_ring(&self) -> bool {
        self.is_before_ring() && self.shared.reader.please.load(Ordering::Relaxed) == ASKED
    }

    /// The leg behind the current one and its start, if the sender has begun it.
    #[inline]
    pub(super) fn next_leg(&self, consumed: u64) -> Result<Option<(Leg, u64)>, Broken> {
        let (word, own) =
            (self.shared.legs.leg.load(Ordering::Acquire), self.own.leg.load(Ordering::Relaxed));
        if word == own || self.has_left() {
            return Ok(None);
        }
        let start = self.shared.legs.start.load(Ordering::Relaxed);
        match Leg::from_word(word) {
            Some(leg) if leg == self.own.leg().next(leg.carrier) && start >= consumed => {
                Ok(Some((leg, start)))
            }
            _ => Err(Broken),
        }
    }

    /// The ring of the next leg, its start and how many octets it has, if the sender has begun one.
    fn next_ring(&self) -> Result<Option<(Ring<'a>, u64, u64)>, Broken> {
        let next = self.next_leg(self.own.consumed.load(Ordering::Relaxed))?;
        let Some((Leg { carrier: Carrier::Ring(place), .. }, start)) = next else { return Ok(None) };
        let ring = Ring::new(self.link.ring(place));
        match self.shared.producer.tail.load(Ordering::Acquire).checked_sub(start) {
            Some(available) if available <= ring.size() => Ok(Some((ring, start, available))),
            _ => Err(Broken),
        }
    }
}
