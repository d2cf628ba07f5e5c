//! Children of vfork: they run in this process's memory, with descriptors of their own.

use core::sync::atomic::{AtomicU32, Ordering};

/// Before vfork.
pub(crate) fn begin() {
    GUESTS.fetch_add(1, Ordering::Relaxed);
}

/// Behind vfork, in the parent.
pub(crate) fn end() {
    GUESTS.fetch_sub(1, Ordering::Relaxed);
}

/// True in a child of vfork, whose descriptors are its own while the table is its parent's.
#[inline]
pub(crate) fn is_guest() -> bool {
    GUESTS.load(Ordering::Relaxed) != 0 && process() != PROCESS.load(Ordering::Relaxed)
}

/// Notes which process this is. It has no guests.
pub(crate) fn remember_process() {
    PROCESS.store(process(), Ordering::Relaxed);
    GUESTS.store(0, Ordering::Relaxed);
}

fn process() -> u32 {
    rustix::process::getpid().as_raw_pid().cast_unsigned()
}

/// The process whose memory this is.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Children of vfork that run in this process's memory.
static GUESTS: AtomicU32 = AtomicU32::new(0);
