//! The private data of MPA startup: the two ends of a connection.

use crate::abi;

/// A queue pair as its peer knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    pub(crate) number: u32,
    pub(crate) gid: abi::Gid,
}

/// The private data of a Request: the caller and the called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) from: End,
    /// The number of the queue pair that is called.
    pub(crate) to: u32,
}

impl Hello {
    /// The size in octets.
    pub(crate) const LEN: usize = MARK.len() + 4 + 4 + 16;

    pub(crate) fn emit(&self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        let (mark, rest) = octets.split_at_mut(MARK.len());
        mark.copy_from_slice(MARK);
        rest[..4].copy_from_slice(&self.to.to_be_bytes());
        rest[4..8].copy_from_slice(&self.from.number.to_be_bytes());
        rest[8..].copy_from_slice(&self.from.gid);
        octets
    }

    /// Returns None unless a Weft of this version has written the octets.
    pub(crate) fn parse(octets: &[u8]) -> Option<Self> {
        let (to, rest) = octets.strip_prefix(MARK)?.split_first_chunk()?;
        let (number, gid) = rest.split_first_chunk()?;
        let from = End { number: u32::from_be_bytes(*number), gid: gid.try_into().ok()? };
        Some(Self { from, to: u32::from_be_bytes(*to) })
    }
}

/// Contains the version.
const MARK: &[u8] = b"weft-rc1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_is_read_back_and_other_octets_are_refused() {
        let hello = Hello { from: End { number: 0x80_1234, gid: [7; 16] }, to: 0xAB_CDEF };
        let octets = hello.emit();
        assert_eq!(Hello::parse(&octets), Some(hello));
        for len in 0..octets.len() {
            assert_eq!(Hello::parse(&octets[..len]), None, "{len} octets");
        }
        assert_eq!(Hello::parse(&[octets.as_slice(), &[0]].concat()), None);
        let mut other = octets;
        other[7] = b'2';
        assert_eq!(Hello::parse(&other), None);
    }
}
