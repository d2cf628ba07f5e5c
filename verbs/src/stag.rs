//! STags that a peer cannot guess (RFC 5042 section 6.1.1).

use weft_ddp::Stag;

/// A keyed permutation between table slots and the 24-bit index in the upper part of an STag.
///
/// Slots are handed out densely, so that the table stays small; the permutation (a Feistel network of four rounds over
/// two halves of 12 bits) makes the STags of neighbouring slots unrelated for whoever does not know the key. The lower 8
/// bits are the key octet, which changes each time a slot is used again.
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

    /// The STag of `slot` (below [`Self::SLOTS`]) with key octet `key`.
    pub fn stag(&self, slot: u32, key: u8) -> Stag {
        let (mut left, mut right) = (slot >> HALF & MASK, slot & MASK);
        for round_key in self.keys {
            (left, right) = (right, left ^ round(right, round_key));
        }
        Stag((left << HALF | right) << 8 | u32::from(key))
    }

    /// The slot and the key octet of `stag`; any value gives some slot, whether it is in use is for the table to say.
    pub fn slot(&self, stag: Stag) -> (u32, u8) {
        let index = stag.0 >> 8;
        let (mut left, mut right) = (index >> HALF & MASK, index & MASK);
        for round_key in self.keys.iter().rev() {
            (left, right) = (right ^ round(left, *round_key), left);
        }
        (left << HALF | right, stag.0.to_le_bytes()[0])
    }

    /// The number of slots that STags can name.
    pub const SLOTS: u32 = 1 << 24;
}

const fn round(half: u32, key: u32) -> u32 {
    let mixed = (half ^ key).wrapping_mul(0x9E37_79B1);
    (mixed ^ (mixed >> 15)) & MASK
}

const HALF: u32 = 12;
const MASK: u32 = (1 << HALF) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn permutation_is_reversible(seed: u64, slot in 0..StagPermutation::SLOTS, key: u8) {
            let permutation = StagPermutation::new(seed);
            prop_assert_eq!(permutation.slot(permutation.stag(slot, key)), (slot, key));
        }
    }

    #[test]
    fn neighbours_are_far_apart() {
        let permutation = StagPermutation::new(7);
        let close = (0..1000)
            .filter(|&slot| permutation.stag(slot, 0).0.abs_diff(permutation.stag(slot + 1, 0).0) < 1 << 16)
            .count();
        assert!(close < 20, "{close} of 1000 neighbouring slots have STags close to each other");
    }
}
