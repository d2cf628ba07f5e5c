//! The taken members of an epoll set in a row, so that a look at thousands of silent ones is short.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use weft_sockets::layout::OwnOutbound;
use weft_sockets::{Quiet, WaiterName};

use crate::cells::{self, Place};
use crate::real::Once;

/// The row. All that changes it needs the set's section.
#[derive(Debug)]
pub(crate) struct Row {
    places: Once<&'static [Place<Seat>]>,
    count: AtomicU32,
}

/// A member in the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) descriptor: c_int,
    /// What the latest look found, if there was nothing to tell.
    pub(crate) silence: Option<Silence>,
    /// The set's waiter is named in the member's ring as for this sleep of the set's. 0: for none.
    pub(crate) named: u64,
}

/// A member of which there is nothing to tell until something changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    pub(crate) ring: Quiet<'static>,
    /// The sending direction, if the program asked for room, and its count of sends without room.
    pub(crate) room: Option<(&'static OwnOutbound, u32)>,
}

impl Row {
    pub(crate) const fn new() -> Self {
        Self { places: Once::new(), count: AtomicU32::new(0) }
    }

    /// How many members are taken.
    pub(crate) fn len(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// Adds a member. Returns its place, or `None` if there is no room.
    pub(crate) fn add(&self, descriptor: c_int) -> Option<u32> {
        let places = self.places.get().or_else(|| self.places.set(|| cells::reserve(SEATS)))?;
        let count = self.len();
        places.get(count as usize)?.set(Some(Seat::new(descriptor)));
        self.count.store(count + 1, Ordering::SeqCst);
        Some(count)
    }

    /// Removes the member at a place. Returns the descriptor of the one that has the place now, if another one has.
    pub(crate) fn remove(&self, at: u32) -> Option<c_int> {
        let last = self.len().checked_sub(1)?;
        let moved = self.place(last)?.get()?;
        self.place(at)?.set(Some(moved));
        self.count.store(last, Ordering::SeqCst);
        (at != last).then_some(moved.descriptor)
    }

    /// Forgets what looks found of the member at a place.
    pub(crate) fn forget(&self, at: u32) {
        if let Some((place, seat)) = self.place(at).and_then(|place| Some((place, place.get()?))) {
            place.set(Some(Seat::new(seat.descriptor)));
        }
    }

    /// All places, beginning with another one at each turn.
    #[inline]
    pub(crate) fn places(&self, turn: u32) -> impl Iterator<Item = &'static Place<Seat>> {
        let count = self.len() as usize;
        let places = self.places.get().and_then(|places| places.get(..count)).unwrap_or_default();
        let (behind, first) = places.split_at(if count == 0 { 0 } else { turn as usize % count });
        first.iter().chain(behind)
    }

    fn place(&self, at: u32) -> Option<&'static Place<Seat>> {
        self.places.get()?.get(at as usize)
    }
}

impl Seat {
    const fn new(descriptor: c_int) -> Self {
        Self { descriptor, silence: None, named: 0 }
    }

    /// True if a look found nothing to tell, and nothing came since.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        self.silence.is_some_and(|Silence { ring, room }| {
            ring.lasts() && room.is_none_or(|(outbound, full)| outbound.full.load(Ordering::Relaxed) == full)
        })
    }

    /// True if the member's ring names the set's waiter for this sleep, and nobody has changed that.
    pub(crate) fn is_named(&self, waiter: WaiterName, sleep: u64) -> bool {
        self.named == sleep && self.silence.is_some_and(|silence| silence.ring.is_announced(waiter))
    }
}

/// Members from here on are never taken.
const SEATS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_member_takes_the_place_of_one_that_goes() {
        let row = Row::new();
        assert_eq!([row.add(5), row.add(6), row.add(7)], [Some(0), Some(1), Some(2)]);
        let list = |turn| row.places(turn).map(|place| place.get().unwrap().descriptor).collect::<Vec<_>>();
        assert_eq!([list(0), list(1), list(2), list(3)], [[5, 6, 7], [6, 7, 5], [7, 5, 6], [5, 6, 7]]);
        assert_eq!(row.remove(0), Some(7));
        assert_eq!((list(0), row.len()), (vec![7, 6], 2));
        assert_eq!(row.remove(1), None);
        assert_eq!(row.remove(0), None);
        assert_eq!((row.remove(0), row.len()), (None, 0));
    }
}
