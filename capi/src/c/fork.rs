//! The current process. After `fork` the child is another one: the parent's threads and locks are gone. Also the end
//! of a process.
#![allow(unsafe_code)]

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Once;

use super::boundary::always;
use crate::process::Process;

/// Returns the state of this process. The first call after the start or a fork makes it.
pub(crate) fn process() -> &'static Process {
    if let Some(process) = process_so_far() {
        return process;
    }
    HANDLER.call_once(|| {
        // SAFETY: the handler only stores to atomics and closes descriptors. A child of a process with threads may do
        // both. Registration fails only without memory; then children work as if there were no handler.
        let _no_memory = unsafe { libc::pthread_atfork(None, None, Some(forget)) };
        // SAFETY: the handler may run at any exit, and checks itself whether it has work. If its registration fails
        // for lack of memory, peers learn of the end later.
        let _no_memory = unsafe { libc::atexit(farewell) };
    });
    let mine: *mut Process = Box::leak(Box::default());
    match CURRENT.compare_exchange(null_mut(), mine, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: it was leaked, and is never freed.
        Ok(_) => unsafe { &*mine },
        Err(first) => {
            // SAFETY: no other code has seen `mine`, so the box is valid and owned here; `first` is as above.
            unsafe {
                drop(Box::from_raw(mine));
                &*first
            }
        }
    }
}

/// Returns the state of this process, if [`process`] has made one since the start or the last fork.
#[inline]
pub(super) fn process_so_far() -> Option<&'static Process> {
    let current = CURRENT.load(Ordering::Acquire);
    // SAFETY: the pointer here is to leaked memory, which is never freed.
    (!current.is_null()).then(|| unsafe { &*current })
}

/// Runs in the child. The parent's objects stay in memory, and no table leads to them any more. Their sockets are
/// closed here, so that peers learn of the parent's end whatever the child does.
extern "C" fn forget() {
    while let Some(fd) = weft_netif::take_marked() {
        // SAFETY: the descriptor's owners in memory are never used again in the child; close(2) is allowed in a child
        // of a process with threads.
        let _closed = unsafe { libc::close(fd) };
    }
    PARENT.store(CURRENT.swap(null_mut(), Ordering::AcqRel), Ordering::Release);
}

/// Runs at `exit`, also in a child, which inherits the handler. A child ends only its own connections.
extern "C" fn farewell() {
    if let Some(process) = process_so_far() {
        always((), || process.say_farewell());
    }
}

/// The parent's state, kept so that leak checkers find it.
#[used]
static PARENT: AtomicPtr<Process> = AtomicPtr::new(null_mut());
static CURRENT: AtomicPtr<Process> = AtomicPtr::new(null_mut());
static HANDLER: Once = Once::new();
