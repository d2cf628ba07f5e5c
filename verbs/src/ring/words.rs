//! The memory of a ring.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::sync::atomic::AtomicU64;

/// Zeroed words that begin at a multiple of [`MIN_STRIDE`] octets, so that entries share no cache line.
pub(super) struct Words {
    /// The first word in `memory`.
    start: NonNull<AtomicU64>,
    len: usize,
    memory: Memory,
}

/// Where the words come from.
enum Memory {
    /// A mapping of so many octets at `start`: the system gives its pages one by one, where the process writes.
    Mapping(usize),
    /// A part of an allocation that begins here.
    Allocation(NonNull<u8>, Layout),
}

impl Words {
    /// Ends the process where there is not that much memory, as every allocation of Rust's own does.
    pub(super) fn zeroed(len: usize) -> Self {
        let octets = len.saturating_mul(WORD);
        // An allocator would clear memory by hand that was in use before, and so touch it. Mappings of the same kind that
        // lie side by side count as one, so that many rings do not use up the mappings that a process may have.
        if octets >= MAPPED
            && let Some(start) = map(octets)
        {
            return Self { start: start.cast(), len, memory: Memory::Mapping(octets) };
        }
        // Allocators clear memory by hand where they have to align it more than by themselves: a part is skipped
        // instead.
        let size = octets.saturating_add(MIN_STRIDE);
        let layout = Layout::from_size_align(size, WORD).unwrap_or(Layout::new::<[u64; 1 << 40]>());
        // SAFETY: the layout is not of size zero, since MIN_STRIDE was added.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let skip = memory.align_offset(MIN_STRIDE).min(MIN_STRIDE);
        // SAFETY: at most MIN_STRIDE octets are skipped, and so many more than the words take were allocated.
        let start = unsafe { memory.add(skip) }.cast::<AtomicU64>();
        Self { start, len, memory: Memory::Allocation(memory, layout) }
    }
}

/// Returns zeroed memory from the system, unless it has none.
fn map(octets: usize) -> Option<NonNull<u8>> {
    // SAFETY: the kernel chooses an address where nothing is mapped, so that no memory of others is touched.
    let start = unsafe {
        mmap_anonymous(core::ptr::null_mut(), octets, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    };
    let start = NonNull::new(start.ok()?.cast::<u8>())?;
    // A huge page for the first entry would cost more than all the rest. A kernel that knows none refuses, which is as
    // good. SAFETY: the range was mapped above, and the advice changes no octet of it.
    let _advised = unsafe { madvise(start.as_ptr().cast(), octets, Advice::LinuxNoHugepage) };
    Some(start)
}

impl core::ops::Deref for Words {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `start` is aligned to more than a word and followed by `len` words, which were zeroed (a valid
        // AtomicU64) and live as long as `self`. They are reached as atomics only, so that shared references are all
        // there is.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        match self.memory {
            Memory::Mapping(octets) => {
                // SAFETY: `map` has mapped so many octets there, and no other code unmaps them. An error would mean
                // that they are not, and then there is nothing to be freed.
                let _unmapped = unsafe { munmap(self.start.as_ptr().cast(), octets) };
            }
            // SAFETY: the memory was allocated in `zeroed` with this layout, and is freed only here.
            Memory::Allocation(memory, layout) => unsafe { dealloc(memory.as_ptr(), layout) },
        }
    }
}

// SAFETY: the words are atomics in memory that the value owns, without thread affinity.
unsafe impl Send for Words {}
// SAFETY: as above; a shared reference gives atomics only.
unsafe impl Sync for Words {}

impl core::fmt::Debug for Words {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Words").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Octets that an entry has at least.
pub(super) const MIN_STRIDE: usize = 64;
const WORD: usize = size_of::<AtomicU64>();
/// From so many octets on a ring is a mapping of its own: two pages of the usual size.
const MAPPED: usize = 8192;
