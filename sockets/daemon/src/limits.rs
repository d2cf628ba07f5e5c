//! How much of the daemon each user may have.

use core::time::Duration;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

use weft_sockets::MIN_LOG2;

use crate::foreign::{Closer, Foreign};

/// What the users have. Time is an argument.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    users: HashMap<u32, User>,
    /// How many descriptors each user may have. Without a number, there is no bound, and descriptors are closed at once.
    descriptors: Option<u32>,
}

#[derive(Debug, Default)]
struct User {
    ports: u32,
    ring: u64,
    descriptors: u32,
    closer: Closer,
    /// Claims in the second that began at `second`.
    claims: u32,
    second: Duration,
}

impl Limits {
    /// Bounds the descriptors of each user. Threads close those that come from processes.
    pub(crate) fn new(descriptors: u32) -> Self {
        Self { users: HashMap::new(), descriptors: Some(descriptors) }
    }

    /// Takes a descriptor that came from a process of this user.
    pub(crate) fn foreign(&self, uid: u32, file: OwnedFd) -> Foreign {
        let known = self.users.get(&uid).map(|user| user.closer.clone()).filter(Closer::has_thread);
        let start = || self.descriptors.and_then(|_| Closer::start()).unwrap_or_default();
        Foreign::new(file, known.unwrap_or_else(start))
    }

    /// True if a user may have one more descriptor. Those that wait to be closed count.
    pub(crate) fn has_room(&self, uid: u32) -> bool {
        let has = |user: &User| user.descriptors.saturating_add(user.closer.waiting());
        self.users.get(&uid).map_or(0, has) < self.descriptors.unwrap_or(u32::MAX)
    }

    /// Counts descriptors that are kept. The caller knows that there [is room](Self::has_room).
    pub(crate) fn take_descriptors(&mut self, uid: u32, number: usize) {
        let user = self.users.entry(uid).or_default();
        user.descriptors = user.descriptors.saturating_add(u32::try_from(number).unwrap_or(u32::MAX));
    }

    /// Counts descriptors no more.
    pub(crate) fn give_descriptors(&mut self, uid: u32, number: usize) {
        if let Some(user) = self.users.get_mut(&uid) {
            user.descriptors = user.descriptors.saturating_sub(u32::try_from(number).unwrap_or(u32::MAX));
        }
    }

    /// Counts a link of an earlier daemon, as a descriptor and [`ADOPTED`] octets of rings. Returns false if the user would
    /// have too many.
    pub(crate) fn take_link(&mut self, uid: u32) -> bool {
        let is_free = self.take_ring(uid, ADOPTED);
        self.take_descriptors(uid, usize::from(is_free));
        is_free
    }

    /// Counts one more port, whose socket this is, and the descriptors of a process. Returns false if the user has enough.
    pub(crate) fn take_port(&mut self, uid: u32, socket: Option<&Foreign>) -> bool {
        let has_room = self.has_room(uid);
        let user = self.users.entry(uid).or_default();
        let is_free = user.ports < PORTS && has_room;
        if let Some(socket) = socket.filter(|_| is_free) {
            user.closer = socket.closer();
        }
        user.ports += u32::from(is_free);
        user.descriptors += if is_free { OF_A_PORT } else { 0 };
        is_free
    }

    /// Counts one port less.
    pub(crate) fn give_port(&mut self, uid: u32) {
        if let Some(user) = self.users.get_mut(&uid) {
            user.ports = user.ports.saturating_sub(1);
            user.descriptors = user.descriptors.saturating_sub(OF_A_PORT);
            if user.ports == 0 && user.ring == 0 && user.descriptors == 0 {
                self.users.remove(&uid);
            }
        }
    }

    /// Counts a claim. Returns false if the user has sent too many in this second.
    pub(crate) fn take_claim(&mut self, uid: u32, now: Duration) -> bool {
        let user = self.users.entry(uid).or_default();
        if now.saturating_sub(user.second) >= SECOND {
            (user.second, user.claims) = (now, 0);
        }
        user.claims = user.claims.saturating_add(1);
        user.claims <= CLAIMS
    }

    /// Counts the octets of a ring. Returns false if the user would have too many.
    pub(crate) fn take_ring(&mut self, uid: u32, len: u64) -> bool {
        let user = self.users.entry(uid).or_default();
        let is_free = user.ring + len <= RING;
        user.ring += if is_free { len } else { 0 };
        is_free
    }

    /// Counts the octets of a ring no more.
    pub(crate) fn give_ring(&mut self, uid: u32, len: u64) {
        if let Some(user) = self.users.get_mut(&uid) {
            user.ring = user.ring.saturating_sub(len);
        }
    }
}

/// Octets of rings as which a link of an earlier daemon counts: those of two first rings.
pub(crate) const ADOPTED: u64 = 2 << MIN_LOG2;
/// The socket of a port, a pidfd and a status page.
const OF_A_PORT: u32 = 3;
/// Processes of a user at a time.
const PORTS: u32 = 4096;
/// Claims of a user in a second.
const CLAIMS: u32 = 16_384;
/// Octets of rings that a user has at a time.
const RING: u64 = 1 << 30;
const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_limits_of_its_own() {
        let mut limits = Limits::default();
        assert!(
            (0..PORTS).all(|_| limits.take_port(7, None))
                && !limits.take_port(7, None)
                && limits.take_port(8, None)
        );
        limits.give_port(7);
        assert!(limits.take_port(7, None));
        assert!(limits.take_ring(7, RING) && !limits.take_ring(7, 1) && limits.take_ring(8, 1));
        limits.give_ring(7, 1);
        assert!(limits.take_ring(7, 1));
    }

    #[test]
    fn what_a_user_keeps_and_what_waits_to_be_closed_is_bounded() {
        let mut limits = Limits::new(10);
        assert!((0..3).all(|_| limits.take_port(7, None)) && limits.has_room(7));
        limits.take_descriptors(7, 1);
        assert!(!limits.has_room(7) && !limits.take_port(7, None) && limits.has_room(8));
        limits.give_port(7);
        assert!(limits.has_room(7));
        assert!(limits.take_ring(7, RING - ADOPTED) && limits.take_link(7) && !limits.take_link(7));
    }

    #[test]
    fn claims_are_bounded_for_each_second() {
        let mut limits = Limits::default();
        let start = Duration::from_secs(5);
        assert!((0..CLAIMS).all(|_| limits.take_claim(7, start)));
        assert!(!limits.take_claim(7, start + Duration::from_millis(999)));
        assert!(limits.take_claim(7, start + SECOND));
    }
}
