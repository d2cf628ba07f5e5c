//! Children: by fork they become members of the family, by vfork they borrow this process's memory.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

use weft_sockets::end::SHARED;

use crate::table::{self, Entry};
use crate::{ends, family, port, section, sleep};

/// Before a fork: makes the coming child a holder of all ends, so that none ends with its parent.
pub(crate) fn prepare() {
    let Some(family) = family::family() else { return };
    let child = family.reserve();
    for (_, stream) in ends::all() {
        stream.end.identity.flags.fetch_or(SHARED, Ordering::Relaxed);
        if let Some(child) = child {
            let _is_held = stream.end.holders.add(child);
        }
    }
    CHILD.set(child);
}

/// Behind a fork, in the parent.
pub(crate) fn parent(is_forked: bool) {
    let (Some(child), Some(family)) = (CHILD.take(), family::family()) else { return };
    if !is_forked {
        for (_, stream) in ends::all() {
            stream.end.holders.remove(child);
        }
        family.free(child);
    }
}

/// Behind a fork, in the child. It runs first of all handlers.
pub(crate) fn child() {
    remember_process();
    section::forget_thread();
    sleep::leave_to_parent();
    port::leave_to_parent();
    let Some(family) = family::family() else { return };
    family.join(CHILD.take());
    let member = family::member();
    for (descriptor, stream) in ends::all() {
        // A thread of the parent may have made this end since `prepare`. A child without a place leaves all alone.
        stream.end.identity.flags.fetch_or(SHARED, Ordering::Relaxed);
        if !member.is_some_and(|member| stream.end.holders.add(member)) {
            table::replace(descriptor, Entry::Other);
        }
    }
}

/// Before vfork.
pub(crate) fn begin_vfork() {
    BORROWED.fetch_add(1, Ordering::Relaxed);
}

/// Behind vfork, in the parent.
pub(crate) fn end_vfork() {
    BORROWED.fetch_sub(1, Ordering::Relaxed);
}

/// True in a child of vfork, whose descriptors are its own while the table is its parent's.
#[inline]
pub(crate) fn is_guest() -> bool {
    BORROWED.load(Ordering::Relaxed) != 0 && process() != PROCESS.load(Ordering::Relaxed)
}

/// Notes which process this is.
pub(crate) fn remember_process() {
    PROCESS.store(process(), Ordering::Relaxed);
}

fn process() -> u32 {
    rustix::process::getpid().as_raw_pid().cast_unsigned()
}

thread_local! {
    /// The place that the coming child of this thread takes.
    static CHILD: Cell<Option<u16>> = const { Cell::new(None) };
}
/// The process whose memory this is.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Children of vfork that run in this process's memory. A child of fork that such a child makes only asks more often.
static BORROWED: AtomicU32 = AtomicU32::new(0);
