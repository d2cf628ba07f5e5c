//! Where threads sleep: a line of the status page that says so, and an eventfd that wakes.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::os::fd::BorrowedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, test_kill_process};
use weft_sockets::layout::{ALWAYS, WAITERS};
use weft_sockets::{Barrier, Broken, Inbound, Outbound, Sleep, Sleepers, Status, WaiterName};

use crate::own::Own;
use crate::real::Once;
use crate::{calls, family, port};

/// The places for sleepers of this process.
#[derive(Debug)]
pub(crate) struct Waiters {
    member: u16,
    status: Status,
    /// The memory of the status page.
    file: Own,
    bells: [Once<Own>; WAITERS],
    /// How often each line's waiter has gone to sleep.
    sleeps: [AtomicU32; WAITERS],
    /// How often it has ended its announcements.
    names: [AtomicU32; WAITERS],
    /// The thread that uses each line, or [`A_SET`], or 0.
    owners: [AtomicU32; WAITERS],
}

/// A line in use by a thread or by an epoll set.
///
/// A sleep that is cancelled or jumped out of leaves its line behind. It is found again when no other line is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pool: &'static Waiters,
    line: u8,
}

impl Waiters {
    fn new() -> Option<Self> {
        let member = family::member()?;
        let (file, status) = Status::create().ok()?;
        Some(Self {
            member,
            status,
            file: Own::new(file).ok()?,
            bells: [const { Once::new() }; WAITERS],
            sleeps: [const { AtomicU32::new(0) }; WAITERS],
            names: [const { AtomicU32::new(0) }; WAITERS],
            owners: [const { AtomicU32::new(0) }; WAITERS],
        })
    }

    /// True if this sleep goes on, or if that cannot be known.
    fn goes_on(&self, sleep: Sleep) -> bool {
        let line = usize::from(sleep.waiter.line);
        let (Some(number), Some(line)) = (self.names.get(line), self.status.page().0.get(line)) else {
            return true;
        };
        sleep.waiter.member != self.member
            || number.load(Ordering::Relaxed) == sleep.number && line.asleep.load(Ordering::Relaxed) != 0
    }

    fn bell(&self, line: u8) -> Option<BorrowedFd<'static>> {
        let bell = self.bells.get(usize::from(line))?;
        if let Some(bell) = bell.get() {
            return bell.borrow();
        }
        bell.set(|| make_bell(line))?.borrow()
    }
}

impl Waiter {
    /// Takes a line for this thread's next sleep. Returns `None` if all are in use.
    pub(crate) fn of_thread() -> Option<Self> {
        Self::take(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned())
    }

    /// Takes a line for an epoll set.
    pub(crate) fn of_set() -> Option<Self> {
        Self::take(A_SET)
    }

    fn take(owner: u32) -> Option<Self> {
        let pool = waiters()?;
        let first = owner as usize % WAITERS;
        let lines = (first..WAITERS).chain(0..first);
        let is_free = |line: &usize, from: u32| {
            pool.owners[*line].compare_exchange(from, owner, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let line = lines.clone().find(|line| is_free(line, 0)).or_else(|| {
            lines.clone().find(|line| {
                let thread = pool.owners[*line].load(Ordering::Relaxed);
                is_dead(thread) && is_free(line, thread)
            })
        })?;
        Some(Self { pool, line: u8::try_from(line).ok()? })
    }

    /// The name by which peers know it.
    pub(crate) fn name(&self) -> WaiterName {
        WaiterName { member: self.pool.member, line: self.line }
    }

    /// The eventfd that wakes it. `None`: peers cannot wake it, so that it has to look now and then by itself.
    pub(crate) fn bell(&self) -> Option<BorrowedFd<'static>> {
        self.pool.bell(self.line)
    }

    /// Says that the waiter sleeps, so that the first ring ends its sleep, or that it sleeps beside others. Announcements
    /// in links, a barrier, and a last look have to follow. Those of a set are good for all its sleeps until it is
    /// [renewed](Self::renew): its members stay.
    pub(crate) fn doze(&self, is_alone: bool) {
        if self.pool.owners[usize::from(self.line)].load(Ordering::Relaxed) != A_SET {
            self.renew();
        }
        let number = self.pool.sleeps[usize::from(self.line)].fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let word = if is_alone { number.max(ALWAYS) } else { ALWAYS };
        // Another thread may have come here meanwhile, which then is not alone either.
        if word == ALWAYS
            || self.asleep().compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            self.asleep().store(ALWAYS, Ordering::Relaxed);
        }
    }

    /// Ends the announcements of earlier sleeps.
    pub(crate) fn renew(&self) {
        self.pool.names[usize::from(self.line)].fetch_add(1, Ordering::Relaxed);
    }

    /// How often announcements were ended before.
    pub(crate) fn number(&self) -> u32 {
        self.pool.names[usize::from(self.line)].load(Ordering::Relaxed)
    }

    /// Names the waiter as one that waits for octets of a direction. A barrier and a last look have to follow.
    pub(crate) fn announce(&self, inbound: &Inbound<'_>) -> Barrier {
        inbound.announce(self.sleep(), |other| self.pool.goes_on(other))
    }

    /// Names the waiter as one that waits for room in a direction. Returns false if there is room.
    pub(crate) fn ask_for_room(&self, outbound: &Outbound<'_>) -> Result<bool, Broken> {
        outbound.ask_for_room(self.sleep(), |other| self.pool.goes_on(other))
    }

    /// Says that the waiter is awake, and silences its doorbell if that rang.
    pub(crate) fn wake(&self, rang: bool) {
        self.asleep().store(0, Ordering::Relaxed);
        if rang {
            self.silence();
        }
    }

    /// Rings the doorbell, as a peer does.
    pub(crate) fn ring(&self) {
        port::ring_own(self.line);
    }

    /// Silences the doorbell. A look at the rings has to follow.
    pub(crate) fn silence(&self) {
        let Some(bell) = self.bell() else { return };
        // An eventfd is silent behind one read.
        while rustix::io::read(bell, &mut [0; 8]) == Ok(8) && !port::is_own_user() {}
        // The ring may have been another thread's, which sleeps on.
        if self.asleep().load(Ordering::Relaxed) != 0 {
            self.asleep().store(ALWAYS, Ordering::Relaxed);
            core::sync::atomic::fence(Ordering::SeqCst);
        }
    }

    /// Gives the line back.
    pub(crate) fn leave(&self) {
        self.pool.owners[usize::from(self.line)].store(0, Ordering::Release);
    }

    fn sleep(&self) -> Sleep {
        Sleep { waiter: self.name(), number: self.number() }
    }

    fn asleep(&self) -> &AtomicU32 {
        &self.pool.status.page().0[usize::from(self.line)].asleep
    }
}

/// Makes the barrier between the announcements of a sleeper and its last look.
pub(crate) fn make(barrier: Barrier) {
    core::sync::atomic::fence(Ordering::SeqCst);
    if barrier == Barrier::Everywhere && HAS_BARRIERS.load(Ordering::Relaxed) {
        let _made = calls::barrier_everywhere();
    }
}

/// Readies the process for the barriers of peers.
pub(crate) fn open() {
    HAS_BARRIERS.store(calls::register_for_barriers(), Ordering::Relaxed);
}

/// True if readers may tell their senders to make no fences.
#[inline]
pub(crate) fn has_barriers() -> bool {
    HAS_BARRIERS.load(Ordering::Relaxed)
}

/// The places of this process, which are made at the first sleep.
pub(crate) fn waiters() -> Option<&'static Waiters> {
    let pool = POOLS.get(DEPTH.load(Ordering::Relaxed))?;
    pool.get().or_else(|| pool.set(Waiters::new))
}

/// Wakes those of these sleepers that are of this process. Relatives sleep on until the reader wakes them.
pub(crate) fn wake_own(sleepers: Option<Sleepers>) {
    let Some(pool) = POOLS.get(DEPTH.load(Ordering::Relaxed)).and_then(Once::get) else { return };
    let is_named = |line: &u8| match sleepers {
        None => false,
        Some(Sleepers::One(name)) => name == WaiterName { member: pool.member, line: *line },
        Some(Sleepers::Everybody) => true,
    };
    (0..WAITERS).filter_map(|line| u8::try_from(line).ok()).filter(is_named).for_each(|line| {
        if !is_awake(line) {
            port::ring_own(line);
        }
    });
}

/// True if the waiter of this line is awake.
pub(crate) fn is_awake(line: u8) -> bool {
    let line = waiters().and_then(|waiters| waiters.status.page().0.get(usize::from(line)));
    line.is_some_and(|line| line.asleep.load(Ordering::Relaxed) == 0)
}

/// The memory of this process's status page, which the daemon is shown.
pub(crate) fn status() -> Option<BorrowedFd<'static>> {
    waiters()?.file.borrow()
}

/// True if peers can wake this process's sleepers.
pub(crate) fn is_rung() -> bool {
    port::was_rung() || status().is_some_and(port::is_rung)
}

/// Returns the nanoseconds of a thread's sleep until it looks again by itself.
pub(crate) const fn span(is_rung: bool) -> u64 {
    if is_rung { LONG } else { SLICE }
}

/// How many forks without exec lie behind this process.
pub(crate) fn generation() -> usize {
    DEPTH.load(Ordering::Relaxed)
}

/// In a child of fork: leaves the places to the parent.
pub(crate) fn leave_to_parent() {
    DEPTH.fetch_add(1, Ordering::Relaxed);
}

/// Makes the doorbell of a line, and gives the daemon what rings it: the eventfd itself, or the other end of a pair of
/// sockets, with which another user can do no harm.
fn make_bell(line: u8) -> Option<Own> {
    if port::is_own_user() {
        let bell = Own::bell(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).ok()?).ok()?;
        port::announce_bell(line, bell);
        return Some(bell);
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (bell, rope) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None).ok()?;
    port::announce_bell(line, Own::bell(rope).ok()?);
    Own::bell(bell).ok()
}

/// True if a thread of this process with that number has ended.
fn is_dead(thread: u32) -> bool {
    let Some(thread) = c_int::try_from(thread).ok().and_then(Pid::from_raw) else { return false };
    // The threads of a process are found as processes, too.
    test_kill_process(thread) == Err(rustix::io::Errno::SRCH)
}

static HAS_BARRIERS: AtomicBool = AtomicBool::new(false);
/// The places of this process and of those that it came from by fork, which it has to keep.
static POOLS: [Once<Waiters>; GENERATIONS] = [const { Once::new() }; GENERATIONS];
static DEPTH: AtomicUsize = AtomicUsize::new(0);
/// Processes that came from each other by fork without exec. Those behind look now and then instead of being woken.
pub(crate) const GENERATIONS: usize = 16;
/// A daemon that dies meanwhile can wake nobody for those peers that have no doorbell.
const LONG: u64 = 5_000_000_000;
/// Nobody can wake the thread.
const SLICE: u64 = 10_000_000;
/// The owner of a line that an epoll set has.
const A_SET: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family;

    #[test]
    fn a_sleep_has_a_number_until_others_sleep_beside_it() {
        let _turn = family::turn();
        family::opened();
        let waiter = Waiter::of_set().expect("a line");
        let asleep = || waiter.asleep().load(Ordering::Relaxed);
        let sleeps = [(); 3].map(|()| {
            waiter.doze(true);
            let sleep = asleep();
            waiter.wake(false);
            assert_eq!(asleep(), 0);
            sleep
        });
        assert!(sleeps[0] != 0 && sleeps[0] < sleeps[1] && sleeps[1] < sleeps[2], "{sleeps:?}");
        waiter.doze(true);
        waiter.doze(false);
        assert_eq!(asleep(), ALWAYS);
        waiter.wake(false);
        // In the other order.
        waiter.doze(false);
        waiter.doze(true);
        assert_eq!(asleep(), ALWAYS);
        waiter.wake(false);
        // One of two threads takes the ring of the other.
        waiter.doze(true);
        waiter.ring();
        waiter.silence();
        assert_eq!(asleep(), ALWAYS);
        waiter.wake(true);
        assert_eq!(asleep(), 0);
        waiter.leave();
    }
}
