//! What a family has done in all.

use crate::end::FAR;
use crate::layout::{End, Totals};
use crate::leg::Leg;
use crate::reason::Reason;
use crate::sync::{AtomicU64, Ordering};

impl Totals {
    /// Adds what an end has done. Its last holder calls this before the place is free again, or the daemon if that
    /// process was killed.
    pub fn add(&self, end: &End) {
        let has_begun = |leg: &AtomicU64| Leg::from_own_word(leg.load(Ordering::Relaxed)).number > 0;
        let (is_out, has_left) = (has_begun(&end.outbound.leg), has_begun(&end.inbound.leg));
        // A reader on another host may have left TCP for a record without a ring before it.
        let is_in = has_left && (!end.has(FAR) || end.counts.in_ring.load(Ordering::Relaxed) > 0);
        let is_claimed = end.identity.tries.load(Ordering::Relaxed) > 0;
        for (total, more) in [
            (&self.seen, 1),
            (&self.claimed, u64::from(is_claimed)),
            (&self.out_upgraded, u64::from(is_out)),
            (&self.in_upgraded, u64::from(is_in)),
            (&self.out_ring, end.counts.out_ring.load(Ordering::Relaxed)),
            (&self.in_ring, end.counts.in_ring.load(Ordering::Relaxed)),
        ] {
            total.fetch_add(more, Ordering::Relaxed);
        }
        let reason = end.reason().unwrap_or(Reason::Short);
        let is_upgraded = is_out || is_in;
        let is_eligible = is_upgraded || (end.traffic().is_eligible() && !reason.is_wanted());
        self.upgraded.fetch_add(u64::from(is_upgraded), Ordering::Relaxed);
        self.eligible.fetch_add(u64::from(is_eligible), Ordering::Relaxed);
        if let Some(count) = self.reasons.get(reason as usize).filter(|_| !is_upgraded) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::leg::Carrier;
    use crate::memory::Slab;

    #[test]
    fn ends_are_summed_by_direction_and_by_reason() {
        let slab = Slab::map(Slab::create().expect("memory")).expect("a slab");
        let (plain, ringed) = (slab.end(0).expect("an end"), slab.end(1).expect("an end"));
        let ring = Carrier::Ring(crate::leg::RingPlace::new(64, 16).expect("a place"));
        ringed.outbound.leg.store(Leg::default().next(ring).to_word(), Ordering::Relaxed);
        ringed.identity.tries.store(2, Ordering::Relaxed);
        ringed.counts.out_ring.store(70, Ordering::Relaxed);
        let totals = &slab.header().totals;
        totals.add(plain);
        plain.note(Reason::NoPartner);
        totals.add(plain);
        totals.add(ringed);
        let sums =
            [&totals.seen, &totals.claimed, &totals.out_upgraded, &totals.in_upgraded, &totals.out_ring];
        assert_eq!(sums.map(|sum| sum.load(Ordering::Relaxed)), [3, 1, 1, 0, 70]);
        // A reader that has gone back to TCP behind a record has read by a ring before.
        ringed.inbound.leg.store(Leg::default().next(ring).word_behind_record(), Ordering::Relaxed);
        totals.add(ringed);
        assert_eq!(totals.in_upgraded.load(Ordering::Relaxed), 1);
        let by_reason = |reason: Reason| totals.reasons[reason as usize].load(Ordering::Relaxed);
        assert_eq!([Reason::Short, Reason::NoPartner, Reason::Peer].map(by_reason), [1, 1, 0]);
    }

    #[test]
    fn every_reason_has_a_sum() {
        assert!(Reason::ALL.iter().all(|reason| (*reason as usize) < crate::layout::REASONS));
    }
}
