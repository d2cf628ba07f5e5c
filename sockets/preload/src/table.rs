//! What each descriptor of this process is.
//!
//! The table is this process's own memory, so a child of fork has a copy. Before the constructor has run, and in a process
//! that the library leaves alone, there is no table: then every hook is the kernel's call.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::real::{self, Once};

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Nobody has looked yet.
    Unknown,
    /// Nothing that this library cares about.
    Other,
    /// A stream socket of TCP.
    Stream(Handle),
    /// An epoll set: its place among the sets of this process.
    Set(u32),
}

/// An end in the family's slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    /// The place.
    pub(crate) slot: u32,
    /// How often the place was used. If the end has another generation by now, this one is gone.
    pub(crate) generation: u32,
}

impl Entry {
    /// Packs the entry: kind in 8 bits, generation in 24, slot or set in 32.
    const fn to_word(self) -> u64 {
        match self {
            Self::Unknown => UNKNOWN,
            Self::Other => OTHER,
            Self::Stream(handle) => (handle.slot as u64) << 32 | (handle.generation as u64) << 8 | STREAM,
            Self::Set(set) => (set as u64) << 32 | SET,
        }
    }

    #[inline]
    const fn from_word(word: u64) -> Self {
        match word & 0xff {
            STREAM => {
                Self::Stream(Handle { slot: (word >> 32) as u32, generation: (word >> 8 & 0xff_ffff) as u32 })
            }
            OTHER => Self::Other,
            SET => Self::Set((word >> 32) as u32),
            _ => Self::Unknown,
        }
    }
}

/// Makes the table, with a place for each descriptor that the process may ever have.
pub(crate) fn open() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let places = limit.and_then(|limit| usize::try_from(limit).ok()).map_or(MOST, |limit| limit.min(MOST));
    TABLE.set(|| real::reserve(places));
    keep_in_children(false);
}

/// True if there is a table: else the library leaves the process alone.
pub(crate) fn is_open() -> bool {
    TABLE.get().is_some()
}

/// Takes the table away for good.
pub(crate) fn retire() {
    TABLE.retire();
}

/// Returns the entry of a descriptor, or `None` if the table has no place for it.
#[inline]
pub(crate) fn entry(descriptor: c_int) -> Option<Entry> {
    place(descriptor).map(|place| Entry::from_word(place.load(Ordering::Acquire)))
}

/// Changes the entry of a descriptor, and returns the one before.
pub(crate) fn replace(descriptor: c_int, entry: Entry) -> Entry {
    let Some(place) = place(descriptor) else { return Entry::Unknown };
    if entry != Entry::Unknown {
        let behind = usize::try_from(descriptor).map_or(0, |descriptor| descriptor + 1);
        BEHIND.fetch_max(behind, Ordering::Relaxed);
    }
    Entry::from_word(place.swap(entry.to_word(), Ordering::AcqRel))
}

/// Changes an entry that nobody has changed meanwhile. Returns false if somebody has.
pub(crate) fn exchange(descriptor: c_int, from: Entry, to: Entry) -> bool {
    place(descriptor).is_some_and(|place| {
        place.compare_exchange(from.to_word(), to.to_word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })
}

/// Chooses whether children have the table. Else they find it empty.
pub(crate) fn keep_in_children(is_kept: bool) {
    if let Some(table) = TABLE.get() {
        real::keep_in_children(table, is_kept);
    }
}

/// The number behind the highest descriptor that ever had an entry.
pub(crate) fn behind() -> c_int {
    c_int::try_from(BEHIND.load(Ordering::Relaxed)).unwrap_or(c_int::MAX)
}

#[inline]
fn place(descriptor: c_int) -> Option<&'static AtomicU64> {
    TABLE.get()?.get(usize::try_from(descriptor).ok()?)
}

static TABLE: Once<&'static [AtomicU64]> = Once::new();
static BEHIND: AtomicUsize = AtomicUsize::new(0);
/// Descriptors above this number stay the kernel's.
const MOST: usize = 1 << 22;
const UNKNOWN: u64 = 0;
const OTHER: u64 = 1;
const STREAM: u64 = 2;
const SET: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_back_and_numbers_outside_of_the_table_have_none() {
        open();
        let handle = Handle { slot: 0xffff, generation: 0xab_cdef };
        let entries = [Entry::Stream(handle), Entry::Set(7), Entry::Other, Entry::Unknown];
        for (given, before) in entries.into_iter().zip([Entry::Unknown].into_iter().chain(entries)) {
            assert_eq!(replace(900, given), before);
            assert_eq!(entry(900), Some(given));
        }
        assert!(exchange(900, Entry::Unknown, Entry::Other) && !exchange(900, Entry::Unknown, Entry::Other));
        assert_eq!((entry(-1), entry(c_int::MAX)), (None, None));
        assert!(behind() > 900);
    }
}
