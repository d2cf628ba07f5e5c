//! The private data of the connect request and of its answer.

use rustix::io::Errno;

use super::place::RemotePlace;

/// The memory and the credits that an end lends the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Messages that may come before the first grant.
    pub(crate) credits: u16,
    /// The place where the other end writes its buffers. The table of mappings lies behind it.
    pub(crate) table: RemotePlace,
    /// Entries of the table of mappings.
    pub(crate) mappings: u16,
    /// The first buffer.
    pub(crate) buffer: RemotePlace,
}

impl Hello {
    pub(crate) const LEN: usize = 8 + 2 * RemotePlace::LEN;

    pub(crate) fn octets(&self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        let (head, places) = octets.split_at_mut(8);
        let [high, low] = self.credits.to_be_bytes();
        head.copy_from_slice(&[VERSION, HAS_MAPPINGS | OWN_ORDER, high, low, 0, 0, 0, scale(self.mappings)]);
        let (table, buffer) = places.split_at_mut(RemotePlace::LEN);
        table.copy_from_slice(&self.table.network_octets());
        buffer.copy_from_slice(&self.buffer.network_octets());
        octets
    }

    /// # Errors
    /// `EOPNOTSUPP` for another version, and for a host of the other octet order: librdmacm cannot talk to such a host
    /// on iWARP either. `EPROTO` for too few octets, and an end that lends nothing.
    pub(crate) fn read(octets: &[u8]) -> Result<Self, Errno> {
        let (&[version, flags, high, low, _, _, _, mappings], rest) =
            octets.split_first_chunk().ok_or(Errno::PROTO)?;
        let (&table, rest) = rest.split_first_chunk().ok_or(Errno::PROTO)?;
        let (&buffer, _) = rest.split_first_chunk().ok_or(Errno::PROTO)?;
        if version != VERSION || flags & BIG_ENDIAN != OWN_ORDER {
            return Err(Errno::OPNOTSUPP);
        }
        let hello = Self {
            credits: u16::from_be_bytes([high, low]),
            table: RemotePlace::read_network(table),
            mappings: if flags & HAS_MAPPINGS == 0 { 0 } else { unscale(mappings) },
            buffer: RemotePlace::read_network(buffer),
        };
        if hello.credits == 0 || hello.table.len == 0 { Err(Errno::PROTO) } else { Ok(hello) }
    }
}

/// Rounds a number of mappings to one that the format can hold: large ones are multiples of 256.
pub(crate) fn rounded(mappings: u32) -> u16 {
    unscale(scale(u16::try_from(mappings).unwrap_or(u16::MAX)))
}

const fn scale(mappings: u16) -> u8 {
    if mappings <= EXACT {
        return mappings.to_le_bytes()[0];
    }
    let [_, high] = mappings.to_le_bytes();
    SCALED | high
}

const fn unscale(told: u8) -> u16 {
    if told <= SCALED { told as u16 } else { ((told & !SCALED) as u16) << 8 }
}

const VERSION: u8 = 1;
const BIG_ENDIAN: u8 = 1;
const HAS_MAPPINGS: u8 = 2;
const OWN_ORDER: u8 = if cfg!(target_endian = "big") { BIG_ENDIAN } else { 0 };
const SCALED: u8 = 0x80;
const EXACT: u16 = 0x80;

#[cfg(test)]
mod tests {
    use weft_rnic::Stag;

    use super::*;

    fn hello() -> Hello {
        Hello {
            credits: 384,
            table: RemotePlace { addr: 0x1000, key: Stag(0x100), len: 2 },
            mappings: 3,
            buffer: RemotePlace { addr: 0x2000, key: Stag(0x200), len: 65_536 },
        }
    }

    #[test]
    fn the_octets_are_those_of_version_1() {
        let octets = hello().octets();
        assert_eq!(octets[..8], [1, 2 | OWN_ORDER, 1, 0x80, 0, 0, 0, 3]);
        assert_eq!(octets[8..24], [0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 1, 0, 0, 0, 0, 2]);
        assert_eq!(octets[24..], [0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 2, 0, 0, 1, 0, 0]);
        assert_eq!(Hello::read(&octets), Ok(hello()));
        // MPA may pad private data.
        assert_eq!(Hello::read(&[&octets[..], &[0; 4]].concat()), Ok(hello()));
    }

    #[test]
    fn unsuitable_peers_are_refused() {
        let octets = hello().octets();
        for len in 0..octets.len() {
            assert_eq!(Hello::read(&octets[..len]), Err(Errno::PROTO));
        }
        let with = |index: usize, value: u8| {
            let mut octets = octets;
            octets[index] = value;
            Hello::read(&octets)
        };
        assert_eq!(with(0, 2), Err(Errno::OPNOTSUPP));
        assert_eq!(with(1, octets[1] ^ BIG_ENDIAN), Err(Errno::OPNOTSUPP));
        assert_eq!(with(23, 0), Err(Errno::PROTO));
        assert_eq!(with(1, octets[1] & !HAS_MAPPINGS).map(|hello| hello.mappings), Ok(0));
        assert_eq!(Hello { credits: 0, ..hello() }.octets()[2..4], [0, 0]);
        assert_eq!(Hello::read(&Hello { credits: 0, ..hello() }.octets()), Err(Errno::PROTO));
    }

    #[test]
    fn many_mappings_are_rounded_to_256s() {
        for (wanted, told) in
            [(0, 0), (1, 1), (128, 128), (255, 128), (256, 256), (1000, 768), (99_999, 32_512)]
        {
            assert_eq!(rounded(wanted), told, "{wanted}");
        }
    }
}
