//! Memory that a region owns, and its octets as a slice.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed};

use super::{Home, Region};

impl Region {
    /// Allocates `len` zeroed octets that the region owns, or `None` when there is not that much memory. The first one
    /// is aligned to 8, as Atomics need it. The system gives pages where somebody touches them, so that large memory
    /// that is not used costs nothing.
    pub fn owned(len: usize) -> Option<Self> {
        let layout = Layout::array::<u64>(len.div_ceil(size_of::<u64>())).ok()?;
        let start = match layout.size() {
            0 => NonNull::<u64>::dangling().cast(),
            // SAFETY: the size of the layout is not 0.
            _ => NonNull::new(unsafe { alloc_zeroed(layout) })?,
        };
        Some(Self { start, len, home: Home::Allocator, writable: true, entries: None, backing: None })
    }

    /// Returns the octets as a slice, for an owner that keeps all others from changing them. [`Region::copy_out`] has
    /// no such condition.
    ///
    /// # Safety
    /// 1. The region is [`Region::owned`], or a part of such memory.
    /// 2. As long as the slice lives, no octet of it changes. So no request under way places octets there, no peer has
    ///    the right to write or to do Atomics there (through a memory region or a bound window), and no code calls
    ///    [`Region::copy_in`], [`Region::update`] or [`Region::as_mut_slice`] on memory that overlaps it.
    /// 3. All earlier changes happened before the call. The caller has polled the completion of the request that placed
    ///    octets there, or has taken the peer's right away (by deregistration, by an invalidation that has completed,
    ///    or by `weft_rnic::Mw::revoke`). This was in the calling thread, or in one that it has synchronized with
    ///    since.
    pub const unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: an owned region has `len` initialized octets at `start`, or lies in one that it keeps alive. The
        // caller promises that nobody changes them.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Returns the octets as a slice to be changed, for an owner that keeps all others away from them.
    ///
    /// # Safety
    /// As for [`Region::as_slice`]. In addition nobody reads an octet of it as long as the slice lives: no request
    /// under way takes octets from there, no peer has the right to read there, and no code calls [`Region::copy_out`]
    /// or [`Region::as_slice`] on memory that overlaps it.
    pub const unsafe fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; and the caller promises that the slice is the only way to the octets.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::param::page_size;

    use super::*;

    #[test]
    fn memory_is_zeroed_aligned_and_of_any_length() {
        for len in [0, 1, 7, 8, 9, 4096, 100_001] {
            let region = Region::owned(len).unwrap();
            let mut octets = vec![0xEE; len];
            assert!(region.copy_out(0, &mut octets) && region.is_aligned(0));
            assert_eq!((region.len(), octets), (len, vec![0; len]));
        }
        assert!(Region::owned(usize::MAX).is_none() && Region::owned(usize::MAX / 2).is_none());
    }

    /// Counts the pages of a region that the system has given so far; `None` if it does not tell.
    fn pages(region: &Region) -> Option<usize> {
        const ENTRY: usize = 8;
        let first = region.start.as_ptr().addr() / page_size();
        let mut entries = vec![0; region.len() / page_size() * ENTRY];
        let table = File::open("/proc/self/pagemap").ok()?;
        table.read_exact_at(&mut entries, (first * ENTRY) as u64).ok()?;
        let present = |entry: &&[u8; ENTRY]| u64::from_ne_bytes(**entry) >> 63 == 1;
        Some(entries.as_chunks::<ENTRY>().0.iter().filter(present).count())
    }

    #[test]
    fn memory_that_is_not_touched_takes_no_pages() {
        if cfg!(miri) {
            return println!("skipped: Miri's memory is not the system's");
        }
        let region = Region::owned(LARGE).unwrap();
        let Some(untouched) = pages(&region) else {
            return println!("skipped: /proc/self/pagemap cannot be read");
        };
        // The allocator's own words stand in the first page.
        assert!(untouched <= 1, "{untouched} pages");
        assert!(region.copy_in(LARGE / 2, b"touched"));
        // It may be a huge one.
        let touched = pages(&region).unwrap();
        assert!(touched > untouched && touched <= LARGE / page_size() / 2, "{touched} pages");
    }

    #[test]
    fn a_slice_and_the_copies_see_the_same_octets() {
        let whole = Arc::new(Region::owned(100).unwrap());
        let mut part = Region::part(&whole, 10..16).unwrap();
        assert!(whole.copy_in(9, b"<before>"));
        // SAFETY: the memory is owned, and only this thread reaches it: nothing else does while the slices live.
        unsafe {
            assert_eq!(part.as_slice(), b"before");
            part.as_mut_slice().copy_from_slice(b"behind");
        }
        let mut octets = [0; 8];
        assert!(whole.copy_out(9, &mut octets));
        assert_eq!(&octets, b"<behind>");
        drop(whole);
        // SAFETY: as above.
        assert_eq!(unsafe { part.as_slice() }, b"behind");
        let mut empty = Region::owned(0).unwrap();
        // SAFETY: there are no octets.
        assert!(unsafe { empty.as_mut_slice() }.is_empty());
    }

    /// An engine places octets, the owner changes them by a slice, and the engine sends them: each hands them on by a
    /// number that it stores.
    #[test]
    fn slices_of_one_thread_and_copies_of_another_take_turns() {
        let (memory, turn) = (Arc::new(Region::owned(64).unwrap()), AtomicU32::new(0));
        let await_turn = |wanted| {
            while turn.load(Ordering::Acquire) != wanted {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    assert!(memory.copy_in(0, &[round.to_le_bytes()[0]; 64]));
                    turn.store(2 * round + 1, Ordering::Release);
                    await_turn(2 * round + 2);
                    let mut octets = [0; 64];
                    assert!(memory.copy_out(0, &mut octets));
                    assert_eq!(octets, [!round.to_le_bytes()[0]; 64]);
                }
            });
            let mut own = Region::part(&memory, 0..64).unwrap();
            for round in 0..ROUNDS {
                await_turn(2 * round + 1);
                // SAFETY: the memory is owned, and the other thread leaves it alone until this one has had its turn.
                let octets = unsafe { own.as_mut_slice() };
                octets.iter_mut().for_each(|octet| *octet = !*octet);
                turn.store(2 * round + 2, Ordering::Release);
            }
        });
    }

    /// More than an allocator keeps for the next time.
    const LARGE: usize = 64 << 20;
    const ROUNDS: u32 = 20;
}
