//! Sequence numbers.

use core::ops::{Add, Sub};

/// A sequence number (RFC 9293 section 3.4). Numbers wrap around at 2^32.
///
/// Two numbers are ordered by the shorter way around the circle, so that the order holds for numbers less than 2^31
/// apart only, as those of one connection are. It is no total order, hence `Ord` is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// Returns the octets from `earlier` up to this number, modulo 2^32.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether this number lies before another one.
    pub const fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether this number is `start` or lies between it and `end`, which is behind the last.
    pub const fn is_within(self, start: Self, end: Self) -> bool {
        self.since(start) < end.since(start)
    }

    /// Returns the later one of two numbers.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// Returns the earlier one of two numbers.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if other.is_before(self) { other } else { self }
    }
}

impl Add<u32> for Seq {
    type Output = Self;

    fn add(self, octets: u32) -> Self {
        Self(self.0.wrapping_add(octets))
    }
}

impl Sub<u32> for Seq {
    type Output = Self;

    fn sub(self, octets: u32) -> Self {
        Self(self.0.wrapping_sub(octets))
    }
}

#[cfg(test)]
mod tests {
    use super::Seq;

    #[test]
    fn numbers_are_ordered_by_the_shorter_way() {
        let (before, behind) = (Seq(u32::MAX - 1), Seq(3));
        assert!(before.is_before(behind) && !behind.is_before(before));
        assert_eq!((behind.since(before), before + 5, behind - 5), (5, behind, before));
        assert_eq!((before.max(behind), before.min(behind)), (behind, before));
        assert!(Seq(0).is_within(before, behind) && !behind.is_within(before, behind));
        assert!(!before.is_within(behind, behind));
    }
}
