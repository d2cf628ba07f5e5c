//! Machines without functions of their own, and Miri.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// See [`copy_in`](super::copy_in).
///
/// # Safety
/// As there.
pub(crate) unsafe fn copy_in(octets: &[u8], to: *mut u8) -> bool {
    for (index, octet) in octets.iter().enumerate() {
        // SAFETY: as the caller promises. An octet is aligned everywhere.
        unsafe { AtomicU8::from_ptr(to.add(index)) }.store(*octet, Ordering::Relaxed);
    }
    true
}

/// See [`copy_out`](super::copy_out).
///
/// # Safety
/// As there.
pub(crate) unsafe fn copy_out(from: *const u8, octets: &mut [u8]) -> bool {
    for (index, octet) in octets.iter_mut().enumerate() {
        // SAFETY: as above, but a region may be memory that cannot be written, for which `from_ptr` asks. Stable Rust
        // has no other atomic load through a raw pointer, and a volatile read is none. Nothing is stored, and relaxed
        // loads of this size are defined on such memory (core::sync::atomic, "Atomic accesses to read-only memory").
        *octet = unsafe { AtomicU8::from_ptr(from.cast_mut().add(index)) }.load(Ordering::Relaxed);
    }
    true
}

/// Puts `new` at `at` if `expected` is there, as one atomic step; returns what was there.
///
/// # Safety
/// As for [`update`](super::update).
pub(crate) unsafe fn compare_exchange(at: *mut u64, expected: u64, new: u64) -> Option<u64> {
    // SAFETY: as the caller promises.
    let word = unsafe { AtomicU64::from_ptr(at) };
    let (Ok(seen) | Err(seen)) = word.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire);
    Some(seen)
}

/// Has the thread in `context` go on behind the access at which it has faulted, if that was one of this module: never
/// here.
pub(crate) const fn resume(_: &mut libc::ucontext_t) -> bool {
    false
}

/// Whether [`resume`] can.
pub(crate) const IS_GUARDED: bool = false;
