//! Sections: what a thread does with a direction while it has its lock. No section sleeps.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

use weft_sockets::end::UNSURE;
use weft_sockets::{Holder, Inbound, Level, Lock, Outbound, Owner};

use crate::ends::Stream;
use crate::{calls, clock, family, real, relatives, wake};

/// A section that this thread is in. It does not end by itself: a thread may be jumped out of it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Section {
    lock: Lock<'static>,
    level: Level,
    /// The process that was in the section before was killed there: the direction's words have to be published again.
    is_inherited: bool,
}

impl Section {
    /// Begins a section of the receiving direction. `None`: this is a signal handler, and its thread is in one.
    #[inline]
    pub(crate) fn of_inbound(stream: &Stream, inbound: &Inbound<'_>) -> Option<Self> {
        let section = Self::begin(&stream.end.inbound.lock, stream.is_alone())?;
        if section.is_inherited {
            inbound.republish();
        }
        Some(section)
    }

    /// Begins a section of the sending direction. `None`: this is a signal handler, and its thread is in one.
    #[inline]
    pub(crate) fn of_outbound(stream: &Stream, outbound: &Outbound<'_>) -> Option<Self> {
        let section = Self::begin(&stream.end.outbound.lock, stream.is_alone())?;
        if section.is_inherited {
            // A rule of the link that was broken shows at the next look.
            let _departed = outbound.depart_for_the_dead();
            outbound.republish();
            if outbound.record().is_some() || outbound.backlog().is_some() {
                stream.end.outbound.flags.fetch_or(UNSURE, Ordering::Relaxed);
            }
        }
        Some(section)
    }

    /// Begins a section of something that only this process uses. `None`: this is a signal handler, and its thread is in
    /// one.
    pub(crate) fn of_word(word: &'static AtomicU64) -> Option<Self> {
        Self::begin(word, real::is_single_threaded())
    }

    /// Ends the section.
    #[inline]
    pub(crate) fn leave(self) {
        self.leave_and(|| ());
    }

    /// Ends the section, and then tells others what came of it.
    #[inline]
    pub(crate) fn leave_and(self, tell: impl FnOnce()) {
        if self.lock.unlock(self.level) {
            self.wake();
        }
        tell();
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }

    #[inline]
    fn begin(word: &'static AtomicU64, is_alone: bool) -> Option<Self> {
        let level = if is_alone { Level::Alone } else { Level::Shared };
        let lock = Lock::new(word);
        let mut section = Self { lock, level, is_inherited: false };
        // A signal handler may jump out at any moment: the count is never too low.
        DEPTH.set(DEPTH.get() + 1);
        match lock.try_lock(me(), level) {
            Ok(()) => {}
            Err(Holder::Itself) => {
                DEPTH.set(DEPTH.get() - 1);
                return None;
            }
            Err(Holder::Other(_)) => section.wait(),
        }
        Some(section)
    }

    /// Waits for the lock. A lock whose owner does not free it for long is taken from it if its process is dead.
    #[cold]
    fn wait(&mut self) {
        let me = me();
        for _ in 0..SPINS {
            if self.lock.try_lock(me, self.level).is_ok() {
                return;
            }
            core::hint::spin_loop();
        }
        loop {
            if self.lock.try_lock_after_wait(me) {
                return;
            }
            let Some(seen) = self.lock.announce() else { continue };
            let is_late = calls::futex_wait(self.lock.futex(), seen, clock::span(PATIENCE));
            if let Some(owner) = self.lock.owner().filter(|owner| is_late && relatives::is_owner_dead(*owner))
                && self.lock.take_over(owner, me)
            {
                self.is_inherited = true;
                return;
            }
        }
    }

    #[cold]
    fn wake(&self) {
        calls::futex_wake(self.lock.futex());
    }
}

/// Publishes what signal handlers took in the middle of a section, and wakes those that have to hear of it or of the leg
/// that the reader has come to.
#[cold]
pub(crate) fn catch_up(stream: &Stream, inbound: &Inbound<'_>) {
    while inbound.is_behind() {
        let Some(section) = Section::of_inbound(stream, inbound) else { break };
        let has_adopted = inbound.take_adopted();
        inbound.republish();
        let sleepers = if has_adopted { inbound.waiting_sender() } else { inbound.sleepers() };
        section.leave();
        wake::wake(stream, sleepers);
    }
}

/// Runs `look` in a section of a receiving direction. In a signal handler that interrupted one, it runs as nested.
#[inline]
pub(crate) fn of_inbound<'a, T>(
    stream: &Stream,
    inbound: &Inbound<'a>,
    look: impl FnOnce(&Inbound<'a>) -> T,
) -> T {
    let Some(section) = Section::of_inbound(stream, inbound) else { return look(&inbound.nested()) };
    let result = look(inbound);
    section.leave();
    if inbound.is_behind() {
        catch_up(stream, inbound);
    }
    result
}

/// Runs `look` in a section of a sending direction. In a signal handler that interrupted one, it runs beside it: it must
/// not publish anything.
#[inline]
pub(crate) fn of_outbound<'a, T>(
    stream: &Stream,
    outbound: &Outbound<'a>,
    look: impl FnOnce(&Outbound<'a>) -> T,
) -> T {
    let Some(section) = Section::of_outbound(stream, outbound) else { return look(outbound) };
    let result = look(outbound);
    section.leave();
    result
}

/// True if this thread is in a section, or behind one whose news it has not told yet: it jumps out of that.
pub(crate) fn leave_all() -> bool {
    DEPTH.replace(0) != 0
}

/// True if this thread is in a section. A signal handler is, if it has interrupted one.
pub(crate) fn is_inside() -> bool {
    DEPTH.get() != 0
}

/// The name of this thread in locks.
#[inline]
pub(crate) fn me() -> Owner {
    let known = ME.get();
    let thread = if known == 0 { learn() } else { known };
    Owner::new(family::member().unwrap_or(0), thread)
}

/// In a child of fork: its thread has a number of its own.
pub(crate) fn forget_thread() {
    ME.set(0);
}

#[cold]
fn learn() -> u32 {
    let thread = rustix::thread::gettid().as_raw_pid().cast_unsigned();
    ME.set(thread);
    thread
}

thread_local! {
    static ME: Cell<u32> = const { Cell::new(0) };
    /// Sections that this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}
/// Looks at a lock before the thread sleeps.
const SPINS: u32 = 100;
/// How long a thread waits before it asks whether the owner is dead, in nanoseconds.
const PATIENCE: u64 = 50_000_000;

#[cfg(test)]
mod tests {
    use weft_sockets::{Carrier, RingPlace, Source};

    use super::*;
    use crate::channel;

    #[test]
    fn a_section_is_known_to_its_own_thread_and_waited_for_by_others() {
        static WORD: AtomicU64 = AtomicU64::new(0);
        family::opened();
        let section = Section::begin(&WORD, false).expect("a free lock");
        assert!(Section::begin(&WORD, false).is_none(), "as in a signal handler");
        let other = std::thread::spawn(|| Section::begin(&WORD, false).expect("its turn").leave());
        while WORD.load(Ordering::Relaxed) >> 31 & 1 == 0 {
            std::thread::yield_now();
        }
        section.leave();
        other.join().expect("no panic");
        assert_eq!(WORD.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_section_is_taken_from_a_dead_process_only() {
        // A child has copies of all sockets until it runs its program.
        let _turn = family::turn();
        static WORD: AtomicU64 = AtomicU64::new(0);
        family::opened();
        let mut child = relatives::tests::child(0);
        let owner = Owner::new(9, child.id());
        Lock::new(&WORD).try_lock(owner, Level::Shared).expect("a free lock");
        child.kill().expect("a signal");
        // It is a zombie until the test waits for it.
        let section = Section::begin(&WORD, false).expect("taken over");
        assert!(section.is_inherited);
        section.leave();
        // It began a leg, and could not tell the reader.
        let ends = channel::tests::pair(0x6009);
        let outbound = channel::offered_outbound(&ends[0]).expect("a channel");
        let inbound = channel::offered_inbound(&ends[1]).expect("a channel");
        let own = &ends[0].end.outbound;
        Lock::new(&own.lock).try_lock(owner, Level::Shared).expect("a free lock");
        let ring = Carrier::Ring(RingPlace::new(64, 16).expect("a place in the link"));
        own.leg.store(own.leg().next(ring).to_word(), Ordering::Relaxed);
        Section::of_outbound(&ends[0], &outbound).expect("taken over").leave();
        assert_eq!(inbound.source(), Ok(Source::Ring { available: 0 }));
        channel::tests::forget(0x6009, ends);
        child.wait().expect("its end");
        family::opened().free(9);
    }
}
