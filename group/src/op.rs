//! Operations of a group, and whether one makes sense.

use core::ops::Range;

/// What one slot of a group does at each replica, in this order: the write, the copy, the swap, the flush.
///
/// All offsets are those of the session's range, in octets. They are the same at every replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Op {
    /// Where octets of the client go.
    pub write: Option<Range<u64>>,
    /// Octets that each replica copies in its own memory.
    pub copy: Option<Copy>,
    /// A word that some replicas compare and swap.
    pub swap: Option<Swap>,
    /// Octets that are to be durable when the operation is done.
    pub flush: Option<Range<u64>>,
    /// The flush is left to the next operation of the session that flushes: the octets are durable when that one is done.
    /// So several ranges cost one synchronization of a file.
    pub flushes_later: bool,
}

/// A copy in the memory of each replica. Source and sink must not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The first octet of the source.
    pub from: u64,
    /// The first octet of the sink.
    pub to: u64,
    /// Octets.
    pub len: u32,
}

/// A compare-and-swap of a word of 8 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Where the word is, a multiple of 8.
    pub at: u64,
    /// The value that it must have.
    pub compare: u64,
    /// The value that it gets.
    pub swap: u64,
    /// The replicas that do it: the execute map.
    pub on: Replicas,
}

/// A set of replicas, one bit for each: bit 0 is the head of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas(pub u16);

/// The largest number of replicas.
pub const MAX_REPLICAS: usize = 16;

/// Why an operation is not begun. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpError {
    /// As many operations are under way as the window has slots.
    Full,
    /// It touches octets of an operation under way, and one of the two changes them.
    Conflict,
    /// Source and sink of a copy overlap, or the write overlaps with the sink or with the word.
    Overlap,
    /// The word does not lie at a multiple of 8.
    Unaligned,
    /// It reaches beyond the range of the session.
    Bounds,
    /// A write is longer than a piece, or a flush than 2^32 - 1 octets.
    TooLong,
    /// No operation of this name is under way.
    Unknown,
}

impl core::fmt::Display for OpError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Full => "the window is full: poll first",
            Self::Conflict => "an operation under way uses the same octets: poll first",
            Self::Overlap => "the parts of the operation overlap",
            Self::Unaligned => "a word for compare-and-swap lies at a multiple of 8",
            Self::Bounds => "the operation reaches beyond the range of the session",
            Self::TooLong => "the write is longer than a piece, or the flush than 2^32 - 1 octets",
            Self::Unknown => "no operation of this name is under way",
        })
    }
}

impl core::error::Error for OpError {}

impl Replicas {
    /// All replicas.
    pub const ALL: Self = Self(u16::MAX);

    /// Returns whether the replica with this number is among them.
    pub const fn contains(self, index: usize) -> bool {
        index < MAX_REPLICAS && self.0 >> index & 1 == 1
    }
}

impl Copy {
    /// Returns the octets that are read.
    pub const fn source(&self) -> Range<u64> {
        self.from..self.from.saturating_add(self.len as u64)
    }

    /// Returns the octets that are changed.
    pub const fn sink(&self) -> Range<u64> {
        self.to..self.to.saturating_add(self.len as u64)
    }
}

impl Swap {
    /// Returns the octets of the word.
    pub const fn word(&self) -> Range<u64> {
        self.at..self.at.saturating_add(8)
    }
}

impl Op {
    /// Checks that the operation stays inside of `len` octets, and that its parts do not disturb each other.
    ///
    /// The write must not overlap with what the copy or the swap changes: the device that forwards it would send the
    /// octets of before or of after the change.
    ///
    /// # Errors
    /// [`OpError`], never `Full` or `Conflict`.
    pub fn check(&self, len: u64, piece: u32) -> Result<(), OpError> {
        let copied = self.copy.as_ref().map(Copy::source);
        let ranges = self.changed().chain(copied).chain(self.flush.clone());
        if ranges.into_iter().any(|range| range.start > range.end || range.end > len) {
            return Err(OpError::Bounds);
        }
        if self.swap.is_some_and(|swap| swap.at % 8 != 0) {
            return Err(OpError::Unaligned);
        }
        let is_longer = |range: &Option<Range<u64>>, max: u32| {
            range.as_ref().is_some_and(|range| range.end - range.start > max.into())
        };
        // An entry has 32 bits for the octets to flush.
        if is_longer(&self.write, piece) || is_longer(&self.flush, u32::MAX) {
            return Err(OpError::TooLong);
        }
        let sink = self.copy.as_ref().map(Copy::sink);
        let word = self.swap.as_ref().map(Swap::word);
        let disturbs =
            |write: &Range<u64>| [&sink, &word].into_iter().flatten().any(|other| overlap(write, other));
        let is_own_sink = self.copy.is_some_and(|copy| overlap(&copy.source(), &copy.sink()));
        if is_own_sink || self.write.as_ref().is_some_and(disturbs) {
            return Err(OpError::Overlap);
        }
        Ok(())
    }

    /// Returns the octets that it changes.
    pub(crate) fn changed(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let (sink, word) = (self.copy.as_ref().map(Copy::sink), self.swap.as_ref().map(Swap::word));
        [self.write.clone(), sink, word].into_iter().flatten()
    }

    /// Returns the octets that it reads and must not find changed meanwhile.
    pub(crate) fn read(&self) -> Option<Range<u64>> {
        self.copy.as_ref().map(Copy::source)
    }
}

/// Returns whether two ranges have an octet in common.
pub(crate) const fn overlap(left: &Range<u64>, right: &Range<u64>) -> bool {
    left.start < right.end && right.start < left.end && left.start < left.end && right.start < right.end
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn copy(from: u64, to: u64, len: u32) -> Option<Copy> {
        Some(Copy { from, to, len })
    }

    const fn swap(at: u64) -> Option<Swap> {
        Some(Swap { at, compare: 0, swap: 1, on: Replicas::ALL })
    }

    #[test]
    fn an_operation_stays_inside_of_the_range() {
        let good = Op {
            write: Some(90..100),
            copy: copy(0, 10, 10),
            swap: swap(80),
            flush: Some(0..100),
            ..Op::default()
        };
        assert_eq!(good.check(100, 10), Ok(()));
        #[expect(clippy::reversed_empty_ranges, reason = "a caller may err")]
        let bad = [
            Op { write: Some(91..101), ..Op::default() },
            Op { write: Some(5..4), ..Op::default() },
            Op { copy: copy(91, 0, 10), ..Op::default() },
            Op { copy: copy(0, 91, 10), ..Op::default() },
            Op { copy: copy(u64::MAX, 0, 1), ..Op::default() },
            Op { swap: swap(96), ..Op::default() },
            Op { swap: swap(u64::MAX - 7), ..Op::default() },
            Op { flush: Some(0..101), ..Op::default() },
        ];
        for op in bad {
            assert_eq!(op.check(100, 10), Err(OpError::Bounds), "{op:?}");
        }
        assert_eq!(Op { write: Some(0..11), ..Op::default() }.check(100, 10), Err(OpError::TooLong));
        assert_eq!(Op { swap: swap(12), ..Op::default() }.check(100, 10), Err(OpError::Unaligned));
    }

    #[test]
    fn the_parts_of_an_operation_do_not_disturb_each_other() {
        let overlapping = [
            Op { copy: copy(0, 9, 10), ..Op::default() },
            Op { write: Some(0..9), swap: swap(8), ..Op::default() },
            Op { write: Some(10..11), copy: copy(50, 5, 6), ..Op::default() },
        ];
        for op in overlapping {
            assert_eq!(op.check(100, 100), Err(OpError::Overlap), "{op:?}");
        }
        let beside = [
            Op { copy: copy(0, 10, 10), ..Op::default() },
            Op { write: Some(0..8), swap: swap(8), ..Op::default() },
            // The copy sees what was written.
            Op { write: Some(0..8), copy: copy(0, 8, 8), ..Op::default() },
            Op { write: Some(8..8), swap: swap(8), ..Op::default() },
        ];
        for op in beside {
            assert_eq!(op.check(100, 100), Ok(()), "{op:?}");
        }
    }
}
