//! When a process looks for a daemon that it does not have.
//!
//! Without a daemon for long there is a look each [`PAUSE`]. Behind the loss of one there is a look at once, and then ever
//! less often.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// True if a daemon that was lost is looked for, and it is too early for the next look.
pub(crate) fn is_between_looks(now: u64) -> bool {
    SEARCH.load(Ordering::Relaxed) < PAUSE && now < NEXT_TRY.load(Ordering::Relaxed)
}

/// True if this thread may look for a daemon now. The other threads go on without. The next look is behind a pause, twice as
/// long as the one before.
pub(crate) fn may_try(now: u64) -> bool {
    let (next, pause) = (NEXT_TRY.load(Ordering::Relaxed), SEARCH.load(Ordering::Relaxed));
    let behind = now + u64::from(pause);
    let is_mine =
        now >= next && NEXT_TRY.compare_exchange(next, behind, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if is_mine {
        SEARCH.store(pause.saturating_mul(2).min(PAUSE), Ordering::Relaxed);
    }
    is_mine
}

/// A daemon is lost: the next look is at once.
pub(crate) fn begin() {
    search_from(0, FIRST_PAUSE);
}

/// A daemon is found.
pub(crate) fn end() {
    SEARCH.store(PAUSE, Ordering::Relaxed);
}

/// A daemon has turned this process away.
pub(crate) fn give_up(now: u64) {
    search_from(now + u64::from(PAUSE), PAUSE);
}

/// Nothing is known of daemons.
pub(crate) fn forget() {
    search_from(0, PAUSE);
}

/// The next look for a daemon is at this time, and the one behind it after this pause.
fn search_from(next: u64, pause: u32) {
    SEARCH.store(pause, Ordering::Relaxed);
    NEXT_TRY.store(next, Ordering::Relaxed);
}

/// No daemon is looked for before this millisecond of the monotonic clock.
static NEXT_TRY: AtomicU64 = AtomicU64::new(0);
/// The pause behind the next look for a daemon, in milliseconds.
static SEARCH: AtomicU32 = AtomicU32::new(PAUSE);
/// Milliseconds between two looks for a daemon, if none was there for long.
const PAUSE: u32 = 5000;
/// Milliseconds between the first two looks behind the loss of a daemon.
const FIRST_PAUSE: u32 = 16;
