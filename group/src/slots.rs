//! A small value in two places, so that a write that is torn leaves the older one.

/// Octets from one place to the other: a sector, which disks write as a whole or not at all.
const APART: usize = 512;
/// Octets of a value as written.
const LEN: usize = 40;
/// Octets that the two places take.
pub(crate) const SLOTS: usize = 2 * APART;

/// Two numbers, with a count of how often they were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    /// How often a value was written before. 0: never.
    pub(crate) turn: u64,
    /// What is kept.
    pub(crate) values: [u64; 2],
}

impl Slot {
    /// Returns the newest whole value of the two places; `None` if neither holds one.
    pub(crate) fn newest(octets: &[u8], magic: [u8; 8]) -> Option<Self> {
        let places = [octets, octets.get(APART..).unwrap_or_default()];
        places.into_iter().filter_map(|place| Self::decode(place, magic)).max_by_key(|slot| slot.turn)
    }

    /// Returns the value that follows this one.
    pub(crate) const fn next(self, values: [u64; 2]) -> Self {
        Self { turn: self.turn.wrapping_add(1), values }
    }

    /// Returns where this value goes, from the first octet of the first place on.
    pub(crate) const fn place(self) -> u64 {
        (self.turn & 1) * APART as u64
    }

    /// Returns the octets of this value: magic, turn, values, CRC32c of all that, zero.
    pub(crate) fn encode(self, magic: [u8; 8]) -> [u8; LEN] {
        let mut octets = [0; LEN];
        octets[..8].copy_from_slice(&magic);
        octets[8..16].copy_from_slice(&self.turn.to_le_bytes());
        octets[16..24].copy_from_slice(&self.values[0].to_le_bytes());
        octets[24..32].copy_from_slice(&self.values[1].to_le_bytes());
        let crc = crc32c::crc32c(&octets[..32]);
        octets[32..36].copy_from_slice(&crc.to_le_bytes());
        octets
    }

    fn decode(octets: &[u8], magic: [u8; 8]) -> Option<Self> {
        let octets: &[u8; LEN] = octets.first_chunk()?;
        let number = |at: usize| octets[at..].first_chunk().map(|octets| u64::from_le_bytes(*octets));
        let slot = Self { turn: number(8)?, values: [number(16)?, number(24)?] };
        (*octets == slot.encode(magic)).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_value_leaves_the_older_one() {
        let magic = *b"a magic.";
        let mut octets = vec![0; SLOTS];
        let write = |octets: &mut [u8], slot: Slot, len: usize| {
            let at = usize::try_from(slot.place()).unwrap();
            octets[at..at + len].copy_from_slice(&slot.encode(magic)[..len]);
        };
        assert_eq!(Slot::newest(&octets, magic), None);
        let mut newest = Slot::default();
        for turn in 0..5 {
            let next = newest.next([turn, 77 * turn]);
            for len in 0..LEN - 4 {
                let mut torn = octets.clone();
                write(&mut torn, next, len);
                assert!(Slot::newest(&torn, magic).unwrap_or_default() == newest, "{turn}, {len} octets");
            }
            write(&mut octets, next, LEN);
            assert_eq!(Slot::newest(&octets, magic), Some(next));
            assert_eq!(Slot::newest(&octets, *b"b magic."), None);
            newest = next;
        }
        assert_eq!(Slot::newest(&octets[..20], magic), None);
    }
}
