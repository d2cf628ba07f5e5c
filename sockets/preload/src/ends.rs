//! The ends that this process holds: one for each TCP connection whose octets the hooks count.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::net::sockopt::{socket_cookie, socket_domain, socket_protocol, socket_type};
use rustix::net::{AddressFamily, SocketType, ipproto};
use rustix::time::{ClockId, clock_gettime};
use weft_sockets::Reason;
use weft_sockets::end::{CROWDED, EAGER, FOREIGN, NONBLOCKING, Phase, SHARED, allocate};
use weft_sockets::layout::{ENDS, End};

use crate::calls;
use crate::evidence;
use crate::family;
use crate::guest;
use crate::policy;
use crate::port::{self, Sent};
use crate::real::{self, Once};
use crate::relatives;
use crate::table::{self, Entry, Handle};

/// An end, while a call uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Its name.
    pub(crate) handle: Handle,
    /// Its words.
    pub(crate) end: &'static End,
}

impl Stream {
    /// Returns an end that has not been closed meanwhile.
    #[inline]
    pub(crate) fn of(handle: Handle) -> Option<Self> {
        let stream = Self { handle, end: family::family()?.slab.end(handle.slot)? };
        stream.is_current().then_some(stream)
    }

    /// True if no other end has the place yet. Another thread may have closed this one during a call of the kernel's.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.end.identity.state.load(Ordering::Acquire) >> 8 == self.handle.generation
    }

    /// True if no other thread or process can use the end during this call: then it needs no lock.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        real::is_single_threaded() && (!self.end.has(SHARED) || self.is_left())
    }

    /// True if all other processes have left an end that was shared.
    #[cold]
    fn is_left(&self) -> bool {
        let is_left = !self.end.has(CROWDED) && family::member().is_some_and(|me| self.end.holders.only(me));
        if is_left {
            self.end.identity.flags.fetch_and(!SHARED, Ordering::Relaxed);
        }
        is_left
    }

    /// True if no other process holds the end. Now and then that is found out anew of those that may be dead.
    pub(crate) fn is_held_alone(&self) -> bool {
        if family::member().is_some_and(|member| self.end.holders.only(member)) {
            return true;
        }
        let (now, last) = (milliseconds(), LOOKED.load(Ordering::Relaxed));
        if now.wrapping_sub(last) < LOOK {
            return false;
        }
        LOOKED.store(now, Ordering::Relaxed);
        relatives::leave_alone(self.end)
    }

    /// True if a descriptor still shows the socket of this end. The program may have closed it past the hooks.
    pub(crate) fn is_at(&self, descriptor: c_int) -> bool {
        let mut cookie = [0; 8];
        let asked = calls::option(descriptor, libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie);
        asked.is_ok() && u64::from_ne_bytes(cookie) == self.end.identity.cookie.load(Ordering::Relaxed)
    }

    /// Notes whether the kernel's socket blocks.
    pub(crate) fn set_nonblocking(&self, is_nonblocking: bool) {
        if is_nonblocking {
            self.end.identity.flags.fetch_or(NONBLOCKING, Ordering::Relaxed);
        } else {
            self.end.identity.flags.fetch_and(!NONBLOCKING, Ordering::Relaxed);
        }
    }
}

/// Returns the end below a descriptor. Looks at a descriptor that nobody has looked at yet.
#[inline]
pub(crate) fn stream(descriptor: c_int) -> Option<Stream> {
    match table::entry(descriptor)? {
        Entry::Stream(handle) => Stream::of(handle),
        Entry::Unknown => look(descriptor),
        Entry::Other | Entry::Set(_) => None,
    }
}

/// As [`stream`], of a descriptor that was looked at before.
#[inline]
pub(crate) fn known(descriptor: c_int) -> Option<Stream> {
    match table::entry(descriptor)? {
        Entry::Stream(handle) => Stream::of(handle),
        _ => None,
    }
}

/// Enters a descriptor that the kernel has just given out and that is no stream socket of TCP, as far as known.
pub(crate) fn enter(descriptor: c_int) {
    forget(descriptor);
}

/// Enters a stream socket of TCP that has just come into being, so that its octets are counted from the first on.
pub(crate) fn enter_stream(descriptor: c_int, is_nonblocking: bool) {
    forget(descriptor);
    let flags = if is_nonblocking { NONBLOCKING } else { 0 };
    if table::entry(descriptor).is_some() && !guest::is_guest() {
        let entry = create(descriptor, flags).map_or(Entry::Other, Entry::Stream);
        table::replace(descriptor, entry);
    }
}

/// Enters a duplicate of a descriptor.
pub(crate) fn duplicate(from: c_int, to: c_int) {
    let Some(entry) = table::entry(from).filter(|_| !guest::is_guest()) else { return };
    if let Entry::Stream(handle) = entry {
        count(handle).map(|count| count.fetch_add(1, Ordering::Relaxed));
    }
    let _before = table::replace(to, entry);
}

/// Forgets what a descriptor was, because it is closed. Its end goes with the last descriptor of the last process. Returns
/// the end if this was its last descriptor in this process.
pub(crate) fn forget(descriptor: c_int) -> Option<Handle> {
    let is_known = table::entry(descriptor).is_some_and(|entry| entry != Entry::Unknown);
    if is_known
        && !guest::is_guest()
        && let Entry::Stream(handle) = table::replace(descriptor, Entry::Unknown)
    {
        return release(handle).then_some(handle);
    }
    None
}

/// Returns the end below a descriptor if this is its last one, of all processes.
pub(crate) fn last(descriptor: c_int) -> Option<Stream> {
    let stream = known(descriptor).filter(|_| !guest::is_guest())?;
    let is_last = count(stream.handle)?.load(Ordering::Relaxed) == 1;
    (is_last && relatives::leave_alone(stream.end)).then_some(stream)
}

/// Returns the descriptors of a range, both ends of it included, that may have entries.
pub(crate) fn range(first: u32, last: u32) -> impl Iterator<Item = c_int> {
    let behind = u32::try_from(table::behind()).unwrap_or(0);
    (first..behind.min(last.saturating_add(1))).filter_map(|descriptor| c_int::try_from(descriptor).ok())
}

/// Returns the ends of this process, each with a descriptor.
pub(crate) fn all() -> impl Iterator<Item = (c_int, Stream)> {
    (0..table::behind()).filter_map(|descriptor| Some((descriptor, known(descriptor)?)))
}

/// Before a fork: a child gets all ends, and holds them at this place of the family.
pub(crate) fn share(child: Option<u16>) {
    for (_, Stream { end, .. }) in all() {
        end.identity.flags.fetch_or(SHARED, Ordering::Relaxed);
        // Nobody knows how long a holder without a place lives.
        if !child.is_some_and(|child| end.holders.add(child)) {
            end.identity.flags.fetch_or(CROWDED, Ordering::Relaxed);
            end.stay(Reason::Shared);
        }
    }
}

/// There is no such child.
pub(crate) fn unshare(child: u16) {
    all().for_each(|(_, stream)| {
        stream.end.holders.remove(child);
    });
}

/// In a child of fork: it holds what its table shows. Other threads of its parent may have changed that since
/// [`share`], and between the kernel's copies of the descriptors and of the table.
pub(crate) fn inherit() {
    let (Some(family), Some(member)) = (family::family(), family::member()) else { return };
    for (descriptor, stream) in all().filter(|(descriptor, stream)| !stream.is_at(*descriptor)) {
        if table::exchange(descriptor, Entry::Stream(stream.handle), Entry::Unknown) {
            count(stream.handle).map(|count| count.fetch_sub(1, Ordering::Relaxed));
        }
    }
    share(Some(member));
    for (slot, end) in family.slab.ends() {
        let handle = Handle { slot, generation: end.state().generation };
        let is_held = end.holders.members().any(|holder| holder == member);
        if is_held && count(handle).is_some_and(|count| count.load(Ordering::Relaxed) == 0) {
            leave(Stream { handle, end });
        }
    }
}

/// Leaves all ends to the other processes of the family. They are looked at anew.
pub(crate) fn leave_all() {
    for descriptor in 0..table::behind() {
        forget(descriptor);
    }
}

/// Looks at a descriptor that this process has not made by a hooked call.
#[cold]
fn look(descriptor: c_int) -> Option<Stream> {
    let socket = real::borrow(descriptor);
    let entry = match socket_type(socket) {
        Err(Errno::BADF) => return None,
        Ok(SocketType::STREAM) if is_tcp(descriptor) => {
            let is_nonblocking = rustix::fs::fcntl_getfl(socket)
                .is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK));
            let flags = if is_nonblocking { FOREIGN | NONBLOCKING } else { FOREIGN };
            create(descriptor, flags).map_or(Entry::Other, Entry::Stream)
        }
        _ => Entry::Other,
    };
    if !table::exchange(descriptor, Entry::Unknown, entry)
        && let Entry::Stream(handle) = entry
    {
        release(handle);
    }
    known(descriptor)
}

/// True if a stream socket is one of TCP.
fn is_tcp(descriptor: c_int) -> bool {
    let socket = real::borrow(descriptor);
    matches!(socket_domain(socket), Ok(AddressFamily::INET | AddressFamily::INET6))
        && socket_protocol(socket) == Ok(Some(ipproto::TCP))
}

/// Makes an end for a descriptor. Returns `None` if there is no room for it.
fn create(descriptor: c_int, flags: u32) -> Option<Handle> {
    let family = family::open()?;
    let member = family::member()?;
    let cookie = socket_cookie(real::borrow(descriptor)).ok()?;
    let (slot, state) = allocate(&family.slab, HINT.load(Ordering::Relaxed))?;
    HINT.store(slot.wrapping_add(1), Ordering::Relaxed);
    let handle = Handle { slot, generation: state.generation };
    let end = family.slab.end(slot)?;
    end.identity.cookie.store(cookie, Ordering::Relaxed);
    let eager = if policy::is_eager() { EAGER } else { 0 };
    end.identity.flags.store(flags | eager, Ordering::Relaxed);
    end.identity.since.store(milliseconds(), Ordering::Relaxed);
    if flags & FOREIGN != 0 {
        evidence::begin(end, descriptor);
    }
    let _is_held = end.holders.add(member);
    count(handle)?.store(1, Ordering::Relaxed);
    let _is_plain = end.advance(state, Phase::Plain);
    Some(handle)
}

/// A descriptor of this process less. Behind the last one the place is free again. Returns true if this was it.
fn release(handle: Handle) -> bool {
    let (Some(stream), Some(count)) = (Stream::of(handle), count(handle)) else { return false };
    let is_last = count.fetch_sub(1, Ordering::AcqRel) == 1;
    if is_last {
        leave(stream);
    }
    is_last
}

/// At the place of a dead relative: it holds no end any more.
pub(crate) fn leave_for(member: u16) {
    let Some(family) = family::family() else { return };
    for (slot, end) in family.slab.ends() {
        leave_as(member, Stream { handle: Handle { slot, generation: end.state().generation }, end });
    }
}

/// This process no longer holds the end.
fn leave(stream: Stream) {
    if let Some(member) = family::member() {
        leave_as(member, stream);
    }
}

/// A member no longer holds the end. Behind the last one it is closed, and the daemon hears of that.
fn leave_as(member: u16, stream: Stream) {
    let Stream { handle, end } = stream;
    let Some(family) = family::family() else { return };
    let was_held = end.holders.members().any(|holder| holder == member);
    let is_last = end.holders.remove(member);
    let (state, place) = (end.state(), place(end));
    if !was_held || end.has(CROWDED) || state.generation != handle.generation {
        return;
    }
    if !is_last {
        // The daemon looks after the others from now on, which may have no port. It takes the word for this process's own.
        if state.phase == Phase::Offered
            && !end.holders.members().any(|other| Some(other) == family::member())
        {
            let _told = port::closed(handle, place);
        }
    } else if end.advance(state, Phase::Closed) {
        family.slab.header().totals.add(end);
        if state.phase == Phase::Claimed {
            let _late = port::withdraw(handle);
        }
        if state.phase != Phase::Offered || tell(handle, place) {
            let _is_free = end.advance(state.with(Phase::Closed), Phase::Free);
            HINT.store(handle.slot, Ordering::Relaxed);
        }
    }
}

/// Tells the daemon of a closed end that had a channel, and of those that it did not hear of before. Returns false if the
/// end has to wait: for the daemon to read, or to look after what this process has left.
fn tell(handle: Handle, place: (u64, u32, u32)) -> bool {
    match port::closed(handle, place) {
        Sent::Yes => {
            tell_late();
            true
        }
        Sent::Later => {
            IS_UNTOLD.store(true, Ordering::Relaxed);
            false
        }
        Sent::No(_) => !port::is_parents(),
    }
}

/// Tells the daemon of the closed ends that it could not hear of when they were closed.
pub(crate) fn tell_late() {
    if IS_UNTOLD.swap(false, Ordering::Relaxed) {
        tell_more();
    }
}

#[cold]
fn tell_more() {
    let Some(family) = family::family() else { return };
    for (slot, end) in family.slab.ends() {
        let (state, place) = (end.state(), place(end));
        if state.phase != Phase::Closed {
            continue;
        }
        match port::closed(Handle { slot, generation: state.generation }, place) {
            Sent::Later => return IS_UNTOLD.store(true, Ordering::Relaxed),
            Sent::Yes | Sent::No(_) => end.advance(state, Phase::Free),
        };
    }
}

/// The name of an end's link, its channel, and the party that the end is.
#[inline]
pub(crate) fn place(end: &End) -> (u64, u32, u32) {
    let identity = &end.identity;
    let [channel, party] = [&identity.channel, &identity.party].map(|word| word.load(Ordering::Relaxed));
    (identity.link.load(Ordering::Relaxed), channel, party)
}

/// Returns how many descriptors of this process show the end.
fn count(handle: Handle) -> Option<&'static AtomicU64> {
    let counts = COUNTS.get().or_else(|| COUNTS.set(|| real::reserve(ENDS as usize)))?;
    counts.get(usize::try_from(handle.slot).ok()?)
}

/// The low half of the monotonic clock.
pub(crate) fn milliseconds() -> u32 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    let seconds = now.tv_sec.cast_unsigned() & 0xff_ffff_ffff;
    ((seconds * 1000 + now.tv_nsec.cast_unsigned() / 1_000_000) & 0xffff_ffff) as u32
}

/// The daemon has not heard of closed ends, since its queue was full, or since it had not answered this process.
static IS_UNTOLD: AtomicBool = AtomicBool::new(false);
/// When this process last looked for relatives that are dead, in milliseconds.
static LOOKED: AtomicU32 = AtomicU32::new(0);
/// The time between two such looks, in milliseconds.
const LOOK: u32 = 10;
static COUNTS: Once<&'static [AtomicU64]> = Once::new();
/// Where the search for a free place begins: at the last one that became free, whose memory is warm.
static HINT: AtomicU32 = AtomicU32::new(0);

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::net::socket;

    use super::*;

    #[test]
    fn a_child_forgets_descriptors_that_were_other_sockets_when_it_came_to_be() {
        let _turn = family::turn();
        table::open();
        family::opened();
        let [kept, mut changed, other] =
            [(); 3].map(|()| socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket"));
        let streams = [&kept, &changed].map(|socket| {
            enter_stream(socket.as_raw_fd(), false);
            known(socket.as_raw_fd()).expect("an end")
        });
        // As if another thread had closed and opened sockets since the kernel copied the descriptors.
        rustix::io::dup2(&other, &mut changed).expect("another socket");
        inherit();
        assert_eq!([&kept, &changed].map(|socket| known(socket.as_raw_fd()).is_some()), [true, false]);
        assert_eq!(streams.map(|stream| stream.end.state().phase), [Phase::Plain, Phase::Free]);
        forget(kept.as_raw_fd());
    }
}
