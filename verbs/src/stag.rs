//! STags that a peer cannot guess (RFC 5042 section 6.1.1).

use std::sync::atomic::{AtomicU64, Ordering};

use weft_ddp::Stag;

use crate::completion::{join, split};

/// A keyed permutation between STags and places in a table: the slot, and how often it was used before (the key octet).
///
/// Slots are handed out densely, so that the table stays small. The permutation is a Feistel network of four rounds
/// over two halves of 16 bits. It spreads the slots over all STags. Without the round keys the STags of neighbouring
/// slots look unrelated, and so do successive STags of one slot.
#[derive(Clone, Copy, Debug)]
pub struct StagPermutation {
    keys: [u32; 4],
}

impl StagPermutation {
    /// Derives the round keys from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self {
            keys: core::array::from_fn(|_| {
                // The step of SplitMix64, so that seeds that differ in one bit give unrelated keys.
                state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mut word = state;
                word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                (word >> 32) as u32
            }),
        }
    }

    /// Returns the STag of `slot` (below [`Self::SLOTS`]) with key octet `key`.
    pub fn stag(&self, slot: u32, key: u8) -> Stag {
        let place = slot << 8 | u32::from(key);
        let (mut left, mut right) = (place >> HALF, place & MASK);
        for round_key in self.keys {
            (left, right) = (right, left ^ round(right, round_key));
        }
        Stag(left << HALF | right)
    }

    /// Returns the slot and the key octet of `stag`. Any value gives some slot; the table knows whether that is in use.
    pub fn slot(&self, stag: Stag) -> (u32, u8) {
        let (mut left, mut right) = (stag.0 >> HALF, stag.0 & MASK);
        for round_key in self.keys.iter().rev() {
            (left, right) = (right ^ round(left, *round_key), left);
        }
        let place = left << HALF | right;
        (place >> 8, place.to_le_bytes()[0])
    }

    /// Returns the key octet that the owner of the STags `block << 8 ..= block << 8 | 0xFF` has after `count` others;
    /// 256 in a row differ, and none can be guessed from those before.
    pub(crate) fn key(&self, block: u32, count: u8) -> u8 {
        let (mut left, mut right) = (u32::from(count >> 4), u32::from(count & 0xF));
        for round_key in self.keys {
            (left, right) = (right, left ^ round(right ^ block << 4, round_key) & 0xF);
        }
        (left << 4 | right).to_le_bytes()[0]
    }

    /// The number of slots that STags can name.
    pub const SLOTS: u32 = 1 << 24;
}

/// Recent results of [`StagPermutation::slot`]: the permutation takes longer than all checks of an access. The result
/// for an STag never changes, so that an entry never becomes wrong, and several threads may write here.
#[derive(Debug)]
pub(crate) struct RecentSlots {
    /// STag (32) << 32 | slot (24) << 8 | key octet, at the lowest bits of the STag.
    words: [AtomicU64; RECENT],
}

impl RecentSlots {
    pub(crate) fn new() -> Self {
        // An STag that does not belong to its place marks an empty one. STag 0 belongs to the first one.
        Self { words: core::array::from_fn(|place| AtomicU64::new(if place == 0 { 1 << 32 } else { 0 })) }
    }

    /// Returns the slot and the key octet of `stag`.
    #[inline]
    pub(crate) fn slot(&self, permutation: &StagPermutation, stag: Stag) -> (u32, u8) {
        let (low, high) = split(self.words[stag.0 as usize % RECENT].load(Ordering::Relaxed));
        if high == stag.0 { (low >> 8, low.to_le_bytes()[0]) } else { self.look_up(permutation, stag) }
    }

    #[cold]
    fn look_up(&self, permutation: &StagPermutation, stag: Stag) -> (u32, u8) {
        let (slot, key) = permutation.slot(stag);
        let word = join(slot << 8 | u32::from(key), stag.0);
        self.words[stag.0 as usize % RECENT].store(word, Ordering::Relaxed);
        (slot, key)
    }
}

/// Mixes by the finalizer of MurmurHash3: each bit of the result depends on all bits of half and key.
const fn round(half: u32, key: u32) -> u32 {
    let mut word = half ^ key;
    word = (word ^ (word >> 16)).wrapping_mul(0x85EB_CA6B);
    word = (word ^ (word >> 13)).wrapping_mul(0xC2B2_AE35);
    (word ^ (word >> 16)) & MASK
}

/// STags whose places are kept: one of each kind for a few dozen connections.
const RECENT: usize = 64;
const HALF: u32 = 16;
const MASK: u32 = (1 << HALF) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn permutation_is_reversible(seed: u64, slot in 0..StagPermutation::SLOTS, key: u8) {
            let permutation = StagPermutation::new(seed);
            prop_assert_eq!(permutation.slot(permutation.stag(slot, key)), (slot, key));
        }
    }

    proptest! {
        #[test]
        fn keys_come_back_last_of_all(seed: u64, block in 0_u32..1 << 24) {
            let permutation = StagPermutation::new(seed);
            let keys: HashSet<u8> = (0..=255).map(|count| permutation.key(block, count)).collect();
            prop_assert_eq!(keys.len(), 256);
        }
    }

    #[test]
    fn recent_slots_agree_with_the_permutation() {
        let (permutation, recent) = (StagPermutation::new(5), RecentSlots::new());
        let stags = (0..300).chain([0, 1, 64, u32::MAX, 1 << 31, 63]);
        for stag in stags.clone().chain(stags).map(Stag) {
            for _again in 0..2 {
                assert_eq!(recent.slot(&permutation, stag), permutation.slot(stag), "{stag}");
            }
        }
    }

    #[test]
    fn the_next_key_is_not_to_be_guessed() {
        let permutation = StagPermutation::new(7);
        let steps: Vec<u8> = (0..1000)
            .map(|block| permutation.key(block, 1).wrapping_sub(permutation.key(block, 0)))
            .collect();
        let most = (0..=255).map(|step| steps.iter().filter(|&&other| other == step).count()).max();
        assert!(most < Some(20), "one step is right for {most:?} of 1000 windows");
    }

    /// Ten thousand STags as they are handed out: they lie all over the range, none follows from those before by a step
    /// that comes again, and another seed gives others.
    // Covers 5040-8.1.1-9, 5040-8.1.1-10, 5042-6.1.1-4.
    #[test]
    fn stags_are_sparse_and_follow_no_rule() {
        for (slots, keys) in [(10_000, 1_u8), (40, 250)] {
            let of = |seed| {
                let permutation = StagPermutation::new(seed);
                let places = (0..slots).flat_map(|slot| (0..keys).map(move |key| (slot, key)));
                places.map(|(slot, key)| permutation.stag(slot, key).0).collect::<Vec<u32>>()
            };
            let stags = of(7);
            let high: HashSet<u32> = stags.iter().map(|stag| stag >> 24).collect();
            assert_eq!(high.len(), 256, "first octets");
            let steps: HashSet<u32> = stags.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
            let changes: HashSet<u32> = stags.windows(2).map(|pair| pair[1] ^ pair[0]).collect();
            assert!(
                steps.len().min(changes.len()) > 9_950,
                "{} steps, {} changes",
                steps.len(),
                changes.len()
            );
            for bit in 0..32 {
                let ones = stags.iter().filter(|stag| *stag >> bit & 1 == 1).count();
                assert!((4_700..5_300).contains(&ones), "bit {bit} is set in {ones} of 10000");
            }
            let others: HashSet<u32> = of(8).into_iter().collect();
            let common = stags.iter().filter(|stag| others.contains(stag)).count();
            assert!(common < 5, "{common} STags of two devices are the same");
        }
    }
}
