//! Finds the two claims of a connection.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use crate::claim::{Claim, Tuple};

/// The claims that wait for the other end's. Time is an argument.
#[derive(Debug, Default)]
pub struct Claims {
    waiting: HashMap<Tuple, Waiting>,
    by_claimant: HashMap<Claimant, Tuple>,
    /// Every claim in the order of its end, those that wait no longer as well.
    ends: VecDeque<(Duration, Claimant, u64)>,
    next: u64,
}

/// An end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    /// The daemon's name for the process.
    pub process: u64,
    /// The end in the slab of its family.
    pub slot: u32,
    /// The generation of the end.
    pub generation: u32,
}

#[derive(Debug)]
struct Waiting {
    claimant: Claimant,
    claim: Claim,
    number: u64,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It waits. An older claim of the same socket's addresses waits no longer.
    Waits {
        /// The claimant of the older one.
        replaced: Option<Claimant>,
    },
    /// The other end was claimed before, by this claimant.
    Matched(Claimant),
}

impl Claims {
    /// Takes a claim and looks for the other end's.
    pub fn handle_claim(&mut self, now: Duration, claimant: Claimant, claim: Claim) -> Outcome {
        self.withdraw(claimant);
        let other = self.waiting.get(&claim.tuple.mirrored()).filter(|other| other.claim.fits(&claim));
        if let Some(other) = other.map(|other| other.claimant) {
            self.withdraw(other);
            return Outcome::Matched(other);
        }
        let number = self.next;
        self.next += 1;
        let old = self.waiting.insert(claim.tuple, Waiting { claimant, claim, number });
        let replaced = old.map(|old| old.claimant);
        if let Some(replaced) = replaced {
            self.by_claimant.remove(&replaced);
        }
        self.by_claimant.insert(claimant, claim.tuple);
        self.ends.push_back((now + PATIENCE, claimant, number));
        Outcome::Waits { replaced }
    }

    /// Takes a claim back. Returns false if it did not wait.
    pub fn withdraw(&mut self, claimant: Claimant) -> bool {
        let Some(tuple) = self.by_claimant.remove(&claimant) else { return false };
        self.waiting.remove(&tuple);
        true
    }

    /// Takes a claim back and returns it, if it waits.
    pub fn take(&mut self, claimant: Claimant) -> Option<Claim> {
        let tuple = self.by_claimant.remove(&claimant)?;
        self.waiting.remove(&tuple).map(|waiting| waiting.claim)
    }

    /// Returns the earlier claim of the same connection that waits in another network namespace.
    ///
    /// Namespaces may have equal addresses, and programs may begin alike. So the caller has to know that these addresses of
    /// both namespaces reach each other.
    #[must_use]
    pub fn partner_in(&self, namespace: u64, claim: &Claim) -> Option<Claimant> {
        let moved = Claim { tuple: Tuple { namespace, ..claim.tuple }, ..*claim };
        let other = self.waiting.get(&moved.tuple.mirrored())?;
        let is_near = !claim.is_far && !other.claim.is_far;
        (is_near && other.claim.fits(&moved)).then_some(other.claimant)
    }

    /// True if a claim waits.
    #[must_use]
    pub fn waits(&self, claimant: Claimant) -> bool {
        self.by_claimant.contains_key(&claimant)
    }

    /// The claims that wait.
    pub fn waiting(&self) -> impl Iterator<Item = (Claimant, Claim)> + '_ {
        self.waiting.values().map(|waiting| (waiting.claimant, waiting.claim))
    }

    /// Takes all claims of a process back.
    pub fn forget(&mut self, process: u64) {
        let is_its = |claimant: &Claimant| claimant.process == process;
        self.waiting.retain(|_, waiting| !is_its(&waiting.claimant));
        self.by_claimant.retain(|claimant, _| !is_its(claimant));
    }

    /// Removes and returns a claim that has waited in vain.
    pub fn poll_expired(&mut self, now: Duration) -> Option<Claimant> {
        while let Some(&(end, claimant, number)) = self.ends.front() {
            let waits = self.is_waiting(claimant, number);
            if waits && end > now {
                return None;
            }
            self.ends.pop_front();
            if waits {
                self.withdraw(claimant);
                return Some(claimant);
            }
        }
        None
    }

    /// Returns when the next claim will have waited in vain.
    pub fn deadline(&mut self) -> Option<Duration> {
        while let Some(&(end, claimant, number)) = self.ends.front() {
            if self.is_waiting(claimant, number) {
                return Some(end);
            }
            self.ends.pop_front();
        }
        None
    }

    /// Returns how many claims wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if no claim waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn is_waiting(&self, claimant: Claimant, number: u64) -> bool {
        let waiting = self.by_claimant.get(&claimant).and_then(|tuple| self.waiting.get(tuple));
        waiting.is_some_and(|waiting| waiting.number == number)
    }
}

/// How long a claim waits for the other end's.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::claim::tests::claim;
    use crate::{Digests, Prefixes};

    const fn claimant(process: u64, slot: u32) -> Claimant {
        Claimant { process, slot, generation: 1 }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn two_ends_match_also_of_one_process() {
        let (server, client) = (claim("10.0.0.1:80", "10.0.0.2:5000"), claim("10.0.0.2:5000", "10.0.0.1:80"));
        let mut claims = Claims::default();
        let waits = Outcome::Waits { replaced: None };
        assert_eq!(claims.handle_claim(seconds(0), claimant(1, 0), server), waits);
        let matched = claims.handle_claim(seconds(4), claimant(1, 1), client);
        assert_eq!(matched, Outcome::Matched(claimant(1, 0)));
        assert!(claims.is_empty());
        assert_eq!((claims.deadline(), claims.poll_expired(seconds(100))), (None, None));
    }

    #[test]
    fn a_claim_waits_five_seconds() {
        let mut claims = Claims::default();
        claims.handle_claim(seconds(1), claimant(1, 0), claim("10.0.0.1:80", "10.0.0.2:5000"));
        assert_eq!(claims.deadline(), Some(seconds(6)));
        assert_eq!(claims.poll_expired(seconds(5)), None);
        assert_eq!(claims.poll_expired(seconds(6)), Some(claimant(1, 0)));
        let waits = Outcome::Waits { replaced: None };
        let other = claim("10.0.0.2:5000", "10.0.0.1:80");
        assert_eq!(claims.handle_claim(seconds(6), claimant(2, 0), other), waits);
    }

    #[test]
    fn a_claim_that_is_repeated_or_replaced_waits_once() {
        let server = claim("10.0.0.1:80", "10.0.0.2:5000");
        let mut claims = Claims::default();
        claims.handle_claim(seconds(0), claimant(1, 0), server);
        let again = claims.handle_claim(seconds(3), claimant(1, 0), server);
        assert_eq!(again, Outcome::Waits { replaced: None });
        assert_eq!(claims.poll_expired(seconds(5)), None, "the second claim has its own five seconds");
        let newer = claims.handle_claim(seconds(5), claimant(2, 0), server);
        assert_eq!(newer, Outcome::Waits { replaced: Some(claimant(1, 0)) });
        assert!(!claims.withdraw(claimant(1, 0)));
        claims.forget(2);
        assert!(claims.is_empty());
    }

    #[test]
    fn a_partner_in_another_namespace_fits_but_for_the_namespace() {
        let digests =
            |written, received| Digests { written: Prefixes::of(written), received: Prefixes::of(received) };
        let server = Claim { digests: digests(&[1; 16], &[2; 20]), ..claim("10.0.0.1:80", "10.0.0.2:5000") };
        let client = claim("10.0.0.2:5000", "10.0.0.1:80");
        let client = Claim { tuple: Tuple { namespace: 2, ..client.tuple }, ..client };
        let mut claims = Claims::default();
        claims.handle_claim(seconds(0), claimant(1, 0), server);
        let same = Claim { digests: digests(&[2; 16], &[1; 16]), ..client };
        assert_eq!(claims.handle_claim(seconds(0), claimant(2, 0), same), Outcome::Waits { replaced: None });
        assert_eq!(claims.partner_in(1, &same), Some(claimant(1, 0)));
        assert_eq!(claims.partner_in(3, &same), None, "nobody claims there");
        assert_eq!(claims.partner_in(1, &client), Some(claimant(1, 0)), "nothing is known of its octets");
        assert_eq!(claims.partner_in(1, &Claim { digests: digests(&[3; 16], &[1; 16]), ..client }), None);
        assert_eq!(claims.partner_in(1, &Claim { written: 99, ..same }), None, "more was taken");
        assert_eq!(claims.partner_in(1, &Claim { is_far: true, ..same }), None);
        assert!(claims.waits(claimant(1, 0)) && claims.withdraw(claimant(1, 0)));
        assert!(!claims.waits(claimant(1, 0)) && claims.partner_in(1, &same).is_none());
    }

    proptest! {
        #[test]
        fn each_claim_has_one_end(octets in proptest::collection::vec(any::<u8>(), 0..1000)) {
            crate::fuzzing::claims(&octets);
        }
    }
}
