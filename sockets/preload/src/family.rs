//! The slab of ends that this process shares with those that it forks, and its place among them.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Uid, getuid};
use weft_sockets::Slab;
use weft_sockets::layout::{Member, SLAB_MAGIC};

use crate::own::{Own, Place};
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
            member.started.store(started().unwrap_or(0), Ordering::Relaxed);
            member.pid.store(process(), Ordering::Release);
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

    /// Gives a place back.
    pub(crate) fn free(&self, place: u16) {
        if let Some(member) = self.member(place) {
            member.started.store(0, Ordering::Relaxed);
            member.pid.store(0, Ordering::Release);
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

/// Returns when this process was started, as `/proc/PID/stat` has it.
fn started() -> Option<u64> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(c"/proc/self/stat", flags, Mode::empty()).ok()?;
    let mut text = [0; 1024];
    let len = rustix::io::read(&file, &mut text[..]).ok()?;
    // The name before the closing bracket may have anything in it.
    let behind = text.get(..len)?.rsplit(|octet| *octet == b')').next()?;
    let field = behind.split(|octet| *octet == b' ').nth(FIELD)?;
    core::str::from_utf8(field).ok()?.parse().ok()
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
/// The 22nd field, counted from the space behind the second.
const FIELD: usize = 20;

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
}
