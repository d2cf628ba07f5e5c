//! The record by which a sender announces, in the stream of the kernel's socket, that the stream goes on there.
//!
//! During a leg in a ring the kernel's stream is silent, so that the record comes alone and in order.

/// "From position P on the stream follows here."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The channel's secret.
    pub secret: [u64; 2],
    /// The position of the octet behind the record.
    pub position: u64,
}

/// What the first octets of the kernel's stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peeked {
    /// A whole record.
    Record(Record),
    /// The beginning of a record, or nothing.
    Partial,
    /// Octets of a program that does not know of the ring.
    Foreign,
}

impl Record {
    /// Returns the octets of the record, as words.
    #[must_use]
    pub fn to_words(self) -> [u64; RECORD_LEN / 8] {
        let [first, second] = self.secret;
        let words = [first, second, FROM, self.position, 0];
        let checksum = words.iter().fold(!0, |crc, word| word.to_le_bytes().iter().fold(crc, crc32c));
        [first, second, FROM, self.position, 0, u64::from(!checksum)]
    }

    /// Returns the octets of the record.
    #[must_use]
    pub fn encode(self) -> [u8; RECORD_LEN] {
        octets_of(self.to_words())
    }

    /// Tells what the octets are that the kernel's stream of a channel with this secret begins with.
    #[must_use]
    pub fn peek(octets: &[u8], secret: [u64; 2]) -> Peeked {
        let begin: [u8; 24] = octets_of([secret[0], secret[1], FROM]);
        let [octets_there, begin_there] =
            [octets, &begin].map(|side: &[u8]| &side[..octets.len().min(begin.len())]);
        if octets_there != begin_there {
            return Peeked::Foreign;
        }
        let Some(octets) = octets.first_chunk::<RECORD_LEN>() else { return Peeked::Partial };
        let position = octets[24..].first_chunk().map_or(0, |octets| u64::from_le_bytes(*octets));
        let record = Self { secret, position };
        if record.encode() == *octets { Peeked::Record(record) } else { Peeked::Foreign }
    }
}

/// Turns words into octets, little-endian.
#[must_use]
pub fn octets_of<const WORDS: usize, const OCTETS: usize>(words: [u64; WORDS]) -> [u8; OCTETS] {
    core::array::from_fn(|at| words.get(at / 8).map_or(0, |word| word.to_le_bytes()[at % 8]))
}

/// Adds an octet to a CRC-32C, bit by bit: records are rare and short.
fn crc32c(crc: u32, octet: &u8) -> u32 {
    (0..8).fold(crc ^ u32::from(*octet), |crc, _| crc >> 1 ^ if crc & 1 == 0 { 0 } else { 0x82f6_3b78 })
}

/// Octets of a record.
pub const RECORD_LEN: usize = 48;
/// "weft-frm": stands behind the secret.
const FROM: u64 = u64::from_le_bytes(*b"weft-frm");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_checksum_is_crc_32c() {
        let crc = b"123456789".iter().fold(!0, crc32c);
        assert_eq!(!crc, 0xe306_9283, "the check value of the standard");
    }

    proptest! {
        #[test]
        fn a_record_is_known_by_each_of_its_octets(secret: [u64; 2], position: u64, cut in 0..48_usize, flip in 1..=255_u8) {
            let record = Record { secret, position };
            let mut octets = record.encode().to_vec();
            prop_assert_eq!(Record::peek(&octets[..cut], secret), Peeked::Partial);
            octets.extend(b"what follows");
            prop_assert_eq!(Record::peek(&octets, secret), Peeked::Record(record));
            octets[cut] ^= flip;
            prop_assert_eq!(Record::peek(&octets, secret), Peeked::Foreign);
        }

        #[test]
        fn octets_of_others_are_foreign(octets: Vec<u8>, secret: [u64; 2]) {
            let expected = if octets.is_empty() { Peeked::Partial } else { Peeked::Foreign };
            prop_assume!(octets.first() != Some(&secret[0].to_le_bytes()[0]));
            prop_assert_eq!(Record::peek(&octets, secret), expected);
        }
    }
}
