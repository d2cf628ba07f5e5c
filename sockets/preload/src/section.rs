//! Sections: what a thread does with a direction while it has its lock. No section sleeps.

use core::cell::Cell;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use weft_sockets::{Holder, Inbound, Level, Lock, Outbound, Owner};

use crate::ends::{self, Stream};
use crate::line::Line;
use crate::{calls, clock, family, real};

/// A section that this thread is in. It does not end by itself: a thread may be jumped out of it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Section {
    lock: Lock<'static>,
    level: Level,
    /// The process that was in the section before was killed there: the direction's words have to be published again.
    pub(crate) is_inherited: bool,
}

impl Section {
    /// Begins a section of the receiving direction. `None`: this is a signal handler, and its thread is in one.
    #[inline]
    pub(crate) fn of_inbound(stream: &Stream) -> Option<Self> {
        Self::begin(&stream.end.inbound.lock, stream.is_alone())
    }

    /// Begins a section of the sending direction. `None`: this is a signal handler, and its thread is in one.
    #[inline]
    pub(crate) fn of_outbound(stream: &Stream) -> Option<Self> {
        Self::begin(&stream.end.outbound.lock, stream.is_alone())
    }

    /// Begins a section of something that only this process uses. `None`: this is a signal handler, and its thread is in
    /// one.
    pub(crate) fn of_word(word: &'static AtomicU64) -> Option<Self> {
        Self::begin(word, real::is_single_threaded())
    }

    /// Ends the section.
    #[inline]
    pub(crate) fn leave(self) {
        if self.lock.unlock(self.level) {
            self.wake();
        }
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
            if let Some(owner) = self.lock.owner().filter(|owner| is_late && is_dead(owner.member()))
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

/// Runs `look` in a section of a receiving direction. In a signal handler that interrupted one, it runs as nested.
#[inline]
pub(crate) fn of_inbound<'a, T>(
    stream: &Stream,
    inbound: &Inbound<'a>,
    look: impl FnOnce(&Inbound<'a>) -> T,
) -> T {
    let Some(section) = Section::of_inbound(stream) else { return look(&inbound.nested()) };
    if section.is_inherited {
        inbound.republish();
    }
    let result = look(inbound);
    section.leave();
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
    let Some(section) = Section::of_outbound(stream) else { return look(outbound) };
    if section.is_inherited {
        outbound.republish();
    }
    let result = look(outbound);
    section.leave();
    result
}

/// Frees the locks of this thread, which jumps out of a signal handler and of what that has interrupted. What a section
/// has not published is given up.
pub(crate) fn abandon() {
    if DEPTH.replace(0) == 0 {
        return;
    }
    let me = me();
    let words = ends::all().flat_map(|(_, stream)| [&stream.end.outbound.lock, &stream.end.inbound.lock]);
    for lock in words.map(Lock::new).filter(|lock| lock.is_mine(me)) {
        if lock.unlock(Level::Shared) {
            calls::futex_wake(lock.futex());
        }
    }
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

/// True if the process at this place of the family has ended, or is a zombie.
fn is_dead(member: u16) -> bool {
    let members = family::family().map(|family| &family.slab.header().members);
    let Some(member) = members.and_then(|members| members.get(usize::from(member))) else { return true };
    let process = member.pid.load(Ordering::Acquire);
    let mut path = Line::<32>::new();
    let _fits = write!(path, "/proc/{process}/stat");
    let open = rustix::fs::open(path.octets(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut text = [0; 512];
    let Ok(len) = open.and_then(|file| rustix::io::read(file, &mut text)) else { return true };
    // The name before the last bracket may have anything in it.
    let fields = text[..len].rsplit(|octet| *octet == b')').next().unwrap_or_default();
    let mut fields = fields.split(|octet| *octet == b' ').skip(1);
    let is_zombie = matches!(fields.next(), Some(b"Z" | b"X"));
    let started = fields.nth(18).and_then(|field| core::str::from_utf8(field).ok()?.parse::<u64>().ok());
    is_zombie || started != Some(member.started.load(Ordering::Acquire))
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
    use super::*;

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
        let family = family::opened();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("a process");
        let place = &family.slab.header().members[9];
        place.pid.store(child.id(), Ordering::Relaxed);
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("the kernel's text");
        let started = stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(20)).expect("a field");
        place.started.store(started.parse().expect("a number"), Ordering::Relaxed);
        assert!(!is_dead(9));
        Lock::new(&WORD).try_lock(Owner::new(9, child.id()), Level::Shared).expect("a free lock");
        child.kill().expect("a signal");
        // It is a zombie until the test waits for it.
        let section = Section::begin(&WORD, false).expect("taken over");
        assert!(section.is_inherited);
        section.leave();
        child.wait().expect("its end");
        assert!(is_dead(9), "nobody has that number now");
    }
}
