//! What many families have done in all.

use weft_sockets::Reason;
use weft_sockets::layout::{REASONS, Totals};
use weft_sockets::sync::Ordering;

/// Sums of [`Totals`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    counts: [u64; NAMES.len()],
    reasons: [u64; REASONS],
}

impl Sums {
    /// Adds a family's.
    pub(crate) fn add(&mut self, totals: &Totals) {
        let words = [
            &totals.seen,
            &totals.claimed,
            &totals.out_upgraded,
            &totals.in_upgraded,
            &totals.out_ring,
            &totals.in_ring,
            &totals.eligible,
            &totals.upgraded,
        ];
        for (sum, word) in self.counts.iter_mut().zip(words) {
            *sum = sum.wrapping_add(word.load(Ordering::Relaxed));
        }
        for (sum, word) in self.reasons.iter_mut().zip(&totals.reasons) {
            *sum = sum.wrapping_add(word.load(Ordering::Relaxed).into());
        }
    }

    /// The sums by name.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.into_iter().zip(self.counts)
    }

    /// The connections that stayed on TCP, for each reason that had one.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (Reason, u64)> {
        let counts = Reason::ALL.iter().map(|reason| (*reason, self.reasons.get(*reason as usize)));
        counts.filter_map(|(reason, count)| Some((reason, *count?))).filter(|(_, count)| *count > 0)
    }
}

/// The sums in the order of `counts`.
const NAMES: [&str; 8] =
    ["seen", "claimed", "upgraded_out", "upgraded_in", "octets_out", "octets_in", "eligible", "upgraded"];
