//! The processes at the other ends of links: who they are, whether they sleep, and what wakes them.
//!
//! The tables are as long as the process lives, and threads look at them while others change them. So a status page keeps
//! its address when its process is gone, and shows another one later.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use weft_sockets::layout::{ALWAYS, WAITERS};
use weft_sockets::{Status, WaiterName};

use crate::own::{Own, Place};
use crate::real::Once;

/// A process of another family, or a relative of this one.
struct Peer {
    /// Family and member, packed by [`name`], or [`FREE`], or [`BUSY`].
    name: AtomicU64,
    status: Once<Status>,
    bells: [Place; WAITERS],
    /// The sleeps that this process's rings have ended.
    rung: [AtomicU32; WAITERS],
}

/// The family at the other end of a link.
struct Link {
    /// The link's name, or [`FREE`], or [`BUSY`].
    name: AtomicU64,
    peer: AtomicU64,
    /// The parties that this family is, as bits.
    parties: AtomicU32,
    /// The other party is a daemon that stands for a remote host.
    is_far: AtomicBool,
    /// The daemon that knows it: the high half of its names.
    daemon: AtomicU64,
    /// Its memory, to be shown to a later daemon.
    file: Place,
}

/// Whether a waiter could be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// It was.
    Yes,
    /// It is awake.
    Awake,
    /// The daemon has to do it.
    Unknown,
}

/// Enters a link, or the new name of the family at its other end. `is_far` says that this family is a remote host. Returns
/// false if there is no room.
pub(crate) fn add_link(link: u64, peer: u64, is_far: bool, daemon: u64) -> bool {
    if let Some(place) = link_place(link) {
        place.is_far.store(is_far, Ordering::Relaxed);
        let old = place.peer.swap(peer, Ordering::Relaxed);
        place.daemon.store(daemon, Ordering::Relaxed);
        if old != peer {
            remove_family_if_unused(old);
        }
        return true;
    }
    let Some(place) = around(&LINKS, link).find(|place| claim(&place.name)) else { return false };
    place.peer.store(peer, Ordering::Relaxed);
    place.is_far.store(is_far, Ordering::Relaxed);
    place.parties.store(0, Ordering::Relaxed);
    place.daemon.store(daemon, Ordering::Relaxed);
    place.name.store(link, Ordering::Release);
    true
}

/// Keeps the memory of a link, if there is room for the descriptor.
pub(crate) fn keep_link(link: u64, file: OwnedFd) {
    if let (Some(place), Ok(own)) = (link_place(link), Own::new(file)) {
        place.file.put(own);
    }
}

/// Notes which party of a link this family is.
pub(crate) fn add_party(link: u64, party: u32) {
    if let Some(place) = link_place(link) {
        place.parties.fetch_or(1 << (party & 1), Ordering::Relaxed);
    }
}

/// Forgets a link, and the processes that only it has led to.
pub(crate) fn remove_link(link: u64) {
    if let Some(place) = link_place(link)
        && place.name.compare_exchange(link, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    {
        place.file.close();
        let peer = place.peer.load(Ordering::Relaxed);
        place.name.store(FREE, Ordering::Release);
        remove_family_if_unused(peer);
    }
}

/// Returns the family at the other end of a link.
pub(crate) fn family_of(link: u64) -> Option<u64> {
    link_place(link).map(|place| place.peer.load(Ordering::Relaxed))
}

/// True if the other end of a link is on another host.
pub(crate) fn is_far(link: u64) -> bool {
    link_place(link).is_some_and(|place| place.is_far.load(Ordering::Relaxed))
}

/// True if this daemon knows the link.
pub(crate) fn is_known(link: u64, daemon: u64) -> bool {
    link_place(link).is_some_and(|place| place.daemon.load(Ordering::Relaxed) == daemon)
}

/// Shows the daemon each link that it does not know. `show` gets name, party and memory, and returns true if it has sent
/// them. Returns true if the daemon knows all links by then.
pub(crate) fn show_links(daemon: u64, mut show: impl FnMut(u64, u32, BorrowedFd<'_>) -> bool) -> bool {
    let mut is_all = true;
    for place in &LINKS {
        let name = place.name.load(Ordering::Acquire);
        if matches!(name, FREE | BUSY) || place.daemon.load(Ordering::Relaxed) == daemon {
            continue;
        }
        let parties = place.parties.load(Ordering::Relaxed);
        // First, so that the daemon hears of each end that is closed behind its look at them.
        let before = place.daemon.swap(daemon, Ordering::SeqCst);
        let shown = place.file.borrow().is_some_and(|file| {
            (0..2).filter(|party| parties & 1 << party != 0).all(|party| show(name, party, file))
        });
        if !shown {
            place.daemon.store(before, Ordering::Relaxed);
        }
        is_all &= shown;
    }
    is_all
}

fn link_place(link: u64) -> Option<&'static Link> {
    around(&LINKS, link).find(|place| place.name.load(Ordering::Acquire) == link)
}

/// Enters the status page of a process.
pub(crate) fn add(family: u64, member: u16, file: impl AsFd) {
    let Some(name) = name(family, member) else { return };
    if let Some(peer) = find(name) {
        // It has come back, perhaps with another page.
        let _as_before = peer.status.get().map(|status| status.replace(&file));
        return;
    }
    let Some(peer) = around(&PEERS, name).find(|peer| claim(&peer.name)) else { return };
    let is_mapped = match peer.status.get() {
        Some(status) => status.replace(&file).is_ok(),
        None => peer.status.set(|| Status::map(&file).ok()).is_some(),
    };
    peer.name.store(if is_mapped { name } else { FREE }, Ordering::Release);
}

/// Enters what wakes a waiter. Without room for the descriptor the daemon has to.
pub(crate) fn add_bell(family: u64, waiter: WaiterName, bell: OwnedFd) {
    let (peer, line) = (name(family, waiter.member).and_then(find), usize::from(waiter.line));
    let places = peer.and_then(|peer| peer.bells.get(line).zip(peer.rung.get(line)));
    if let (Some((place, rung)), Ok(own)) = (places, Own::bell(bell)) {
        place.put(own);
        rung.store(0, Ordering::Relaxed);
    }
}

/// Forgets a process that has ended.
pub(crate) fn remove(family: u64, member: u16) {
    let Some(peer) = name(family, member).and_then(find) else { return };
    free(peer);
}

/// Forgets all processes of a family that no link leads to.
fn remove_family_if_unused(family: u64) {
    let mut links = LINKS.iter().filter(|link| !matches!(link.name.load(Ordering::Acquire), FREE | BUSY));
    if links.any(|link| link.peer.load(Ordering::Relaxed) == family) {
        return;
    }
    let is_its = |peer: &&Peer| {
        let name = peer.name.load(Ordering::Acquire);
        !matches!(name, FREE | BUSY) && name >> MEMBER_BITS == family & FAMILY_MASK
    };
    PEERS.iter().filter(is_its).for_each(free);
}

/// Wakes a waiter if it sleeps.
pub(crate) fn wake(family: u64, waiter: WaiterName) -> Woken {
    let Some(peer) = name(family, waiter.member).and_then(find) else { return Woken::Unknown };
    let line = usize::from(waiter.line);
    let asleep = peer.status.get().and_then(|status| status.page().0.get(line));
    let sleep = asleep.map_or(ALWAYS, |line| line.asleep.load(Ordering::Relaxed));
    if sleep == 0 {
        return Woken::Awake;
    }
    let Some(bell) = peer.bells.get(line).and_then(Place::borrow) else { return Woken::Unknown };
    let Some(rung) = peer.rung.get(line) else { return Woken::Unknown };
    // A thread that was rung for takes a while until it runs, and says that it sleeps until then.
    if sleep != ALWAYS && rung.load(Ordering::Relaxed) == sleep {
        return Woken::Awake;
    }
    // A full eventfd has been rung often enough.
    let _rung = rustix::io::write(bell, &1_u64.to_ne_bytes());
    // Not before: a signal handler that interrupts this thread there would count on a ring that has not come.
    rung.store(sleep, Ordering::Relaxed);
    Woken::Yes
}

fn free(peer: &Peer) {
    let name = peer.name.load(Ordering::Acquire);
    if peer.name.compare_exchange(name, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        peer.bells.iter().for_each(Place::close);
        peer.name.store(FREE, Ordering::Release);
    }
}

/// Packs a family and a member. The daemon counts families, so that the low bits tell them apart.
fn name(family: u64, member: u16) -> Option<u64> {
    let name = (family & FAMILY_MASK) << MEMBER_BITS | u64::from(member);
    (!matches!(name, FREE | BUSY)).then_some(name)
}

fn find(name: u64) -> Option<&'static Peer> {
    around(&PEERS, name).find(|peer| peer.name.load(Ordering::Acquire) == name)
}

/// The places of a table, beginning with the one where a name usually is.
fn around<T, const N: usize>(table: &'static [T; N], name: u64) -> impl Iterator<Item = &'static T> {
    // Names of links count up by one, those of peers by the number of members that fit.
    let hash = usize::try_from((name ^ name >> MEMBER_BITS) % N as u64).unwrap_or(0);
    table.get(hash..).unwrap_or_default().iter().chain(table.get(..hash).unwrap_or_default())
}

/// Takes a free place.
fn claim(name: &AtomicU64) -> bool {
    name.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

static LINKS: [Link; 1024] = [const {
    Link {
        name: AtomicU64::new(FREE),
        peer: AtomicU64::new(0),
        is_far: AtomicBool::new(false),
        parties: AtomicU32::new(0),
        daemon: AtomicU64::new(0),
        file: Place::new(),
    }
}; 1024];
static PEERS: [Peer; 1024] = [const {
    Peer {
        name: AtomicU64::new(FREE),
        status: Once::new(),
        bells: [const { Place::new() }; WAITERS],
        rung: [const { AtomicU32::new(0) }; WAITERS],
    }
}; 1024];
const FREE: u64 = 0;
const BUSY: u64 = u64::MAX;
const MEMBER_BITS: u32 = 10;
const FAMILY_MASK: u64 = u64::MAX >> MEMBER_BITS;

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn sleepers_are_woken_and_others_are_not() {
        let _turn = crate::family::turn();
        let (file, status) = Status::create().expect("a page");
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("an eventfd");
        let copy = bell.try_clone().expect("a descriptor");
        let waiter = WaiterName { member: 3, line: 9 };
        let family = 0x1234_5678_0000_0001;
        assert_eq!(wake(family, waiter), Woken::Unknown);
        add(family, 3, &file);
        assert_eq!(wake(family, waiter), Woken::Awake);
        let doze = |sleep: u32| status.page().0[9].asleep.store(sleep, Ordering::Relaxed);
        doze(7);
        assert_eq!(wake(family, waiter), Woken::Unknown, "there is no bell");
        add_bell(family, waiter, copy);
        assert_eq!(wake(family, waiter), Woken::Yes);
        assert_eq!(wake(family, waiter), Woken::Awake, "one ring ends a sleep");
        doze(8);
        assert_eq!(wake(family, waiter), Woken::Yes);
        doze(ALWAYS);
        assert_eq!([(); 2].map(|()| wake(family, waiter)), [Woken::Yes; 2], "each ring ends one's sleep");
        let mut count = [0; 8];
        assert_eq!(rustix::io::read(&bell, &mut count), Ok(8));
        assert_eq!(u64::from_ne_bytes(count), 4);
        doze(8);
        remove(family, 3);
        assert_eq!(wake(family, waiter), Woken::Unknown);
        // The place shows another process now.
        let (other, _owner) = Status::create().expect("a page");
        add(family + 1, 3, &other);
        assert_eq!(wake(family + 1, waiter), Woken::Awake);
        // It goes with the last link that leads to it.
        assert!(add_link(1, family + 1, false, 7) && add_link(2, family + 1, false, 7));
        remove_link(1);
        assert_eq!(wake(family + 1, waiter), Woken::Awake);
        remove_link(2);
        assert_eq!(wake(family + 1, waiter), Woken::Unknown);
    }

    #[test]
    fn links_name_the_family_at_the_other_end() {
        let _turn = crate::family::turn();
        let name = |number: u64| 0x1234_5678_0000_0000 + number;
        assert!((1..=1000).all(|number| add_link(name(number), number, false, 5)));
        assert_eq!(
            (family_of(name(7)), family_of(name(1000)), family_of(name(1001))),
            (Some(7), Some(1000), None)
        );
        // Another daemon has another name for the family.
        assert!(!is_far(name(7)) && add_link(name(7), 99, true, 6));
        assert_eq!(family_of(name(7)), Some(99));
        assert!(is_far(name(7)) && !is_far(name(8)) && !is_far(name(1001)));
        assert!(is_known(name(7), 6) && is_known(name(8), 5) && !is_known(name(8), 6));
        (1..=1000).for_each(|number| remove_link(name(number)));
        assert_eq!(family_of(name(7)), None);
    }
}
