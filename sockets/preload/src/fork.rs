//! Children of fork: they become members of the family.
//!
//! The table of descriptors and the process's place among the members are wiped in a child, unless these functions say
//! otherwise. So a child that comes to be by a bare `clone`, past the hooks, has no ends and stays on TCP.

use core::cell::Cell;

use weft_sockets::end::Phase;

use crate::{ends, family, guest, port, section, sets, sleep, table};

/// Before a fork: makes the coming child a holder of all ends, so that none ends with its parent.
pub(crate) fn prepare() {
    table::keep_in_children(true);
    let Some(family) = family::family().filter(|_| table::is_open()) else { return };
    let child = family.reserve();
    for (_, stream) in ends::all() {
        let state = stream.end.state();
        // Two processes will hold it: what the daemon answers would come too late.
        if state.phase == Phase::Claimed && stream.end.advance(state, Phase::Plain) {
            let _answered_already = port::withdraw(stream.handle);
        }
    }
    ends::share(child);
    CHILD.set(child);
}

/// Behind a fork, in the parent.
pub(crate) fn parent(is_forked: bool) {
    table::keep_in_children(false);
    let (Some(child), Some(family)) = (CHILD.take(), family::family()) else { return };
    if !is_forked {
        ends::unshare(child);
        family.free(child);
    }
}

/// Behind a fork, in the child. It runs first of all handlers.
pub(crate) fn child() {
    if !table::is_open() {
        return;
    }
    guest::remember_process();
    section::forget_thread();
    sleep::leave_to_parent();
    sets::inherit();
    port::leave_to_parent();
    table::keep_in_children(false);
    let Some(family) = family::family() else { return };
    family.join(CHILD.take());
    ends::inherit();
}

thread_local! {
    /// The place that the coming child of this thread takes.
    static CHILD: Cell<Option<u16>> = const { Cell::new(None) };
}
