//! The ends that this process holds: one for each TCP connection whose octets the hooks count.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::net::sockopt::{socket_cookie, socket_domain, socket_protocol, socket_type};
use rustix::net::{AddressFamily, SocketType, ipproto};
use rustix::time::{ClockId, clock_gettime};
use weft_sockets::Reason;
use weft_sockets::end::{CROWDED, FOREIGN, NONBLOCKING, Phase, SHARED, allocate};
use weft_sockets::layout::{ENDS, End};

use crate::evidence;
use crate::family;
use crate::guest;
use crate::real::{self, Once};
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
        let end = family::family()?.slab.end(handle.slot)?;
        (end.identity.state.load(Ordering::Acquire) >> 8 == handle.generation).then_some(Self { handle, end })
    }

    /// True if no other thread or process can use the end during this call: then it needs no lock.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        real::is_single_threaded() && !self.end.has(SHARED)
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

/// Forgets what a descriptor was, because it is closed. Its end goes with the last descriptor of the last process.
pub(crate) fn forget(descriptor: c_int) {
    let is_known = table::entry(descriptor).is_some_and(|entry| entry != Entry::Unknown);
    if is_known
        && !guest::is_guest()
        && let Entry::Stream(handle) = table::replace(descriptor, Entry::Unknown)
    {
        release(handle);
    }
}

/// Returns the end below a descriptor if this is its last one, of all processes.
pub(crate) fn last(descriptor: c_int) -> Option<Stream> {
    let stream = known(descriptor).filter(|_| !guest::is_guest())?;
    let is_last = count(stream.handle)?.load(Ordering::Relaxed) == 1;
    (is_last && stream.end.holders.only(family::member()?)).then_some(stream)
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
/// [`share`].
pub(crate) fn inherit() {
    let (Some(family), Some(member)) = (family::family(), family::member()) else { return };
    share(Some(member));
    for slot in 0..family.slab.header().ends.load(Ordering::Relaxed) {
        let Some(end) = family.slab.end(slot) else { return };
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
    end.identity.flags.store(flags, Ordering::Relaxed);
    end.identity.since.store(milliseconds(), Ordering::Relaxed);
    if flags & FOREIGN != 0 {
        evidence::begin(end, descriptor);
    }
    let _is_held = end.holders.add(member);
    count(handle)?.store(1, Ordering::Relaxed);
    let _is_plain = end.advance(state, Phase::Plain);
    Some(handle)
}

/// A descriptor of this process less. Behind the last one the place is free again.
fn release(handle: Handle) {
    let (Some(stream), Some(count)) = (Stream::of(handle), count(handle)) else { return };
    if count.fetch_sub(1, Ordering::AcqRel) == 1 {
        leave(stream);
    }
}

/// This process no longer holds the end.
fn leave(stream: Stream) {
    let Stream { handle, end } = stream;
    let (Some(family), Some(member)) = (family::family(), family::member()) else { return };
    if !end.holders.remove(member) || end.has(CROWDED) {
        return;
    }
    let state = end.state();
    if state.generation == handle.generation && end.advance(state, Phase::Closed) {
        family.slab.header().totals.add(end);
        let _is_free = end.advance(state.with(Phase::Closed), Phase::Free);
        HINT.store(handle.slot, Ordering::Relaxed);
    }
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

static COUNTS: Once<&'static [AtomicU64]> = Once::new();
/// Where the search for a free place begins: at the last one that became free, whose memory is warm.
static HINT: AtomicU32 = AtomicU32::new(0);
