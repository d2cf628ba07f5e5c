//! How much of the daemon each user may have.

use core::time::Duration;
use std::collections::HashMap;

/// What the users have. Time is an argument.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    users: HashMap<u32, User>,
}

#[derive(Debug, Default)]
struct User {
    ports: u32,
    ring: u64,
    /// Claims in the second that began at `second`.
    claims: u32,
    second: Duration,
}

impl Limits {
    /// Counts one more port. Returns false if the user has enough.
    pub(crate) fn take_port(&mut self, uid: u32) -> bool {
        let user = self.users.entry(uid).or_default();
        let is_free = user.ports < PORTS;
        user.ports += u32::from(is_free);
        is_free
    }

    /// Counts one port less.
    pub(crate) fn give_port(&mut self, uid: u32) {
        if let Some(user) = self.users.get_mut(&uid) {
            user.ports = user.ports.saturating_sub(1);
            if user.ports == 0 && user.ring == 0 {
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
        assert!((0..PORTS).all(|_| limits.take_port(7)) && !limits.take_port(7) && limits.take_port(8));
        limits.give_port(7);
        assert!(limits.take_port(7));
        assert!(limits.take_ring(7, RING) && !limits.take_ring(7, 1) && limits.take_ring(8, 1));
        limits.give_ring(7, 1);
        assert!(limits.take_ring(7, 1));
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
