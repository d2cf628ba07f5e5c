//! The only source of randomness in a run.

/// A seeded generator (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a new generator. Its draws do not change the draws of this one.
    pub(crate) const fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let drawn = self.next();
        usize::try_from(drawn % (bound as u64).max(1)).unwrap_or(0)
    }

    /// Returns a number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high + 1 - low)
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len())]
    }

    pub(crate) fn octets(&mut self, len: usize) -> Vec<u8> {
        let mut octets = Vec::with_capacity(len + 8);
        while octets.len() < len {
            octets.extend_from_slice(&self.next().to_le_bytes());
        }
        octets.truncate(len);
        octets
    }
}
