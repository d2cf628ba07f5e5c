//! The atomics that processes share. With `cfg(loom)` they are loom's, which tries all interleavings of a model's
//! threads.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// A fence between a thread and another one that calls membarrier(2): it costs nothing, as that call interrupts this
/// thread before or behind it. A model has no such call, and fences on both sides.
#[inline]
pub fn light_fence() {
    #[cfg(not(loom))]
    compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// A model interrupts no thread by a signal handler.
#[cfg(loom)]
pub fn compiler_fence(_order: Ordering) {}
