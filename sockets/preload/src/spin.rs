//! How long a thread looks at rings before it sleeps.

use core::cell::Cell;

use weft_sockets::{LONGEST, Pace, Situation, Step, Wait};

use crate::clock;
use crate::policy;

/// The looks of one wait.
#[derive(Debug)]
pub(crate) struct Spin {
    wait: Wait,
    /// When the kernel is to be asked next.
    kernel: u64,
}

/// What a thread does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It looks at the rings.
    Look,
    /// It looks at the rings and asks the kernel.
    Ask,
    /// It sleeps.
    Sleep,
}

impl Spin {
    /// Begins a wait behind a look that found nothing.
    pub(crate) fn new(is_same_cpu: bool, is_in_stream: bool, may_spin: bool) -> Self {
        let now = clock::now();
        let bound = if may_spin { bound() } else { 0 };
        let wait = PACE.get().begin(now, Situation { is_same_cpu, is_in_stream, bound, is_yielding: false });
        Self { wait, kernel: ASKED.get() + KERNEL }
    }

    /// Passes the time until the next look.
    pub(crate) fn next(&mut self) -> Turn {
        let now = clock::now();
        match self.wait.next(now) {
            Step::Spin => core::hint::spin_loop(),
            Step::Yield => rustix::thread::sched_yield(),
            Step::Sleep => return Turn::Sleep,
        }
        if now < self.kernel {
            return Turn::Look;
        }
        self.kernel = now + KERNEL;
        ASKED.set(now);
        Turn::Ask
    }

    /// How many further looks are worth it until [`next`](Self::next).
    pub(crate) const fn looks(&self) -> u32 {
        if self.wait.is_spinning() { LOOKS } else { 0 }
    }

    /// Ends the wait before a sleep, or because something was found. Returns what it came to.
    pub(crate) fn end(&self) -> Option<Step> {
        let mut pace = PACE.get();
        let step = pace.end(&self.wait, clock::now());
        PACE.set(pace);
        step
    }
}

/// True if this thread's spins have paid of late.
pub(crate) fn pays() -> bool {
    bound() > 0 && PACE.get().pays()
}

/// Learns that looks before the first one at the clock have found something.
pub(crate) fn pay() {
    let mut pace = PACE.get();
    pace.pay();
    PACE.set(pace);
}

/// The longest spin, in nanoseconds.
fn bound() -> u64 {
    let set = policy::policy().and_then(|policy| policy.spin);
    set.map_or(LONGEST, |microseconds| u64::from(microseconds) * 1000)
}

thread_local! {
    static PACE: Cell<Pace> = const { Cell::new(Pace::new()) };
    /// When this thread asked the kernel last.
    static ASKED: Cell<u64> = const { Cell::new(0) };
}
/// Looks without a look at the clock.
const LOOKS: u32 = 8;
/// How often a spinning thread asks the kernel, in nanoseconds.
const KERNEL: u64 = 10_000;
