//! The process that this is: after `fork` the child is another one, whose threads and locks of before are gone. And its end.
#![allow(unsafe_code)]

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Once;

use super::boundary::always;
use crate::process::Process;

/// All that this process has.
pub(crate) fn process() -> &'static Process {
    if let Some(process) = process_so_far() {
        return process;
    }
    HANDLER.call_once(|| {
        // SAFETY: the handler only stores to atomics and closes descriptors, which is allowed in a child of a process with threads. When it cannot be
        // registered there is no memory left, and then children fail as they do without it.
        let _no_memory = unsafe { libc::pthread_atfork(None, None, Some(forget)) };
        // SAFETY: the handler may run at any exit, and asks itself whether there is something to do. Without memory for it peers
        // hear of the end later.
        let _no_memory = unsafe { libc::atexit(farewell) };
    });
    let mine: *mut Process = Box::leak(Box::default());
    match CURRENT.compare_exchange(null_mut(), mine, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: it was leaked, and is never freed.
        Ok(_) => unsafe { &*mine },
        Err(first) => {
            // SAFETY: nobody else has seen it, so that the box is whole; `first` is as above.
            unsafe {
                drop(Box::from_raw(mine));
                &*first
            }
        }
    }
}

/// Returns what [`process`] has returned before, if anything since the last fork.
#[inline]
pub(super) fn process_so_far() -> Option<&'static Process> {
    let current = CURRENT.load(Ordering::Acquire);
    // SAFETY: what is stored here was leaked, and is never freed.
    (!current.is_null()).then(|| unsafe { &*current })
}

/// In the child: the parent's objects stay what they were in its memory, and are nobody's any more. Its sockets are closed here, so
/// that its peers hear of its end, whatever the child does.
extern "C" fn forget() {
    while let Some(fd) = weft_netif::take_marked() {
        // SAFETY: the parent's owners of the descriptor are in memory that nobody uses here any more; close(2) is allowed in a
        // child of a process with threads.
        let _closed = unsafe { libc::close(fd) };
    }
    PARENT.store(CURRENT.swap(null_mut(), Ordering::AcqRel), Ordering::Release);
}

/// At `exit`, also of a child, which has inherited this and ends only what it has itself.
extern "C" fn farewell() {
    if let Some(process) = process_so_far() {
        always((), || process.say_farewell());
    }
}

/// What was forgotten, so that it is no leak.
#[used]
static PARENT: AtomicPtr<Process> = AtomicPtr::new(null_mut());
static CURRENT: AtomicPtr<Process> = AtomicPtr::new(null_mut());
static HANDLER: Once = Once::new();
