//! Octets that came before their turn.

use crate::{Interval, SackBlocks, Seq};

/// The ranges that were received beyond a gap, the newest first. No two of them touch.
///
/// The order is that of RFC 2018 section 4: the first block of SACK has the segment that came last, and the next ones
/// repeat the blocks reported before. An operation looks at each range once.
#[derive(Debug)]
pub(crate) struct Reassembly<I> {
    storage: I,
    len: usize,
}

impl<I: AsMut<[Interval]>> Reassembly<I> {
    pub(crate) const fn new(storage: I) -> Self {
        Self { storage, len: 0 }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all ranges (RFC 2018 section 8 allows it, but costs the peer a timeout).
    pub(crate) const fn clear(&mut self) {
        self.len = 0;
    }

    /// Exchanges the storage and returns the old one. Ranges for which the new one is too small are forgotten: the
    /// oldest ones.
    pub(crate) fn swap(&mut self, mut storage: I) -> I {
        let new = storage.as_mut();
        let len = self.len.min(new.len());
        for (place, range) in new.iter_mut().zip(self.storage.as_mut().iter()) {
            *place = *range;
        }
        self.len = len;
        core::mem::replace(&mut self.storage, storage)
    }

    /// Returns the first part of a range that was not received yet. It may be empty.
    pub(crate) fn missing(&mut self, range: Interval) -> Interval {
        let known = self.ranges();
        let start = known
            .iter()
            .find(|known| range.start.is_within(known.start, known.end))
            .map_or(range.start, |known| known.end);
        let behind = known.iter().map(|known| known.start).filter(|known| start.is_before(*known));
        let end = behind.fold(range.end, Seq::min);
        Interval::new(start, end.max(start))
    }

    /// Returns the first part of a range that was received before, if there is any.
    pub(crate) fn duplicate(&mut self, range: Interval) -> Option<Interval> {
        let common = |known: &Interval| Interval::new(known.start.max(range.start), known.end.min(range.end));
        let parts = self.ranges().iter().map(common).filter(|part| !part.is_empty());
        parts.reduce(|first, part| if part.start.is_before(first.start) { part } else { first })
    }

    /// Adds a range that is not empty and joins it with those that it touches. Returns false if there is no place.
    pub(crate) fn insert(&mut self, range: Interval) -> bool {
        let len = self.len;
        let storage = self.storage.as_mut();
        let mut whole = range;
        let mut kept = 0;
        for index in 0..len {
            let Some(&known) = storage.get(index) else { break };
            if whole.touches(known) {
                whole = whole.join(known);
            } else if let Some(place) = storage.get_mut(kept) {
                *place = known;
                kept += 1;
            }
        }
        self.len = kept;
        let Some(places) = storage.get_mut(..=kept) else { return false };
        places.rotate_right(1);
        if let Some(first) = places.first_mut() {
            *first = whole;
        }
        self.len = kept + 1;
        true
    }

    /// Takes out what has its turn with `next`, and returns the number behind it, or `next` if that was not received.
    pub(crate) fn advance(&mut self, next: Seq) -> Seq {
        let len = self.len;
        let storage = self.storage.as_mut();
        let (mut behind, mut kept) = (next, 0);
        for index in 0..len {
            let Some(&known) = storage.get(index) else { break };
            if next.is_before(known.start) {
                if let Some(place) = storage.get_mut(kept) {
                    *place = known;
                    kept += 1;
                }
            } else {
                behind = behind.max(known.end);
            }
        }
        self.len = kept;
        behind
    }

    /// Appends as many of the newest ranges as there is room for.
    pub(crate) fn report(&mut self, blocks: &mut SackBlocks) {
        for &range in self.ranges() {
            if !blocks.push(range) {
                return;
            }
        }
    }

    /// Whether any range has numbers from `number` on.
    pub(crate) fn reaches_beyond(&mut self, number: Seq) -> bool {
        self.ranges().iter().any(|range| number.is_before(range.end))
    }

    fn ranges(&mut self) -> &[Interval] {
        let len = self.len;
        self.storage.as_mut().get(..len).unwrap_or_default()
    }
}
