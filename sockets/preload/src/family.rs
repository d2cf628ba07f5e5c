//! The slab of ends that this process shares with those that it forks, and its place among them.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::process::{Uid, getuid};
use weft_sockets::Slab;
use weft_sockets::layout::{Member, SLAB_MAGIC};

use crate::own::{Own, Place};
use crate::procfs;
use crate::real::{self, Once};

/// The slab, mapped as long as the process lives.
#[derive(Debug)]
pub(crate) struct Family {
    /// The ends.
    pub(crate) slab: Slab,
    /// The memory that the daemon is shown.
    pub(crate) file: Place,
    /// The user that it belongs to.
    user: AtomicU32,
    /// The place of this process among the members plus 1. A child finds 0 until it takes its own.
    member: &'static AtomicU64,
}

impl Family {
    fn new() -> Option<Self> {
        let memory = Slab::create().ok()?;
        let slab = Slab::map(&memory).ok()?;
        slab.header().magic.store(SLAB_MAGIC, Ordering::Relaxed);
        let file = Place::new();
        file.put(Own::new(memory).ok()?);
        let member = real::reserve(1)?;
        real::keep_in_children(member, false);
        let user = AtomicU32::new(getuid().as_raw());
        let family = Self { slab, file, user, member: member.first()? };
        family.join(None);
        Some(family)
    }

    /// Takes a place among the members: the one that the parent has reserved, if there is one.
    pub(crate) fn join(&self, reserved: Option<u16>) {
        let place = reserved.or_else(|| self.reserve());
        if let Some(member) = place.and_then(|place| self.member(place)) {
            // A place without a start time is that of a process that is about to come.
            member.pid.store(process(), Ordering::Release);
            member.started.store(procfs::started().unwrap_or(0), Ordering::Release);
        }
        self.member.store(place.map_or(0, |place| u64::from(place) + 1), Ordering::Release);
    }

    /// True if it belongs to this user.
    pub(crate) fn is_of(&self, user: Uid) -> bool {
        self.user.load(Ordering::Relaxed) == user.as_raw()
    }

    /// Leaves the family, with a slab of its own in the place of the shared one. Returns false if there is no memory: then
    /// the process is in no family.
    pub(crate) fn found_another(&self) -> bool {
        if let Some(place) = self.member.swap(0, Ordering::AcqRel).checked_sub(1) {
            self.free(u16::try_from(place).unwrap_or(u16::MAX));
        }
        let Ok(memory) = Slab::create() else { return false };
        let is_replaced = self.slab.replace(&memory).is_ok();
        if let (true, Ok(own)) = (is_replaced, Own::new(memory)) {
            self.slab.header().magic.store(SLAB_MAGIC, Ordering::Relaxed);
            self.file.put(own);
            self.user.store(getuid().as_raw(), Ordering::Relaxed);
            self.join(None);
        }
        is_replaced
    }

    /// Takes a place for a process that is about to be forked.
    pub(crate) fn reserve(&self) -> Option<u16> {
        let take = |member: &Member| {
            member.pid.compare_exchange(0, process(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        u16::try_from(self.slab.header().members.iter().position(take)?).ok()
    }

    /// Says which process takes the place that was reserved for it, unless it has said so itself. It may not run for a
    /// while, and this one may die meanwhile.
    pub(crate) fn announce(&self, place: u16, child: u32) {
        if let Some(member) = self.member(place) {
            let _known = member.pid.compare_exchange(process(), child, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Gives a place back.
    pub(crate) fn free(&self, place: u16) {
        if let Some(member) = self.member(place) {
            member.started.store(0, Ordering::Relaxed);
            member.pid.store(0, Ordering::Release);
        }
    }

    /// Before another program takes this process over: the family need not reckon with it any more. Returns what
    /// [`come_back`](Self::come_back) needs if that fails.
    pub(crate) fn depart(&self) -> Option<u64> {
        let member = self.member(member()?)?;
        Some(member.started.swap(NEVER, Ordering::AcqRel))
    }

    /// No other program has taken this process over.
    pub(crate) fn come_back(&self, started: u64) {
        if let Some(member) = member().and_then(|place| self.member(place)) {
            member.started.store(started, Ordering::Release);
        }
    }

    fn member(&self, place: u16) -> Option<&Member> {
        self.slab.header().members.get(usize::from(place))
    }
}

/// Makes the slab, if this family has none yet.
pub(crate) fn open() -> Option<&'static Family> {
    FAMILY.get().or_else(|| FAMILY.set(Family::new))
}

/// Returns the family, if it has a slab.
#[inline]
pub(crate) fn family() -> Option<&'static Family> {
    FAMILY.get()
}

/// Returns the place of this process among the members, if it has one.
pub(crate) fn member() -> Option<u16> {
    u16::try_from(family()?.member.load(Ordering::Acquire).checked_sub(1)?).ok()
}

fn process() -> u32 {
    rustix::process::getpid().as_raw_pid().cast_unsigned()
}

/// The family, which another test may be making.
#[cfg(test)]
pub(crate) fn opened() -> &'static Family {
    core::iter::repeat_with(open).flatten().next().expect("it comes")
}

/// The turn of a test that uses what the process has once: its port, its links and its peers.
#[cfg(test)]
pub(crate) fn turn() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

static FAMILY: Once<Family> = Once::new();
/// The start time of a process that runs another program by now.
const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_a_member_with_its_start_time() {
        let family = opened();
        let member = member().expect("a place");
        let words = &family.slab.header().members[usize::from(member)];
        assert_eq!(words.pid.load(Ordering::Relaxed), std::process::id());
        let stat = std::fs::read_to_string("/proc/self/stat").expect("the kernel's text");
        let started = stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(20)).expect("a field");
        assert_eq!(words.started.load(Ordering::Relaxed).to_string(), started);
        assert!(family.file.borrow().is_some());
    }

    #[test]
    fn a_place_for_a_child_names_it_until_the_child_does() {
        let _turn = turn();
        let family = opened();
        let place = family.reserve().expect("a place");
        let pid = &family.slab.header().members[usize::from(place)].pid;
        family.announce(place, 77);
        assert_eq!(pid.load(Ordering::Relaxed), 77);
        family.announce(place, 78);
        assert_eq!(pid.load(Ordering::Relaxed), 77, "the child has named itself");
        family.free(place);
    }
}
