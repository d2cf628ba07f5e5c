//! Registered memory, reached by copies through raw pointers only.
//!
//! The application and a peer may change registered memory at any moment, so this file never makes a reference to its
//! octets: everything goes through [`Region::copy_in`] and [`Region::copy_out`]. It is the only file of the crate that
//! holds `unsafe` code.
#![allow(unsafe_code)]

use core::ptr::NonNull;

/// A run of octets that stays at its address for as long as the value lives.
///
/// Either the region owns its memory ([`Region::owned`]), or the creator promised to keep it ([`Region::raw`]).
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    owned: bool,
}

impl Region {
    /// Allocates `len` zeroed octets that the region owns, or `None` when there is not that much memory.
    pub fn owned(len: usize) -> Option<Self> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(len).ok()?;
        memory.resize(len, 0_u8);
        let memory: *mut [u8] = Box::into_raw(memory.into_boxed_slice());
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
            let slice = core::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len);
            // SAFETY: an owned region's pointer and length come from Box::into_raw in `owned` and are freed only here.
            drop(unsafe { Box::from_raw(slice) });
        }
    }
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
