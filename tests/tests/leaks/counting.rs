//! An allocator that counts the memory in use.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The system's allocator, with a count of the memory that it has given out and not got back.
pub(crate) struct Counting {
    octets: AtomicI64,
    blocks: AtomicI64,
    allocations: AtomicU64,
}

#[global_allocator]
pub(crate) static LIVE: Counting =
    Counting { octets: AtomicI64::new(0), blocks: AtomicI64::new(0), allocations: AtomicU64::new(0) };

impl Counting {
    /// Octets and blocks in use.
    #[allow(dead_code, reason = "as below")]
    pub(crate) fn holdings(&self) -> (i64, i64) {
        (self.octets.load(Ordering::SeqCst), self.blocks.load(Ordering::SeqCst))
    }

    /// Returns the number of allocations so far, including those that grew.
    #[allow(dead_code, reason = "not every test that counts asks for all")]
    pub(crate) fn allocations(&self) -> u64 {
        self.allocations.load(Ordering::SeqCst)
    }

    fn count(&self, layout: Layout, sign: i64) {
        let octets = i64::try_from(layout.size()).unwrap_or(i64::MAX);
        self.octets.fetch_add(sign * octets, Ordering::SeqCst);
        self.blocks.fetch_add(sign, Ordering::SeqCst);
        if sign > 0 {
            self.allocations.fetch_add(1, Ordering::SeqCst);
        }
    }
}

// SAFETY: every call goes to the system's allocator unchanged. Counting touches no memory that is given out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(layout, 1);
        // SAFETY: the caller keeps to the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count(layout, 1);
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.count(layout, -1);
        // SAFETY: the block came from the system's allocator with this layout, as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}
