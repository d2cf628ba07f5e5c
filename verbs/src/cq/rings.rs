//! The rings of a completion queue: one of them at a time is in use, and another one is put in its place to resize it.

use std::sync::OnceLock;

use crate::completion::PackedCompletion;
use crate::ring::{Counter, Ring};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// One ring for each power of two, made when it is wanted. They stay until the queue goes, so that a thread that still
/// looks at the one before needs no lock; memory that was never written costs nothing.
#[derive(Debug)]
pub(super) struct Rings {
    by_size: Box<[OnceLock<Box<Ring>>; SIZES]>,
    current: AtomicUsize,
}

impl Rings {
    pub(super) fn new(entries: u32) -> Self {
        Self {
            by_size: Box::new(core::array::from_fn(|_| OnceLock::new())),
            current: AtomicUsize::new(size_of(entries)),
        }
    }

    /// Returns the ring in use.
    #[inline]
    pub(super) fn current(&self) -> &Ring {
        self.ring(self.current.load(Ordering::Acquire))
    }

    /// Does `act` with the ring in use, and again if another one took its place meanwhile.
    pub(super) fn with_current(&self, act: impl Fn(&Ring)) {
        loop {
            let size = self.current.load(Ordering::SeqCst);
            act(self.ring(size));
            if self.current.load(Ordering::SeqCst) == size {
                return;
            }
        }
    }

    /// Puts a ring for at least `entries` in the place of the one in use, with the entries from `first` on. Neither a
    /// producer nor a consumer may be at work.
    pub(super) fn exchange(&self, entries: u32, first: u64) {
        let (old, size) = (self.current(), size_of(entries));
        let new = self.ring(size);
        if core::ptr::eq(old, new) {
            return;
        }
        let tail = old.tail();
        for index in first..tail {
            for (to, from) in new.entry(index).iter().zip(old.entry(index)) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        new.arm().store(0, Ordering::SeqCst);
        new.release(first);
        new.publish(tail);
        self.current.store(size, Ordering::SeqCst);
        // A thread that arms the old ring from now on sees that it is not in use any more, and arms this one.
        new.arm().fetch_or(old.arm().swap(0, Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Returns what all rings counted.
    pub(super) fn counted(&self, counter: Counter) -> u64 {
        self.by_size.iter().filter_map(OnceLock::get).map(|ring| ring.counted(counter)).sum()
    }

    #[inline]
    fn ring(&self, size: usize) -> &Ring {
        let size = size.min(SIZES - 1);
        self.by_size[size].get_or_init(|| Box::new(Ring::new(1 << size, PackedCompletion::OCTETS)))
    }
}

/// Returns the entries of the ring that `entries` get.
pub(super) fn rounded(entries: u32) -> u64 {
    1 << size_of(entries)
}

fn size_of(entries: u32) -> usize {
    let entries = entries.clamp(1, super::MAX_CQ_ENTRIES);
    entries.next_power_of_two().trailing_zeros() as usize
}

/// Sizes of rings, up to [`super::MAX_CQ_ENTRIES`].
const SIZES: usize = super::MAX_CQ_ENTRIES.trailing_zeros() as usize + 1;
