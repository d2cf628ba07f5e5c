//! Places in the peer's memory, and their octets.

use weft_rnic::Stag;

/// A run of octets that one end lets the other write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct RemotePlace {
    pub(crate) addr: u64,
    pub(crate) key: Stag,
    /// In octets; for a table, in entries.
    pub(crate) len: u32,
}

/// A place with an offset by which both ends name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Mapping {
    pub(crate) offset: u64,
    pub(crate) place: RemotePlace,
}

impl RemotePlace {
    pub(crate) const LEN: usize = 16;

    /// Returns the octets for a table of buffers: in the hosts' order.
    pub(crate) fn octets(&self) -> [u8; Self::LEN] {
        join(self.addr.to_ne_bytes(), self.key.0.to_ne_bytes(), self.len.to_ne_bytes())
    }

    pub(crate) fn read(octets: [u8; Self::LEN]) -> Self {
        let (addr, key, len) = split(octets);
        Self {
            addr: u64::from_ne_bytes(addr),
            key: Stag(u32::from_ne_bytes(key)),
            len: u32::from_ne_bytes(len),
        }
    }

    /// Returns the octets for private data: in network order.
    pub(crate) fn network_octets(&self) -> [u8; Self::LEN] {
        join(self.addr.to_be_bytes(), self.key.0.to_be_bytes(), self.len.to_be_bytes())
    }

    pub(crate) fn read_network(octets: [u8; Self::LEN]) -> Self {
        let (addr, key, len) = split(octets);
        Self {
            addr: u64::from_be_bytes(addr),
            key: Stag(u32::from_be_bytes(key)),
            len: u32::from_be_bytes(len),
        }
    }

    /// Cuts off the first `len` octets.
    pub(crate) const fn advance(&mut self, len: u32) {
        self.addr = self.addr.wrapping_add(len as u64);
        self.len = self.len.saturating_sub(len);
    }
}

impl Mapping {
    pub(crate) const LEN: usize = 8 + RemotePlace::LEN;

    pub(crate) fn octets(&self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets[..8].copy_from_slice(&self.offset.to_ne_bytes());
        octets[8..].copy_from_slice(&self.place.octets());
        octets
    }

    pub(crate) fn read(octets: [u8; Self::LEN]) -> Self {
        let [offset @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = octets;
        let [_, _, _, _, _, _, _, _, place @ ..] = octets;
        Self { offset: u64::from_ne_bytes(offset), place: RemotePlace::read(place) }
    }

    /// Returns the place from `offset` on. None if the offset lies elsewhere.
    pub(crate) fn at(&self, offset: u64) -> Option<RemotePlace> {
        let skip = u32::try_from(offset.checked_sub(self.offset)?).ok()?;
        let mut place = self.place;
        place.advance(skip);
        (place.len > 0).then_some(place)
    }
}

fn join(addr: [u8; 8], key: [u8; 4], len: [u8; 4]) -> [u8; RemotePlace::LEN] {
    let mut octets = [0; RemotePlace::LEN];
    octets[..8].copy_from_slice(&addr);
    octets[8..12].copy_from_slice(&key);
    octets[12..].copy_from_slice(&len);
    octets
}

const fn split(octets: [u8; RemotePlace::LEN]) -> ([u8; 8], [u8; 4], [u8; 4]) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = octets;
    ([a, b, c, d, e, f, g, h], [i, j, k, l], [m, n, o, p])
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: RemotePlace =
        RemotePlace { addr: 0x0102_0304_0506_0708, key: Stag(0x0A0B_0C0D), len: 0x1112_1314 };

    #[test]
    fn address_then_key_then_length() {
        let network = [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 0x11, 0x12, 0x13, 0x14];
        assert_eq!(PLACE.network_octets(), network);
        assert_eq!(RemotePlace::read_network(network), PLACE);
        let host = PLACE.octets();
        assert_eq!(host[..8], PLACE.addr.to_ne_bytes());
        assert_eq!(host[8..12], PLACE.key.0.to_ne_bytes());
        assert_eq!(RemotePlace::read(host), PLACE);
    }

    #[test]
    fn a_mapping_begins_with_its_offset_and_knows_what_lies_in_it() {
        let mapping = Mapping { offset: 100, place: RemotePlace { addr: 0x1000, key: Stag(7), len: 10 } };
        assert_eq!(mapping.octets()[..8], 100_u64.to_ne_bytes());
        assert_eq!(Mapping::read(mapping.octets()), mapping);
        assert_eq!(mapping.at(104), Some(RemotePlace { addr: 0x1004, key: Stag(7), len: 6 }));
        assert_eq!([99, 110, u64::MAX].map(|offset| mapping.at(offset)), [None; 3]);
    }
}
