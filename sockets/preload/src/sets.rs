//! The epoll sets of this process, and the stream sockets in them.
//!
//! A set is the kernel's. Once a member's octets come by a ring, its registration in the kernel's set only tells of what
//! the kernel alone knows, with data of this library's, and the set's thread looks at the ring.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::os::fd::AsRawFd;

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN};
use weft_sockets::Lock;
use weft_sockets::end::FAR;
use weft_sockets::layout::ENDS;

use crate::cells::{self, Place};
use crate::ends::{self, Stream};
use crate::member::{DESCRIPTOR, Member, bell_tag, registration};
use crate::real::{self, Once};
use crate::row::{Row, Seat};
use crate::section::Section;
use crate::sleep::{self, GENERATIONS, Waiter};
use crate::table::{self, Entry, Handle};
use crate::{calls, channel, overtaken};

/// A set.
#[derive(Debug)]
pub(crate) struct Set {
    is_used: AtomicBool,
    /// A descriptor of the set.
    pub(crate) descriptor: AtomicI32,
    lock: AtomicU64,
    members: Once<&'static [Place<Member>]>,
    /// The taken members.
    pub(crate) row: Row,
    /// How many members are connections, taken or not.
    connections: AtomicU32,
    /// Behind the highest descriptor that ever was a member.
    pub(crate) behind: AtomicU32,
    /// Threads in the kernel's wait.
    pub(crate) inside: AtomicU32,
    /// Threads of them that said that they sleep.
    pub(crate) sleepers: AtomicU32,
    /// Counts looks, so that each member and the kernel have their turns.
    pub(crate) turn: AtomicU32,
    /// Who sleeps for this place's sets, in this process and in those that it came from by fork.
    waiters: [Once<Waiter>; GENERATIONS],
    /// The program's data look like this library's.
    pub(crate) is_barred: AtomicBool,
    /// The set is in another one, or in lists of `poll`: its doorbell tells the kernel of its rings.
    pub(crate) is_watched: AtomicBool,
    /// The kernel has told of a member what does not count yet.
    pub(crate) is_early: AtomicBool,
    /// The descriptors of sets in this one, plus 1.
    pub(crate) inner: [AtomicI32; INNER],
}

impl Set {
    const fn new() -> Self {
        Self {
            is_used: AtomicBool::new(false),
            descriptor: AtomicI32::new(-1),
            lock: AtomicU64::new(0),
            members: Once::new(),
            row: Row::new(),
            connections: AtomicU32::new(0),
            behind: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            waiters: [const { Once::new() }; GENERATIONS],
            is_barred: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
            is_early: AtomicBool::new(false),
            inner: [const { AtomicI32::new(0) }; INNER],
        }
    }

    /// The sets in this one.
    pub(crate) fn inner(&self) -> impl Iterator<Item = &'static Self> {
        self.inner.iter().filter_map(|word| of(word.load(Ordering::Relaxed).checked_sub(1)?))
    }

    /// Rings the set's own doorbell, which is a member of the kernel's set.
    pub(crate) fn ring(&self) {
        if let Some(waiter) = self.waiter() {
            waiter.ring();
        }
    }

    /// Runs a section of the set. In a signal handler that interrupted one it does nothing and returns `None`.
    pub(crate) fn with<T>(&'static self, run: impl FnOnce() -> T) -> Option<T> {
        let section = Section::of_word(&self.lock)?;
        let result = run();
        section.leave();
        Some(result)
    }

    /// The taken members. The caller is in a section.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (c_int, Member)> {
        self.seated().filter(|(_, member)| !member.is_removed)
    }

    /// As [`taken`](Self::taken), without those of which nothing can be told, and beginning with another one at each turn.
    #[inline]
    pub(crate) fn busy(&self, turn: u32) -> impl Iterator<Item = (c_int, Member)> {
        self.row.places(turn).filter_map(|place| {
            let seat = place.get_unless(Seat::is_silent)?;
            let member = self.member(seat.descriptor).filter(|member| !member.is_removed)?;
            let silence = member.silence();
            if silence.is_some() {
                place.set(Some(Seat { silence, ..seat }));
            }
            silence.is_none().then_some((seat.descriptor, member))
        })
    }

    /// The taken members and those of them that the program has removed.
    fn seated(&self) -> impl Iterator<Item = (c_int, Member)> {
        let seats = self.row.places(0).filter_map(Place::get);
        seats.filter_map(|seat| Some((seat.descriptor, self.member(seat.descriptor)?)))
    }

    /// Returns the member with this descriptor.
    pub(crate) fn member(&self, descriptor: c_int) -> Option<Member> {
        self.members.get()?.get(usize::try_from(descriptor).ok()?)?.get()
    }

    /// True if the octets of some members come by TCP.
    pub(crate) fn is_mixed(&self) -> bool {
        self.connections.load(Ordering::Relaxed) > self.row.len()
    }

    /// Stores a new member. The caller is in a section.
    pub(crate) fn insert(&self, descriptor: c_int, member: Member) {
        self.behind.fetch_max(descriptor.cast_unsigned() + 1, Ordering::Relaxed);
        self.connections.fetch_add(u32::from(member.is_connection), Ordering::Relaxed);
        self.store(descriptor, member);
    }

    /// Stores what has become of a member.
    pub(crate) fn store(&self, descriptor: c_int, member: Member) {
        let members = self.members.get().or_else(|| self.members.set(|| cells::reserve(MEMBERS)));
        let place = usize::try_from(descriptor).ok().and_then(|descriptor| members?.get(descriptor));
        if let Some(place) = place {
            place.set(Some(member));
        }
        if let Some(at) = member.taken {
            self.row.forget(at);
        }
    }

    /// Returns the taken member that bears this data of the library's.
    pub(crate) fn tagged(&self, data: u64) -> Option<(c_int, Member)> {
        let descriptor = c_int::try_from(data & DESCRIPTOR).ok()?;
        let member = self.member(descriptor)?;
        (member.taken.is_some() && member.tag(descriptor) == data).then_some((descriptor, member))
    }

    /// The waiter of the set's sleepers. A child of fork makes its own: its parent goes on with the one before.
    pub(crate) fn waiter(&self) -> Option<&Waiter> {
        let waiter = self.waiters.get(sleep::generation())?;
        if waiter.get().is_none() {
            self.register_bell(waiter.set(Waiter::of_set)?);
        }
        waiter.get()
    }

    /// Rings for threads that began to wait in the kernel before a member was taken.
    fn call_back(&self) {
        if self.inside.load(Ordering::SeqCst) > 0 || self.has_sleepers() {
            self.ring();
        }
    }

    /// True if threads sleep that have to hear of a change.
    pub(crate) fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::SeqCst) > 0 || self.is_watched.load(Ordering::SeqCst)
    }

    /// Tells what the kernel told of members before it counted, if it counts by now. Returns the nanoseconds until the
    /// rest of that does.
    #[inline]
    pub(crate) fn catch_up(&'static self) -> u64 {
        if self.is_early.load(Ordering::Relaxed) { self.tell_early() } else { u64::MAX }
    }

    #[cold]
    fn tell_early(&'static self) -> u64 {
        let told = self.with(|| {
            let mut least = None;
            for (descriptor, mut member) in self.taken() {
                let Some(stream) = member.stream(descriptor) else { continue };
                match overtaken::left(&stream) {
                    Some(left) => least = Some(least.map_or(left, |least: u64| least.min(left))),
                    None if stream.end.inbound.early.load(Ordering::Relaxed) != 0 => {
                        member.tell_late_news(&stream, descriptor);
                        self.store(descriptor, member);
                    }
                    None => {}
                }
            }
            self.is_early.store(least.is_some(), Ordering::Relaxed);
            least
        });
        told.flatten().unwrap_or(u64::MAX)
    }

    /// Removes the members in the kernel's set that the program has removed. The caller is in a section.
    pub(crate) fn purge(&self) {
        let removed = || self.seated().find(|(_, member)| member.is_removed);
        while let Some((descriptor, member)) = removed() {
            if table::entry(descriptor) == Some(Entry::Stream(member.handle)) {
                self.delete(descriptor, &member);
            } else {
                // Its socket was closed, so that it is not there any more.
                self.drop_member(descriptor, member.handle);
            }
        }
    }

    /// Removes a member, in the kernel's set, too. Returns the kernel's answer. The caller is in a section.
    pub(crate) fn delete(&self, descriptor: c_int, member: &Member) -> isize {
        let set = self.descriptor.load(Ordering::Relaxed);
        let result = calls::epoll_ctl(set, EPOLL_CTL_DEL, descriptor, None);
        self.drop_member(descriptor, member.handle);
        if member.taken.is_some() {
            self.renew();
        }
        result
    }

    /// Notes that rings may name the set's waiter though they have left the set.
    pub(crate) fn renew(&self) {
        if let Some(waiter) = self.waiter() {
            waiter.renew();
        }
    }

    /// Registers the doorbell, if it is not there already.
    fn add_bell(&self) -> bool {
        self.waiter().is_some_and(|waiter| self.register_bell(waiter))
    }

    fn register_bell(&self, waiter: &Waiter) -> bool {
        let Some(bell) = waiter.bell() else { return false };
        let set = self.descriptor.load(Ordering::Relaxed);
        let event = Some((EPOLLIN.cast_unsigned(), bell_tag()));
        matches!(calls::epoll_ctl(set, EPOLL_CTL_ADD, bell.as_raw_fd(), event), 0 | EXISTS)
    }

    /// Takes a member's registration over. The caller is in a section.
    pub(crate) fn take(&self, descriptor: c_int, mut member: Member, stream: &Stream) -> bool {
        if !self.add_bell() {
            return false;
        }
        let Some(at) = self.row.add(descriptor) else { return false };
        member.taken = Some(at);
        member.generation = GENERATION.fetch_add(1, Ordering::Relaxed) & 0xfff;
        let set = self.descriptor.load(Ordering::Relaxed);
        member.registered = registration(stream, member.events);
        let ours = Some((member.registered, member.tag(descriptor)));
        if calls::epoll_ctl(set, EPOLL_CTL_MOD, descriptor, ours) != 0 {
            self.row.remove(at);
            return false;
        }
        (member.inbound, member.outbound) = (channel::offered_inbound(stream), Some(&stream.end.outbound));
        member.is_far = stream.end.has(FAR);
        member.tell_end(stream, descriptor);
        self.store(descriptor, member);
        self.want_stamps(&member);
        self.call_back();
        true
    }

    /// Has the senders to several members stamp their octets, since the set tells these in order.
    fn want_stamps(&self, member: &Member) {
        match self.row.len() {
            0 | 1 => {}
            2 => self.seated().for_each(|(_, member)| member.want_stamps()),
            _ => member.want_stamps(),
        }
    }

    /// Forgets a member that the kernel's set does not have any more either. The caller is in a section.
    fn drop_member(&self, descriptor: c_int, handle: Handle) {
        self.remove(descriptor);
        count(handle, -1);
    }

    /// Forgets a member. The caller is in a section.
    pub(crate) fn remove(&self, descriptor: c_int) {
        let places = self.members.get().copied().unwrap_or_default();
        let Some(place) = usize::try_from(descriptor).ok().and_then(|descriptor| places.get(descriptor))
        else {
            return;
        };
        let Some(member) = place.get() else { return };
        place.set(None);
        self.connections.fetch_sub(u32::from(member.is_connection), Ordering::Relaxed);
        let moved = member.taken.and_then(|at| self.row.remove(at));
        if let Some((descriptor, other)) = moved.and_then(|moved| Some((moved, self.member(moved)?))) {
            self.store(descriptor, Member { taken: member.taken, ..other });
        }
    }
}

/// Returns the set below a descriptor.
#[inline]
pub(crate) fn of(descriptor: c_int) -> Option<&'static Set> {
    match table::entry(descriptor)? {
        Entry::Set(number) => SETS.get(number as usize),
        _ => None,
    }
}

/// Enters a set that the kernel has just made.
pub(crate) fn enter(descriptor: c_int) {
    ends::enter(descriptor);
    let place = SETS.iter().position(claim).or_else(|| {
        sweep();
        SETS.iter().position(claim)
    });
    if let Some((place, set)) = place.and_then(|place| Some((place, SETS.get(place)?))) {
        BEHIND.fetch_max(place + 1, Ordering::Release);
        set.descriptor.store(descriptor, Ordering::Relaxed);
        table::replace(descriptor, Entry::Set(u32::try_from(place).unwrap_or(0)));
    }
}

/// Before a fork: the child gets the sets, too.
pub(crate) fn share() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How often this process, or one that it comes from, has forked.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Names the sleeps of a set's waiter during which its rings need not name it again. It is not 0.
pub(crate) fn sleep(waiter: &Waiter) -> u64 {
    (u64::from(waiter.number()) + 1) << 32 | u64::from(forks())
}

/// In a child of fork: forgets the parent's threads, which are not here.
pub(crate) fn inherit() {
    for set in used() {
        set.lock.store(0, Ordering::Relaxed);
        set.inside.store(0, Ordering::Relaxed);
        set.sleepers.store(0, Ordering::Relaxed);
    }
}

/// Takes over all registrations of an end whose reader is about to leave TCP. Returns false if one cannot be changed.
pub(crate) fn take(stream: &Stream, descriptor: c_int) -> bool {
    let memberships = MEMBERSHIPS.get().and_then(|words| words.get(stream.handle.slot as usize));
    let Some(word) = memberships.map(|word| word.load(Ordering::Relaxed)) else { return true };
    if word >> 32 != u64::from(stream.handle.generation) || word & 0xffff_ffff == 0 {
        return true;
    }
    let mut found = 0;
    let its = |set: &&'static Set| {
        let member = set.member(descriptor);
        member.is_some_and(|member| member.handle == stream.handle)
    };
    for set in used().filter(its) {
        let taken = set.with(|| {
            let member = set.member(descriptor).filter(|member| member.handle == stream.handle)?;
            let is_ours = member.taken.is_some()
                || !set.is_barred.load(Ordering::Relaxed) && set.take(descriptor, member, stream);
            is_ours.then_some(())
        });
        if taken.flatten().is_none() {
            return false;
        }
        found += 1;
    }
    // Another descriptor may be a member, or may have been until it was closed.
    found == word & 0xffff_ffff
}

/// Forgets an end whose last descriptor in this process is closed. The program need not remove it from a set before.
pub(crate) fn forget(descriptor: c_int, handle: Handle) {
    if !has(handle) {
        return;
    }
    for set in used() {
        let _forgotten = set.with(|| {
            if set.member(descriptor).is_some_and(|member| member.handle == handle) {
                set.drop_member(descriptor, handle);
            }
        });
    }
}

/// True if an end is in a set.
#[inline]
pub(crate) fn has(handle: Handle) -> bool {
    let word = MEMBERSHIPS.get().and_then(|words| words.get(handle.slot as usize));
    let word = word.map_or(0, |word| word.load(Ordering::Relaxed));
    word >> 32 == u64::from(handle.generation) && word & 0xffff_ffff != 0
}

/// Counts the memberships of an end.
pub(crate) fn count(handle: Handle, more: i64) {
    let words = MEMBERSHIPS.get().or_else(|| MEMBERSHIPS.set(|| real::reserve(ENDS as usize)));
    let Some(word) = words.and_then(|words| words.get(handle.slot as usize)) else { return };
    let generation = u64::from(handle.generation) << 32;
    let _counted = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
        match (word & !0xffff_ffff == generation, more) {
            (true, _) => Some(generation | (word & 0xffff_ffff).saturating_add_signed(more)),
            (false, 1..) => Some(generation | more.unsigned_abs()),
            // Another end has the place already.
            (false, _) => None,
        }
    });
}

/// The locks of all sets.
pub(crate) fn locks() -> impl Iterator<Item = Lock<'static>> {
    used().map(|set| Lock::new(&set.lock))
}

fn used() -> impl Iterator<Item = &'static Set> {
    let sets = SETS.get(..BEHIND.load(Ordering::Acquire)).unwrap_or_default();
    sets.iter().filter(|set| set.is_used.load(Ordering::Acquire))
}

fn claim(set: &Set) -> bool {
    !set.is_used.swap(true, Ordering::AcqRel)
}

/// Frees the sets that no descriptor shows any more.
fn sweep() {
    for (number, set) in SETS.iter().enumerate() {
        let entry = Entry::Set(u32::try_from(number).unwrap_or(0));
        if set.is_used.load(Ordering::Acquire)
            && (0..table::behind()).all(|other| table::entry(other) != Some(entry))
        {
            let _emptied = set.with(|| {
                for descriptor in 0..set.behind.swap(0, Ordering::Relaxed).cast_signed() {
                    if let Some(member) = set.member(descriptor) {
                        set.drop_member(descriptor, member.handle);
                    }
                }
            });
            set.is_barred.store(false, Ordering::Relaxed);
            set.is_watched.store(false, Ordering::Relaxed);
            set.inner.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            set.is_used.store(false, Ordering::Release);
        }
    }
}

static SETS: [Set; 256] = [const { Set::new() }; 256];
/// Behind the last set that was ever used.
static BEHIND: AtomicUsize = AtomicUsize::new(0);
/// How often each end is in a set, below its generation.
static MEMBERSHIPS: Once<&'static [AtomicU64]> = Once::new();
static GENERATION: AtomicU32 = AtomicU32::new(0);
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Sets in a set that are looked after.
const INNER: usize = 8;
/// Descriptors from here on are never taken.
const MEMBERS: usize = 1 << 16;
const EXISTS: isize = -(libc::EEXIST as isize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_gone_takes_nothing_from_the_next_one_in_its_place() {
        let [gone, next] = [7, 8].map(|generation| Handle { slot: ENDS - 1, generation });
        count(gone, 1);
        count(next, 1);
        count(gone, -1);
        assert_eq!([gone, next].map(has), [false, true]);
        count(next, -1);
        assert!(!has(next));
    }
}
