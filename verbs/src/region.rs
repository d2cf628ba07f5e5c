//! Registered memory, reached by copies through raw pointers only.
//!
//! The application and a peer may change registered memory at any moment, so this file makes no reference to its octets
//! but, for the time of one operation, that of [`Region::update`] to an atomic word: everything goes through that,
//! [`Region::copy_in`] and [`Region::copy_out`]. It is the only file of the crate that holds `unsafe` code.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

/// A run of octets that stays at its address for as long as the value lives.
///
/// Either the region owns its memory ([`Region::owned`]), or the creator promised to keep it ([`Region::raw`]).
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    owned: bool,
}

impl Region {
    /// Allocates `len` zeroed octets that the region owns, or `None` when there is not that much memory. The first one is
    /// aligned to 8, as Atomics need it.
    pub fn owned(len: usize) -> Option<Self> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(words(len)).ok()?;
        memory.resize(words(len), 0_u64);
        let memory: *mut [u64] = Box::into_raw(memory.into_boxed_slice());
        // Box::into_raw never answers null, so this is never None.
        let start = NonNull::new(memory.cast::<u8>())?;
        Some(Self { start, len, owned: true })
    }

    /// Makes a region of memory that somebody else owns.
    ///
    /// # Safety
    /// `start..start + len` must be valid for reads and writes until the region is dropped, and nobody may rely on its
    /// content being stable: the engine reads and writes it whenever a peer or a work request asks for it.
    pub const unsafe fn raw(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, owned: false }
    }

    /// Copies `octets` into the region at `offset`; `false`, and nothing is copied, when that is out of bounds.
    #[must_use]
    pub fn copy_in(&self, offset: usize, octets: &[u8]) -> bool {
        if !self.holds(offset, octets.len()) {
            return false;
        }
        // SAFETY: the bounds were checked above and the creator of the region keeps start..start + len valid. `octets` is
        // a Rust slice and the region's memory is never lent as one, so the two do not overlap. Another thread or process
        // may touch the same octets at the same time; no reference exists to them, and whoever races gets one or the
        // other octet, as with the hardware this models.
        unsafe {
            core::ptr::copy_nonoverlapping(octets.as_ptr(), self.start.as_ptr().add(offset), octets.len());
        }
        true
    }

    /// Copies `octets.len()` octets at `offset` out of the region; `false`, and nothing is copied, when out of bounds.
    #[must_use]
    pub fn copy_out(&self, offset: usize, octets: &mut [u8]) -> bool {
        if !self.holds(offset, octets.len()) {
            return false;
        }
        // SAFETY: as in `copy_in`, with source and destination exchanged.
        unsafe {
            core::ptr::copy_nonoverlapping(
                self.start.as_ptr().add(offset),
                octets.as_mut_ptr(),
                octets.len(),
            );
        }
        true
    }

    /// Replaces the 64 bits at `offset`, in the machine's byte order, by what `change` makes of them, and answers what they
    /// were. Atomic with regard to all other updates and to the atomic instructions of the machine. `None`, and nothing is
    /// changed, when they are out of bounds or not aligned in memory.
    #[must_use]
    pub fn update(&self, offset: usize, change: impl Fn(u64) -> u64) -> Option<u64> {
        if !self.holds(offset, size_of::<u64>()) || !self.is_aligned(offset) {
            return None;
        }
        // SAFETY: the bounds were checked above and the creator of the region keeps start..start + len valid, so that the
        // pointer is valid for eight octets for as long as the reference, which ends with this function, and it is aligned.
        // Whoever else writes the octets without atomic instructions races as in `copy_in`.
        let word = unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast::<u64>()) };
        let change = |value| Some(change(value));
        word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).ok()
    }

    /// Whether the octet at `offset` lies at an address that is a multiple of 8.
    pub fn is_aligned(&self, offset: usize) -> bool {
        self.start.as_ptr().addr().wrapping_add(offset).is_multiple_of(size_of::<u64>())
    }

    /// The address of the first octet, the default tagged offset (iova) of a memory region.
    pub fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// The number of octets.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the region has no octets.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    const fn holds(&self, offset: usize, len: usize) -> bool {
        offset <= self.len && len <= self.len - offset
    }
}

// SAFETY: the region is an address range without thread affinity; all access is by copies that need no exclusive borrow.
unsafe impl Send for Region {}
// SAFETY: as above; concurrent copies may interleave octets, which the documentation of the type allows.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        if self.owned {
            let words = self.start.as_ptr().cast::<u64>();
            let slice = core::ptr::slice_from_raw_parts_mut(words, self::words(self.len));
            // SAFETY: an owned region's pointer and length come from Box::into_raw in `owned` and are freed only here.
            drop(unsafe { Box::from_raw(slice) });
        }
    }
}

/// Words of 64 bits that hold `len` octets.
const fn words(len: usize) -> usize {
    len.div_ceil(size_of::<u64>())
}

impl core::fmt::Debug for Region {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Region")
            .field("address", &self.address())
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stay_inside() {
        let region = Region::owned(8).unwrap();
        assert!(region.copy_in(0, b"12345678"));
        assert!(!region.copy_in(1, b"12345678"));
        assert!(!region.copy_in(9, b""));
        assert!(!region.copy_in(usize::MAX, b"1"));
        let mut out = [0; 4];
        assert!(region.copy_out(4, &mut out));
        assert_eq!(&out, b"5678");
        assert!(!region.copy_out(5, &mut out));
        assert!(region.copy_out(8, &mut []));
    }

    #[test]
    fn updates_are_aligned_and_stay_inside() {
        let region = Region::owned(32).unwrap();
        let first = 8;
        assert!(region.is_aligned(0) && !region.is_aligned(4) && region.is_aligned(first));
        assert!(region.copy_in(first, &7_u64.to_ne_bytes()));
        assert_eq!(region.update(first, |value| value + 1), Some(7));
        let mut out = [0; 32];
        assert!(region.copy_out(0, &mut out));
        let mut expected = [0; 32];
        expected[first..first + 8].copy_from_slice(&8_u64.to_ne_bytes());
        assert_eq!(out, expected);
        for offset in [first + 1, first + 4, first + 7, 25, 32, usize::MAX - 7] {
            assert_eq!(region.update(offset, |_| 99), None);
        }
        assert!(region.copy_out(0, &mut out));
        assert_eq!(out, expected);
    }

    #[test]
    fn empty_and_impossible_sizes() {
        assert!(Region::owned(0).unwrap().is_empty());
        assert!(Region::owned(usize::MAX / 2).is_none());
    }

    #[test]
    fn raw_memory_is_left_to_its_owner() {
        let mut memory = [0_u8; 4];
        // SAFETY: `memory` outlives the region, which is dropped before it is read.
        let region = unsafe { Region::raw(NonNull::new(memory.as_mut_ptr()).unwrap(), 4) };
        assert!(region.copy_in(1, b"ab"));
        drop(region);
        assert_eq!(&memory, b"\0ab\0");
    }
}
