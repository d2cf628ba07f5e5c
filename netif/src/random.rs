//! Random numbers that a seed repeats.

/// A seeded generator (SplitMix64). It is small and fast, and draws the same numbers on every machine. Not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, 0 when `bound` is 0. The bias of the remainder does not matter here.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        let drawn = self.draw();
        if bound == 0 { 0 } else { drawn % bound }
    }

    /// Returns true with `probability`. It always draws, so that a changed probability does not change later draws.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        let unit = (self.draw() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_values_are_those_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.draw(), 6_457_827_717_110_365_317);
        assert_eq!(random.draw(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn probabilities_0_and_1_are_certain() {
        let mut random = Random::new(7);
        assert!((0..1000).all(|_| !random.chance(0.0)));
        assert!((0..1000).all(|_| random.chance(1.0)));
        assert_eq!(random.below(0), 0);
    }
}
