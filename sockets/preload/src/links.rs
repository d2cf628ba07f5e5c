//! The links that this process has mapped.
//!
//! A place of a link keeps its addresses for ever, so that a thread that still looks at a link which is gone sees zeros.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::os::fd::AsFd;

use weft_sockets::Link;
use weft_sockets::layout::ENDS;

use crate::real::{self, Once};

/// A link's name and memory.
struct Place {
    /// The name, or [`FREE`], or [`BUSY`] while a thread changes the memory.
    name: AtomicU64,
    link: Once<Link>,
}

/// Maps a link. Returns false if there is no room for it, or if its memory is not as it should be.
pub(crate) fn add(name: u64, file: impl AsFd) -> bool {
    if find(name).is_some() {
        return true;
    }
    let first = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut places = (0..PLACES.len()).filter_map(|step| PLACES.get((first + step) % PLACES.len()));
    let is_mine = |place: &&Place| {
        place.name.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let Some(place) = places.find(is_mine) else { return false };
    let is_mapped = match place.link.get() {
        Some(link) => link.replace(&file).is_ok(),
        None => place.link.set(|| Link::map(&file).ok()).is_some(),
    };
    place.name.store(if is_mapped { name } else { FREE }, Ordering::Release);
    is_mapped
}

/// Gives back the memory of a link that nobody uses any more.
pub(crate) fn remove(name: u64) {
    let Some(place) = find(name).and_then(|place| PLACES.get(place)) else { return };
    if place.name.compare_exchange(name, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        let _forgotten = place.link.get().map(Link::forget);
        place.name.store(FREE, Ordering::Release);
    }
}

/// Returns the link with this name, for the end at this place of the slab.
#[inline]
pub(crate) fn of(name: u64, end: u32) -> Option<&'static Link> {
    let hint = HINTS.get().and_then(|hints| hints.get(end as usize));
    if let Some(place) = hint.and_then(|hint| PLACES.get(usize::try_from(hint.load(Ordering::Relaxed)).ok()?))
        && place.name.load(Ordering::Acquire) == name
        && name != FREE
    {
        return place.link.get();
    }
    search(name, end)
}

#[cold]
fn search(name: u64, end: u32) -> Option<&'static Link> {
    let place = find(name)?;
    let hints = HINTS.get().or_else(|| HINTS.set(|| real::reserve(ENDS as usize)));
    if let Some(hint) = hints.and_then(|hints| hints.get(end as usize)) {
        hint.store(place as u64, Ordering::Relaxed);
    }
    PLACES.get(place)?.link.get()
}

/// The place of a link.
fn find(name: u64) -> Option<usize> {
    let has_name = |place: &Place| place.name.load(Ordering::Acquire) == name;
    if name == FREE || name == BUSY { None } else { PLACES.iter().position(has_name) }
}

static PLACES: [Place; 1024] = [const { Place { name: AtomicU64::new(FREE), link: Once::new() } }; 1024];
/// Where the search for a free place begins: places rest before they are used again.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// The place of each end's link, as last found.
static HINTS: Once<&'static [AtomicU64]> = Once::new();
const FREE: u64 = 0;
const BUSY: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_by_name_until_they_are_gone() {
        let _turn = crate::family::turn();
        let file = Link::create().expect("memory");
        assert!(add(77, &file) && add(77, &file));
        let place = find(77).expect("a place");
        let word = &PLACES[place].link.get().expect("a link").header().heartbeat;
        word.store(5, Ordering::Relaxed);
        remove(77);
        remove(77);
        assert_eq!((find(77), word.load(Ordering::Relaxed)), (None, 0));
        assert!(!add(78, std::fs::File::open("/proc/self/stat").expect("a file")), "it is no link");
        assert!(add(79, file));
        let again = PLACES[find(79).expect("a place")].link.get().expect("a link");
        assert_eq!(again.header().heartbeat.load(Ordering::Relaxed), 5);
    }
}
