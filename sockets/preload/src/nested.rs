//! Octets that a signal handler sends while its own thread is in the middle of a send on the same connection.
//!
//! They must not touch the ring. The interrupted call sends them behind its own, which is the kernel's order, too.

use core::cell::Cell;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use crate::table::Handle;

/// The octets of one thread for one connection.
struct Parcel {
    /// The slot of the end plus 1, or 0 if the parcel is free.
    slot: AtomicU32,
    /// How many of the octets are sent.
    sent: AtomicUsize,
    len: AtomicUsize,
    octets: [AtomicU8; ROOM],
}

/// Keeps octets of a signal handler. Returns how many: there may be room for fewer.
pub(crate) fn keep<'a>(handle: Handle, slices: impl Iterator<Item = &'a [u8]>) -> usize {
    let Some(parcel) = OWN.get().or_else(take_free).filter(|parcel| parcel.begin(handle)) else { return 0 };
    OWN.set(Some(parcel));
    let before = parcel.len.load(Ordering::Relaxed);
    let places = parcel.octets.get(before..).unwrap_or_default();
    let kept =
        slices.flatten().zip(places).map(|(octet, place)| place.store(*octet, Ordering::Relaxed)).count();
    parcel.len.store(before + kept, Ordering::Relaxed);
    kept
}

/// True if a signal handler of this thread has left octets that nobody sends yet.
#[inline]
pub(crate) fn is_there() -> bool {
    OWN.get().is_some() && !IS_SENDING.get()
}

/// Notes whether this thread sends what its signal handlers have left.
pub(crate) fn set_sending(is_sending: bool) {
    IS_SENDING.set(is_sending);
}

/// Copies the next octets that signal handlers have left for a connection. Returns how many. Behind the last one the
/// parcel is free.
pub(crate) fn next(handle: Handle, octets: &mut [u8]) -> usize {
    let Some(parcel) = own(handle) else { return 0 };
    let sent = parcel.sent.load(Ordering::Relaxed);
    let left = parcel.octets.get(sent..parcel.len.load(Ordering::Relaxed)).unwrap_or_default();
    if left.is_empty() {
        OWN.set(None);
        parcel.len.store(0, Ordering::Relaxed);
        parcel.sent.store(0, Ordering::Relaxed);
        parcel.slot.store(0, Ordering::Release);
    }
    octets.iter_mut().zip(left).map(|(octet, place)| *octet = place.load(Ordering::Relaxed)).count()
}

/// Notes that so many of the next octets are sent.
pub(crate) fn count(handle: Handle, octets: usize) {
    if let Some(parcel) = own(handle) {
        parcel.sent.fetch_add(octets, Ordering::Relaxed);
    }
}

fn own(handle: Handle) -> Option<&'static Parcel> {
    OWN.get().filter(|parcel| parcel.slot.load(Ordering::Relaxed) == handle.slot + 1)
}

impl Parcel {
    /// True if the parcel is, or becomes, one for this connection.
    fn begin(&self, handle: Handle) -> bool {
        let name = handle.slot + 1;
        let begun = self.slot.compare_exchange(TAKEN, name, Ordering::Relaxed, Ordering::Relaxed);
        begun.is_ok() || begun == Err(name)
    }
}

fn take_free() -> Option<&'static Parcel> {
    PARCELS
        .iter()
        .find(|parcel| parcel.slot.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok())
}

thread_local! {
    static OWN: Cell<Option<&'static Parcel>> = const { Cell::new(None) };
    static IS_SENDING: Cell<bool> = const { Cell::new(false) };
}
/// Their memory is touched only when it is needed.
static PARCELS: [Parcel; 16] = [const {
    Parcel {
        slot: AtomicU32::new(0),
        sent: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        octets: [const { AtomicU8::new(0) }; ROOM],
    }
}; 16];
/// A parcel in use, for no connection yet.
const TAKEN: u32 = u32::MAX;
/// Octets that handlers can leave. Then they are told to try again.
const ROOM: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_kept_for_one_connection_until_they_are_taken() {
        let (mine, other) = (Handle { slot: 7, generation: 1 }, Handle { slot: 8, generation: 1 });
        assert!(!is_there());
        assert_eq!(keep(mine, [&b"ab"[..], b"c"].into_iter()), 3);
        assert_eq!((keep(other, [&b"x"[..]].into_iter()), is_there()), (0, true));
        assert_eq!(keep(mine, [&[b'd'; ROOM][..]].into_iter()), ROOM - 3);
        let mut octets = [0; 4];
        assert_eq!((next(other, &mut octets), next(mine, &mut octets), &octets), (0, 4, b"abcd"));
        count(mine, 2);
        assert_eq!((next(mine, &mut octets), &octets), (4, b"cddd"));
        count(mine, ROOM - 2);
        assert_eq!((next(mine, &mut octets), is_there()), (0, false));
        assert_eq!((keep(other, [&b"x"[..]].into_iter()), next(other, &mut octets)), (1, 1));
        count(other, 1);
        assert_eq!(next(other, &mut octets), 0);
    }
}
