//! Children of fork: they become members of the family.
//!
//! The table of descriptors and the process's place among the members are wiped in a child, unless these functions say
//! otherwise. So a child that comes to be by a bare `clone`, past the hooks, has no ends and stays on TCP.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

use weft_sockets::end::Phase;

use crate::section::Section;
use crate::{ends, family, guest, port, relatives, section, sets, sleep, table};

/// Before a fork: makes the coming child a holder of all ends, so that none ends with its parent.
///
/// One thread forks at a time: each changes what the child of another one would find.
pub(crate) fn prepare() {
    if table::is_open()
        && let Some(turn) = Section::of_word(&FORKING)
    {
        TURN.set(Some(turn));
    }
    table::keep_in_children(true);
    let Some(family) = family::family().filter(|_| table::is_open()) else { return };
    let child = family.reserve().or_else(|| relatives::take_place().inspect(|place| ends::leave_for(*place)));
    sets::share();
    for (_, stream) in ends::all() {
        let state = stream.end.state();
        // Two processes will hold it: what the daemon answers would come too late.
        if state.phase == Phase::Claimed && stream.end.advance(state, Phase::Plain) {
            let _answered_already = port::withdraw(stream.handle);
            // The child claims it again with its first octet.
            stream.end.identity.threshold.store(0, Ordering::Relaxed);
        }
    }
    ends::share(child);
    CHILD.set(child);
}

/// Behind a fork, in the parent. `process` is the child, or 0 or less if there is none.
pub(crate) fn parent(process: isize) {
    table::keep_in_children(false);
    if let Some((child, family)) = CHILD.take().zip(family::family()) {
        match u32::try_from(process) {
            Ok(process @ 1..) => family.announce(child, process),
            _ => {
                ends::unshare(child);
                family.free(child);
            }
        }
    }
    if let Some(turn) = TURN.take() {
        turn.leave();
    }
}

/// Behind a fork, in the child. It runs first of all handlers.
pub(crate) fn child() {
    if let Some(turn) = TURN.take() {
        turn.leave();
    }
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
    /// This thread forks, and no other one does.
    static TURN: Cell<Option<Section>> = const { Cell::new(None) };
}
static FORKING: AtomicU64 = AtomicU64::new(0);
