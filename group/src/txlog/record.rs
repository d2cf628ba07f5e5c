//! The octets of a transaction in a log.
//!
//! ```text
//!  0..4   length of the record, a multiple of 8      then each part, which begins at a multiple of 8
//!  4..8   CRC32c of all other octets                   0..8    where its octets go
//!  8..16  sequence                                     8..12   how many there are
//! 16..20  number of parts                             12..16   zero
//! 20..24  zero                                        16..     the octets, and zeros up to a multiple of 8
//! ```

use crate::op::Copy;

/// Octets that a transaction changes together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// Where they go.
    pub at: u64,
    /// What goes there.
    pub octets: &'a [u8],
}

/// A whole record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Octets of it.
    pub(crate) len: u64,
    /// How its parts get to their places. Sources count from the first octet of the record.
    pub(crate) parts: Vec<Copy>,
}

impl Record {
    /// Returns the octets of a record, and what a reader finds in it; `None` if it has 4 GiB or more.
    pub(crate) fn encode(sequence: u64, parts: &[Part<'_>]) -> Option<(Vec<u8>, Self)> {
        let sizes = parts.iter().map(|part| PART + part.octets.len().next_multiple_of(8));
        let len = u32::try_from(sizes.sum::<usize>() + HEAD).ok()?;
        let mut octets = vec![0; HEAD];
        octets[..4].copy_from_slice(&len.to_le_bytes());
        octets[8..16].copy_from_slice(&sequence.to_le_bytes());
        octets[16..20].copy_from_slice(&u32::try_from(parts.len()).ok()?.to_le_bytes());
        let mut copies = Vec::with_capacity(parts.len());
        for part in parts {
            let size = u32::try_from(part.octets.len()).ok()?;
            octets.extend_from_slice(&part.at.to_le_bytes());
            octets.extend_from_slice(&u64::from(size).to_le_bytes());
            copies.push(Copy { from: octets.len() as u64, to: part.at, len: size });
            octets.extend_from_slice(part.octets);
            octets.resize(octets.len().next_multiple_of(8), 0);
        }
        let crc = checksum(&octets);
        octets[4..8].copy_from_slice(&crc.to_le_bytes());
        Some((octets, Self { len: len.into(), parts: copies }))
    }

    /// Reads the record that these octets begin with; `None` if it is not whole, or another one than the one with this
    /// sequence.
    pub(crate) fn decode(octets: &[u8], sequence: u64) -> Option<Self> {
        let len = number(octets, 0)? & u64::from(u32::MAX);
        let octets = octets.get(..usize::try_from(len).ok()?)?;
        let is_whole = octets.len() >= HEAD
            && octets.len() % 8 == 0
            && octets[4..8] == checksum(octets).to_le_bytes()
            && number(octets, 8)? == sequence;
        if !is_whole {
            return None;
        }
        let mut parts = Vec::new();
        let mut at = HEAD;
        for _ in 0..number(octets, 16)? {
            let size = u32::try_from(number(octets, at + 8)?).ok()?;
            parts.push(Copy { from: (at + PART) as u64, to: number(octets, at)?, len: size });
            at += PART + (size as usize).next_multiple_of(8);
        }
        (at == octets.len()).then_some(Self { len, parts })
    }
}

fn number(octets: &[u8], at: usize) -> Option<u64> {
    octets.get(at..)?.first_chunk().map(|octets| u64::from_le_bytes(*octets))
}

/// Returns the CRC32c of all octets of a record but those of the CRC.
fn checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..4]), &record[8..])
}

/// Octets before the first part.
const HEAD: usize = 24;
/// Octets of a part before what goes to its place.
const PART: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_whole_or_nothing() {
        let parts = [
            Part { at: 7, octets: b"a" },
            Part { at: 1 << 40, octets: &[3; 16] },
            Part { at: 0, octets: b"" },
        ];
        let (octets, record) = Record::encode(9, &parts).unwrap();
        assert_eq!(octets.len() as u64, record.len);
        assert_eq!(Record::decode(&octets, 9), Some(record.clone()));
        let longer: Vec<u8> = octets.iter().copied().chain([1; 9]).collect();
        assert_eq!(Record::decode(&longer, 9), Some(record.clone()), "what lies behind it is not looked at");
        for (copy, part) in record.parts.iter().zip(parts) {
            let from = usize::try_from(copy.from).unwrap();
            assert_eq!((copy.to, &octets[from..from + copy.len as usize]), (part.at, part.octets));
        }
        assert_eq!(Record::decode(&octets, 8), None);
        for len in 0..octets.len() {
            assert_eq!(Record::decode(&octets[..len], 9), None, "{len} octets");
        }
        for bit in 0..octets.len() * 8 {
            let mut spoiled = octets.clone();
            spoiled[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&spoiled, 9), None, "bit {bit}");
        }
        assert_eq!(Record::decode(&[0; 64], 0), None);
        assert_eq!(
            Record::encode(1, &[]).map(|(octets, _)| Record::decode(&octets, 1).is_some()),
            Some(true)
        );
    }
}
