//! Which blocks of two members differ. A member that joins an epoch fetches them.

use std::collections::VecDeque;
use std::ops::Range;

/// Octets of a block.
pub const BLOCK: u64 = 65_536;

/// The BLAKE3 hash of a block.
pub type Hash = [u8; 32];

/// The hashes of the blocks of a region, as far as they are made. The last block may be shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashing {
    size: u64,
    found: Vec<Hash>,
}

impl Hashing {
    /// Begins with a region of so many octets.
    pub const fn new(size: u64) -> Self {
        Self { size, found: Vec::new() }
    }

    /// Hashes so many more blocks, unless fewer are left. `read` copies the octets at an offset.
    ///
    /// # Errors
    /// The first one of `read`.
    pub fn step<E>(
        &mut self,
        blocks: usize,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut block = vec![0; usize::try_from(BLOCK.min(self.size)).unwrap_or_default()];
        for _ in 0..blocks {
            let at = self.hashed();
            let len = usize::try_from(BLOCK.min(self.size - at)).unwrap_or_default();
            if len == 0 {
                break;
            }
            read(at, &mut block[..len])?;
            self.found.push(*blake3::hash(&block[..len]).as_bytes());
        }
        Ok(())
    }

    /// Returns how many octets are hashed.
    pub fn hashed(&self) -> u64 {
        self.size.min((self.found.len() as u64).saturating_mul(BLOCK))
    }

    /// Returns the hashes, once all blocks have one.
    pub fn hashes(&self) -> Option<&[Hash]> {
        (self.hashed() == self.size).then_some(&self.found)
    }
}

/// Returns the ranges of a region whose octets differ, neighbors as one. None if the hashes are not those of a region of
/// this size.
pub fn differing(size: u64, own: &[Hash], other: &[Hash]) -> Option<VecDeque<Range<u64>>> {
    let blocks = size.div_ceil(BLOCK);
    if [own, other].iter().any(|hashes| hashes.len() as u64 != blocks) {
        return None;
    }
    let mut ranges: VecDeque<Range<u64>> = VecDeque::new();
    for ((at, own), other) in (0..).zip(own).zip(other) {
        if own == other {
            continue;
        }
        let (start, end) = (at * BLOCK, size.min((at + 1) * BLOCK));
        match ranges.back_mut().filter(|last| last.end == start) {
            Some(last) => last.end = end,
            None => ranges.push_back(start..end),
        }
    }
    Some(ranges)
}

/// Takes the next piece of ranges that are to be fetched: one block at most.
pub fn next_piece(ranges: &mut VecDeque<Range<u64>>) -> Option<Range<u64>> {
    let first = ranges.front_mut()?;
    let piece = first.start..first.end.min(first.start + BLOCK);
    first.start = piece.end;
    if first.is_empty() {
        ranges.pop_front();
    }
    Some(piece)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hashes_of(memory: &[u8]) -> Vec<Hash> {
        let read = |at: u64, out: &mut [u8]| {
            let at = usize::try_from(at).map_err(|_| ())?;
            out.copy_from_slice(&memory[at..at + out.len()]);
            Ok::<(), ()>(())
        };
        let mut hashing = Hashing::new(memory.len() as u64);
        while hashing.hashes().is_none() {
            hashing.step(2, read).unwrap();
        }
        hashing.hashes().unwrap().to_vec()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn what_is_fetched_makes_members_equal_and_no_more_is_fetched(
            size in 0..400_000_usize,
            changes in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 0..6),
        ) {
            let source = vec![7; size];
            let mut member = source.clone();
            for (index, change) in changes.iter().filter(|_| size > 0) {
                member[index.index(size)] ^= change;
            }
            let (own, other) = (hashes_of(&member), hashes_of(&source));
            let mut ranges = differing(size as u64, &own, &other).unwrap();
            while let Some(range) = next_piece(&mut ranges) {
                prop_assert!(range.end - range.start <= BLOCK && range.start % BLOCK == 0);
                let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                prop_assert_ne!(&member[range.clone()], &source[range.clone()], "equal octets are fetched");
                member[range.clone()].copy_from_slice(&source[range]);
            }
            prop_assert_eq!(member, source);
        }
    }

    #[test]
    fn hashes_are_those_of_blake3() {
        // The hash of no octets is in the specification; a block is hashed by itself.
        assert!(hashes_of(&[]).is_empty());
        let octets: Vec<u8> = (0..=255).cycle().take(65_539).collect();
        let expected = [&octets[..65_536], &octets[65_536..]].map(|block| *blake3::hash(block).as_bytes());
        assert_eq!(hashes_of(&octets), expected);
    }

    #[test]
    fn hashes_of_another_size_are_no_answer() {
        let own = hashes_of(&[0; 70_000]);
        assert_eq!(differing(70_000, &own, &own[..1]), None);
        assert_eq!(differing(65_536, &own, &own), None);
        let all = differing(70_000, &own, &[own[1], own[0]]).unwrap();
        assert_eq!((all.len(), all[0].clone()), (1, 0..70_000), "neighbors are one range");
    }

    #[test]
    fn an_error_ends_the_hashing() {
        let read = |at: u64, _: &mut [u8]| if at == 0 { Ok(()) } else { Err(at) };
        let mut hashing = Hashing::new(200_000);
        assert_eq!(hashing.step(9, read), Err(BLOCK));
        assert_eq!((hashing.hashed(), hashing.hashes()), (BLOCK, None));
    }
}
