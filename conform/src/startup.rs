//! Startup frames, octet by octet.

use std::fmt;

/// A Request Frame, right or wrong as a check needs it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) key: [u8; 16],
    /// M, C, R, S and the reserved bits, M the highest.
    pub(crate) flags: u8,
    pub(crate) revision: u8,
    pub(crate) private_data: Vec<u8>,
    /// A wrong PD_Length; `None` for the right one.
    pub(crate) length: Option<u16>,
}

/// A frame that the target answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) key: [u8; 16],
    pub(crate) flags: u8,
    pub(crate) revision: u8,
    pub(crate) private_data: Vec<u8>,
}

impl Request {
    /// Revision 1, with CRC, without Markers.
    pub(crate) fn plain() -> Self {
        Self { key: *REQUEST_KEY, flags: C, revision: 1, private_data: Vec::new(), length: None }
    }

    /// Revision 2 with the two halves of RFC 6581 section 9, with bits A to D; with CRC, without Markers.
    pub(crate) fn enhanced(ird: u16, ord: u16) -> Self {
        let private_data = [ird.to_be_bytes(), ord.to_be_bytes()].concat();
        Self { flags: C | S, revision: 2, private_data, ..Self::plain() }
    }

    /// Returns the Request with more private data behind what it has.
    pub(crate) fn with_private_data(mut self, octets: &[u8]) -> Self {
        self.private_data.extend_from_slice(octets);
        self
    }

    pub(crate) fn emit(&self) -> Vec<u8> {
        let len = self.length.unwrap_or_else(|| u16::try_from(self.private_data.len()).unwrap_or(u16::MAX));
        [&self.key[..], &[self.flags, self.revision], &len.to_be_bytes(), &self.private_data].concat()
    }
}

impl Reply {
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the two halves of the enhanced data, if S announces it and it is there.
    pub(crate) fn enhanced(&self) -> Option<(u16, u16)> {
        let [a, b, c, d, ..] = self.private_data[..] else { return None };
        self.has(S).then_some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flags {:02X}, revision {}, private data ", self.flags, self.revision)?;
        self.private_data.iter().try_for_each(|octet| write!(f, "{octet:02X}"))?;
        write!(f, " ({} octets)", self.private_data.len())
    }
}

/// "MPA ID Req Frame"
pub(crate) const REQUEST_KEY: &[u8; 16] = b"MPA ID Req Frame";
/// "MPA ID Rep Frame"
pub(crate) const REPLY_KEY: &[u8; 16] = b"MPA ID Rep Frame";
pub(crate) const HEADER_LEN: usize = 20;
pub(crate) const MAX_PRIVATE_DATA: usize = 512;
/// The bits of the flags octet.
pub(crate) const M: u8 = 0x80;
pub(crate) const C: u8 = 0x40;
pub(crate) const R: u8 = 0x20;
pub(crate) const S: u8 = 0x10;
