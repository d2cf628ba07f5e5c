//! Ranges of sequence numbers, and the short list of them that the option SACK carries.

use core::fmt;

use crate::Seq;

/// A range of sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    /// The first number in it.
    pub start: Seq,
    /// The number behind the last one.
    pub end: Seq,
}

impl Interval {
    /// Returns the range from `start` up to but without `end`.
    pub const fn new(start: Seq, end: Seq) -> Self {
        Self { start, end }
    }

    /// Returns how many numbers the range has. It is 2^31 or more if the end is before the start.
    pub const fn len(self) -> u32 {
        self.end.since(self.start)
    }

    /// Whether the range has no number, or its end is before its start.
    pub const fn is_empty(self) -> bool {
        !self.start.is_before(self.end)
    }

    /// Whether all numbers of a range that is not empty are in this one.
    pub const fn contains(self, inner: Self) -> bool {
        !inner.start.is_before(self.start) && !self.end.is_before(inner.end)
    }

    /// Whether two ranges have a number in common, or nothing between them.
    pub const fn touches(self, other: Self) -> bool {
        !self.end.is_before(other.start) && !other.end.is_before(self.start)
    }

    /// Returns the range from the earlier start to the later end.
    #[must_use]
    pub const fn join(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// The blocks of an option SACK, at most [`Self::MAX`] (RFC 2018 section 3), in the order of the option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [Interval; Self::MAX],
    len: u8,
}

impl SackBlocks {
    /// Blocks that fit into the options of a segment.
    pub const MAX: usize = 4;
    /// No block: the option is missing.
    pub const NONE: Self = Self { blocks: [Interval::new(Seq(0), Seq(0)); Self::MAX], len: 0 };

    /// Appends a block. Returns false if there is no place left.
    pub fn push(&mut self, block: Interval) -> bool {
        let Some(place) = self.blocks.get_mut(usize::from(self.len)) else { return false };
        *place = block;
        self.len += 1;
        true
    }

    /// Returns the blocks.
    pub fn as_slice(&self) -> &[Interval] {
        self.blocks.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Whether there is no block.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for SackBlocks {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}
