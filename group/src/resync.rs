//! Which blocks of two members differ. A member that joins an epoch fetches them.

use std::ops::Range;

/// Octets of a block.
pub const BLOCK: u64 = 65_536;

/// The BLAKE3 hash of a block.
pub type Hash = [u8; 32];

/// Returns the hashes of all blocks of a region. `read` copies the octets at an offset. The last block may be shorter.
///
/// # Errors
/// The first one of `read`.
pub fn hashes<E>(size: u64, mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<Vec<Hash>, E> {
    let mut block = vec![0; usize::try_from(BLOCK.min(size)).unwrap_or_default()];
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        let len = usize::try_from(BLOCK.min(size - at)).unwrap_or_default();
        read(at, &mut block[..len])?;
        found.push(*blake3::hash(&block[..len]).as_bytes());
        at += len as u64;
    }
    Ok(found)
}

/// Returns the ranges of a region whose octets differ, neighbors as one. None if the hashes are not those of a region of
/// this size.
pub fn differing(size: u64, own: &[Hash], other: &[Hash]) -> Option<Vec<Range<u64>>> {
    let blocks = size.div_ceil(BLOCK);
    if [own, other].iter().any(|hashes| hashes.len() as u64 != blocks) {
        return None;
    }
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for ((at, own), other) in (0..).zip(own).zip(other) {
        if own == other {
            continue;
        }
        let (start, end) = (at * BLOCK, size.min((at + 1) * BLOCK));
        match ranges.last_mut().filter(|last| last.end == start) {
            Some(last) => last.end = end,
            None => ranges.push(start..end),
        }
    }
    Some(ranges)
}

/// Returns the Reads that fetch these ranges, each of one block at most: both ends look at their seal for each block.
pub fn pieces(ranges: &[Range<u64>]) -> impl Iterator<Item = Range<u64>> {
    ranges.iter().flat_map(|range| {
        let starts = (0..(range.end - range.start).div_ceil(BLOCK)).map(|at| range.start + at * BLOCK);
        starts.map(|start| start..range.end.min(start + BLOCK))
    })
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
        hashes(memory.len() as u64, read).unwrap()
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
            let ranges = differing(size as u64, &own, &other).unwrap();
            for range in pieces(&ranges) {
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
        assert_eq!(hashes(200_000, read), Err(BLOCK));
    }
}
