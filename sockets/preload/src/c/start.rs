//! What runs when the library is loaded.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering};

use super::rings;
use crate::filter::{self, Inherited};
use crate::policy::{self, Mode};
use crate::{environment, fork, guest, sleep, strict, table};

extern "C" fn start() {
    register();
    match filter::inherited(rings::are_forbidden) {
        Inherited::Nothing => {
            open();
            obey_strictly();
        }
        Inherited::Familiar => open_if_allowed(),
        Inherited::Unknown => IS_PENDING.store(true, Ordering::Relaxed),
    }
}

/// Registers what runs in each child.
fn register() {
    extern "C" fn child() {
        // Its filters have allowed to make it.
        if IS_PENDING.swap(false, Ordering::Relaxed) {
            open_if_allowed();
        }
        fork::child();
    }
    // SAFETY: the function is there as long as the library, which is never unloaded. Without memory for the entry,
    // children have no ends.
    let _no_memory = unsafe { libc::pthread_atfork(None, None, Some(child)) };
}

/// Begins strict mode if it is asked for. The filters of others may forbid what it needs.
fn obey_strictly() {
    if table::is_open() && policy::policy().is_some_and(|policy| policy.is_strict) {
        strict::begin();
        if !rings::are_forbidden() {
            rings::forbid();
        }
    }
}

fn open_if_allowed() {
    if super::probe::are_calls_allowed() {
        open();
    }
}

fn open() {
    policy::open();
    environment::open();
    if policy::policy().is_some_and(|policy| policy.mode != Mode::Off) {
        guest::remember_process();
        sleep::open();
        table::open();
    }
}

/// The filters are unknown, so that the library makes no call of its own yet.
static IS_PENDING: AtomicBool = AtomicBool::new(false);
// SAFETY: the loader calls each function of this section once, before the program's own code.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static START: extern "C" fn() = start;
