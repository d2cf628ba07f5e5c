//! The epoll sets of this process, and the stream sockets in them.
//!
//! A set is the kernel's. Once a member's octets come by a ring, its registration in the kernel's set only tells of what
//! the kernel alone knows, with data of this library's, and the set's thread looks at the ring.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::os::fd::AsRawFd;

use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLET, EPOLLEXCLUSIVE, EPOLLIN, EPOLLOUT, EPOLLPRI,
    EPOLLRDHUP,
};
use weft_sockets::end::{NONBLOCKING, TOLD};
use weft_sockets::layout::ENDS;
use weft_sockets::{Interest, Reason};

use crate::cells::{self, Place};
use crate::ends::{self, Stream};
use crate::real::{self, Once};
use crate::section::Section;
use crate::sleep::{self, GENERATIONS, Waiter};
use crate::table::{self, Entry, Handle};
use crate::{calls, channel, clock};

/// A stream socket in a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Its end.
    pub(crate) handle: Handle,
    /// The program's data.
    pub(crate) data: u64,
    /// What the program wants to hear.
    pub(crate) interest: Interest,
    /// Counts the members that had this descriptor.
    generation: u32,
    /// The program's events.
    events: u32,
    /// The kernel's registration is this library's.
    pub(crate) is_taken: bool,
}

/// A set.
#[derive(Debug)]
pub(crate) struct Set {
    is_used: AtomicBool,
    /// A descriptor of the set.
    pub(crate) descriptor: AtomicI32,
    lock: AtomicU64,
    members: Once<&'static [Place<Member>]>,
    /// The descriptors of taken members.
    list: Once<&'static [AtomicU64]>,
    /// How many members are taken.
    pub(crate) taken: AtomicU32,
    /// Behind the highest descriptor that ever was a member.
    behind: AtomicU32,
    /// Threads in the kernel's wait.
    pub(crate) inside: AtomicU32,
    /// Threads of them that said that they sleep.
    pub(crate) sleepers: AtomicU32,
    /// Counts looks, so that each member and the kernel have their turns.
    pub(crate) turn: AtomicU32,
    /// Who sleeps for this place's sets, in this process and in those that it came from by fork.
    waiters: [Once<Waiter>; GENERATIONS],
    /// The program's data look like this library's.
    is_barred: AtomicBool,
    /// The set is in another one, or in lists of `poll`: its doorbell tells the kernel of its rings.
    pub(crate) is_watched: AtomicBool,
    /// The descriptors of sets in this one, plus 1.
    inner: [AtomicI32; INNER],
}

impl Set {
    const fn new() -> Self {
        Self {
            is_used: AtomicBool::new(false),
            descriptor: AtomicI32::new(-1),
            lock: AtomicU64::new(0),
            members: Once::new(),
            list: Once::new(),
            taken: AtomicU32::new(0),
            behind: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            waiters: [const { Once::new() }; GENERATIONS],
            is_barred: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
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

    /// The taken members, beginning with another one at each turn. The caller is in a section.
    pub(crate) fn taken(&self, turn: u32) -> impl Iterator<Item = (c_int, Member)> {
        let count = self.taken.load(Ordering::Relaxed) as usize;
        let list = self.list.get().and_then(|list| list.get(..count)).unwrap_or_default();
        let (behind, first) = list.split_at(if count == 0 { 0 } else { turn as usize % count });
        first.iter().chain(behind).filter_map(|descriptor| {
            let descriptor = c_int::try_from(descriptor.load(Ordering::Relaxed)).ok()?;
            Some((descriptor, self.member(descriptor)?))
        })
    }

    /// Returns the member with this descriptor.
    pub(crate) fn member(&self, descriptor: c_int) -> Option<Member> {
        self.members.get()?.get(usize::try_from(descriptor).ok()?)?.get()
    }

    /// Stores what has become of a member.
    pub(crate) fn store(&self, descriptor: c_int, member: Member) {
        let members = self.members.get().or_else(|| self.members.set(|| cells::reserve(MEMBERS)));
        let place = usize::try_from(descriptor).ok().and_then(|descriptor| members?.get(descriptor));
        if let Some(place) = place {
            place.set(Some(member));
        }
    }

    /// Returns the taken member that bears this data of the library's.
    pub(crate) fn tagged(&self, data: u64) -> Option<(c_int, Member)> {
        let descriptor = c_int::try_from(data & DESCRIPTOR).ok()?;
        let member = self.member(descriptor)?;
        (member.is_taken && member.tag(descriptor) == data).then_some((descriptor, member))
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
        if self.inside.load(Ordering::SeqCst) > 0 || self.is_watched.load(Ordering::SeqCst) {
            self.ring();
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
    fn take(&self, descriptor: c_int, mut member: Member, stream: &Stream) -> bool {
        if !self.add_bell() {
            return false;
        }
        member.generation = GENERATION.fetch_add(1, Ordering::Relaxed) & 0xfff;
        let set = self.descriptor.load(Ordering::Relaxed);
        let ours = Some((registration(stream, member.events), member.tag(descriptor)));
        if calls::epoll_ctl(set, EPOLL_CTL_MOD, descriptor, ours) != 0 {
            return false;
        }
        member.is_taken = true;
        self.note_taken(descriptor);
        self.store(descriptor, member);
        self.call_back();
        true
    }

    fn note_taken(&self, descriptor: c_int) {
        let list = self.list.get().or_else(|| self.list.set(|| real::reserve(MEMBERS)));
        let count = self.taken.load(Ordering::Relaxed);
        if let Some(place) = list.and_then(|list| list.get(count as usize)) {
            place.store(u64::from(descriptor.cast_unsigned()), Ordering::Relaxed);
            self.taken.store(count + 1, Ordering::SeqCst);
        }
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
        if member.is_taken {
            let count = self.taken.load(Ordering::Relaxed);
            let list = self.list.get().and_then(|list| list.get(..count as usize)).unwrap_or_default();
            let is_its =
                |place: &&AtomicU64| place.load(Ordering::Relaxed) == u64::from(descriptor.cast_unsigned());
            if let (Some(place), Some(last)) = (list.iter().find(is_its), list.last()) {
                place.store(last.load(Ordering::Relaxed), Ordering::Relaxed);
                self.taken.store(count - 1, Ordering::SeqCst);
            }
        }
    }
}

impl Member {
    fn new(handle: Handle, events: u32, data: u64) -> Self {
        Self { handle, data, interest: Interest::new(events), generation: 0, events, is_taken: false }
    }

    /// The data by which the kernel's set names the member while it is taken.
    fn tag(&self, descriptor: c_int) -> u64 {
        tag() | u64::from(self.generation) << 20 | u64::from(descriptor.cast_unsigned()) & DESCRIPTOR
    }

    /// Returns the end, if the descriptor still shows it.
    pub(crate) fn stream(&self, descriptor: c_int) -> Option<Stream> {
        (table::entry(descriptor) == Some(Entry::Stream(self.handle)))
            .then(|| Stream::of(self.handle))
            .flatten()
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
        set.descriptor.store(descriptor, Ordering::Relaxed);
        table::replace(descriptor, Entry::Set(u32::try_from(place).unwrap_or(0)));
    }
}

/// In a child of fork: forgets the parent's threads, which are not here.
pub(crate) fn inherit() {
    for set in SETS.iter().filter(|set| set.is_used.load(Ordering::Relaxed)) {
        set.lock.store(0, Ordering::Relaxed);
        set.inside.store(0, Ordering::Relaxed);
        set.sleepers.store(0, Ordering::Relaxed);
    }
}

/// Changes a set as `epoll_ctl` does. Returns the kernel's answer.
pub(crate) fn control(
    set_descriptor: c_int,
    operation: c_int,
    descriptor: c_int,
    event: Option<(u32, u64)>,
) -> isize {
    let kernel = || calls::epoll_ctl(set_descriptor, operation, descriptor, event);
    let Some(set) = of(set_descriptor) else { return kernel() };
    if of(descriptor).is_some() {
        let result = kernel();
        if result == 0 {
            note_inner(set, operation, descriptor);
        }
        return result;
    }
    let Some(stream) = ends::stream(descriptor) else { return kernel() };
    let changed = set.with(|| {
        let known = set.member(descriptor).filter(|member| member.handle == stream.handle);
        match (operation, event) {
            (EPOLL_CTL_ADD, Some(event)) => add(set, descriptor, &stream, event),
            (EPOLL_CTL_MOD, Some(event)) => modify(set, descriptor, &stream, known, event),
            (EPOLL_CTL_DEL, _) => {
                let result = kernel();
                if result == 0 && known.is_some() {
                    set.remove(descriptor);
                    count(stream.handle, -1);
                }
                result
            }
            _ => kernel(),
        }
    });
    changed.unwrap_or_else(kernel)
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
        set.is_used.load(Ordering::Acquire) && member.is_some_and(|member| member.handle == stream.handle)
    };
    for set in SETS.iter().filter(its) {
        let taken = set.with(|| {
            let member = set.member(descriptor).filter(|member| member.handle == stream.handle)?;
            let is_ours = member.is_taken
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

/// The kernel's data of doorbells.
pub(crate) fn bell_tag() -> u64 {
    tag() | DESCRIPTOR
}

/// True if data are of this library.
pub(crate) fn is_tag(data: u64) -> bool {
    data & TAG == tag()
}

/// Notes that a set is in another one, or no longer.
fn note_inner(set: &Set, operation: c_int, descriptor: c_int) {
    let (from, to) = match operation {
        EPOLL_CTL_ADD => (0, descriptor + 1),
        EPOLL_CTL_DEL => (descriptor + 1, 0),
        _ => return,
    };
    let mut words = set.inner.iter();
    // Further ones are only the kernel's.
    let _noted =
        words.find(|word| word.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok());
}

fn add(set: &'static Set, descriptor: c_int, stream: &Stream, (events, data): (u32, u64)) -> isize {
    if is_tag(data) {
        set.is_barred.store(true, Ordering::Relaxed);
    }
    if events & EPOLLEXCLUSIVE.cast_unsigned() != 0 {
        // The kernel does not change such a registration.
        stream.end.stay(Reason::Option);
    }
    let set_descriptor = set.descriptor.load(Ordering::Relaxed);
    let result = calls::epoll_ctl(set_descriptor, EPOLL_CTL_ADD, descriptor, Some((events, data)));
    if result != 0 {
        return result;
    }
    if set.member(descriptor).is_some() {
        // The descriptor was closed and is another socket's now.
        set.remove(descriptor);
    }
    set.behind.fetch_max(descriptor.cast_unsigned() + 1, Ordering::Relaxed);
    let member = Member::new(stream.handle, events, data);
    set.store(descriptor, member);
    count(stream.handle, 1);
    if stream.end.has(NONBLOCKING) {
        // Its program waits by hooked calls.
        stream.end.identity.flags.fetch_or(TOLD, Ordering::Relaxed);
    }
    let is_ours = channel::inbound(stream).is_some() || channel::outbound(stream).is_some();
    if is_ours && !set.take(descriptor, member, stream) {
        calls::epoll_ctl(set_descriptor, EPOLL_CTL_DEL, descriptor, None);
        set.remove(descriptor);
        count(stream.handle, -1);
        return -(libc::ENOMEM as isize);
    }
    0
}

fn modify(
    set: &'static Set,
    descriptor: c_int,
    stream: &Stream,
    known: Option<Member>,
    (events, data): (u32, u64),
) -> isize {
    let set_descriptor = set.descriptor.load(Ordering::Relaxed);
    let change = |event| calls::epoll_ctl(set_descriptor, EPOLL_CTL_MOD, descriptor, Some(event));
    let Some(mut member) = known else { return change((events, data)) };
    let result = if member.is_taken && events & EPOLLEXCLUSIVE.cast_unsigned() == 0 {
        change((registration(stream, events), member.tag(descriptor)))
    } else {
        change((events, data))
    };
    if result == 0 {
        (member.events, member.data) = (events, data);
        member.interest.modify(events);
        set.store(descriptor, member);
    }
    result
}

/// What the kernel is to tell of a taken member.
fn registration(stream: &Stream, events: u32) -> u32 {
    let is_sending = if channel::outbound(stream).is_none() { EPOLLOUT } else { 0 };
    (EPOLLIN | EPOLLRDHUP | EPOLLET | is_sending).cast_unsigned() | events & EPOLLPRI.cast_unsigned()
}

/// Counts the memberships of an end.
fn count(handle: Handle, more: i64) {
    let words = MEMBERSHIPS.get().or_else(|| MEMBERSHIPS.set(|| real::reserve(ENDS as usize)));
    let Some(word) = words.and_then(|words| words.get(handle.slot as usize)) else { return };
    let generation = u64::from(handle.generation) << 32;
    let _counted = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
        let number = if word & !0xffff_ffff == generation { word & 0xffff_ffff } else { 0 };
        Some(generation | number.saturating_add_signed(more))
    });
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
                        count(member.handle, -1);
                        set.remove(descriptor);
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

/// The high half of this library's data.
fn tag() -> u64 {
    let known = TAG_WORD.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // Data of a program hold an address or a descriptor, and have a high half of few values.
    let made = (clock::now().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63) & TAG;
    match TAG_WORD.compare_exchange(0, made, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => made,
        Err(other) => other,
    }
}

static SETS: [Set; 256] = [const { Set::new() }; 256];
/// How often each end is in a set, below its generation.
static MEMBERSHIPS: Once<&'static [AtomicU64]> = Once::new();
static GENERATION: AtomicU32 = AtomicU32::new(0);
static TAG_WORD: AtomicU64 = AtomicU64::new(0);
const TAG: u64 = 0xffff_ffff << 32;
/// The descriptor in data of this library. All ones are the doorbell.
const DESCRIPTOR: u64 = (1 << 20) - 1;
/// Sets in a set that are looked after.
const INNER: usize = 8;
/// Descriptors from here on are never taken.
const MEMBERS: usize = 1 << 16;
const EXISTS: isize = -(libc::EEXIST as isize);
