//! Digests of the first octets of a connection, by which two claims are told apart whose addresses are the same.
//!
//! Networks may have equal addresses, and a middlebox may leave half of an old connection behind. What was said at the
//! beginning is another thing then. The hash has no key: a claim goes only to the host at the other end of the connection,
//! which has these octets.

use core::hash::Hasher;

use siphasher::sip::SipHasher24;

/// How many octets the digests of a direction are made of.
pub const PREFIXES: [usize; 3] = [16, 64, 256];

/// The digests of both directions, as one end of the connection knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Those of what this end has written.
    pub written: Prefixes,
    /// Those of what this end has received.
    pub received: Prefixes,
}

/// The digests of the first octets of a direction: of each of [`PREFIXES`] that was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    digests: [u64; PREFIXES.len()],
    /// How many there are. The others are 0.
    count: u8,
}

impl Digests {
    /// Returns the digests of the other end of the same connection, if that has seen as much as this one.
    #[must_use]
    pub const fn mirrored(self) -> Self {
        Self { written: self.received, received: self.written }
    }

    /// Compares them with those of the other end, [mirrored](Self::mirrored): each direction at the longest prefix that both
    /// have. Returns `None` if they have none in common in either direction.
    #[must_use]
    pub fn agree(&self, other_mirrored: &Self) -> Option<bool> {
        let written = self.written.agree(&other_mirrored.written);
        let received = self.received.agree(&other_mirrored.received);
        match (written, received) {
            (Some(written), Some(received)) => Some(written && received),
            (one, other) => one.or(other),
        }
    }
}

impl Prefixes {
    /// Makes the digests of a direction that begins with these octets.
    #[must_use]
    pub fn of(begin: &[u8]) -> Self {
        let mut prefixes = Self::default();
        let begins = PREFIXES.iter().map_while(|len| begin.get(..*len));
        for (digest, begin) in prefixes.digests.iter_mut().zip(begins) {
            let mut hasher = SipHasher24::new_with_key(&[0; 16]);
            hasher.write(begin);
            *digest = hasher.finish();
            prefixes.count += 1;
        }
        prefixes
    }

    /// Returns what a message tells of them, or `None` if there are not so many prefixes.
    pub(crate) fn from_digests(digests: impl ExactSizeIterator<Item = Option<u64>>) -> Option<Self> {
        let count = digests.len();
        let mut prefixes = Self { count: u8::try_from(count).ok()?, ..Self::default() };
        for (place, digest) in prefixes.digests.get_mut(..count)?.iter_mut().zip(digests) {
            *place = digest?;
        }
        Some(prefixes)
    }

    /// The digests, that of the shortest prefix first.
    #[must_use]
    pub fn digests(&self) -> &[u64] {
        self.digests.get(..usize::from(self.count)).unwrap_or_default()
    }

    fn agree(&self, other: &Self) -> Option<bool> {
        let mut both = self.digests().iter().zip(other.digests());
        both.next_back().map(|(one, other)| one == other)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KNOWN: [u8; 8] = [0x7f, 0x89, 0x8f, 0xd8, 0x2e, 0x63, 0x02, 0xc9];

    fn digests(written: &[u8], received: &[u8]) -> Digests {
        Digests { written: Prefixes::of(written), received: Prefixes::of(received) }
    }

    #[test]
    fn the_hash_is_siphash_2_4() {
        // Both hosts have to know the same one. OpenSSL 3 says so:
        // openssl mac -macopt size:8 -macopt hexkey:00000000000000000000000000000000 SIPHASH
        let octets: Vec<u8> = (0..16).collect();
        assert_eq!(Prefixes::of(&octets).digests().first().map(|digest| digest.to_le_bytes()), Some(KNOWN));
    }

    #[test]
    fn the_longest_prefix_that_both_have_decides() {
        let begin: Vec<u8> = (0..=255).collect();
        let other: Vec<u8> = begin.iter().enumerate().map(|(at, octet)| octet ^ u8::from(at == 63)).collect();
        for (len, agrees) in [(15, None), (16, Some(true)), (63, Some(true)), (64, Some(false))] {
            let (one, two) = (digests(&begin, &[]), digests(&other[..len], &[]));
            assert_eq!((one.agree(&two), two.agree(&one)), (agrees, agrees), "{len}");
            assert_eq!(one.mirrored().agree(&two.mirrored()), agrees, "{len}");
            assert_eq!(one.agree(&two.mirrored()), None, "{len}: the directions are not the same");
        }
    }

    proptest! {
        #[test]
        fn both_ends_of_a_connection_agree(
            forth in proptest::collection::vec(any::<u8>(), 0..300),
            back in proptest::collection::vec(any::<u8>(), 0..300),
            seen in [0..300_usize, 0..300_usize],
        ) {
            let client = digests(&forth, &back[..seen[0].min(back.len())]);
            let server = digests(&back, &forth[..seen[1].min(forth.len())]);
            let is_common = [(seen[1], &forth), (seen[0], &back)].iter().any(|(seen, octets)| octets.len().min(*seen) >= 16);
            prop_assert_eq!(client.agree(&server.mirrored()), is_common.then_some(true));
        }

        #[test]
        fn another_octet_at_the_beginning_is_another_connection(
            forth in proptest::collection::vec(any::<u8>(), 16..300),
            at in 0..16_usize,
            change in 1..=255_u8,
        ) {
            let mut other = forth.clone();
            other[at] ^= change;
            prop_assert_eq!(digests(&forth, &[]).agree(&digests(&other, &[])), Some(false));
        }
    }
}
