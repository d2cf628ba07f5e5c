//! A Terminate of the target, read as RFC 5040 section 4.8 writes it.

use std::fmt;

/// A Terminate Message without its DDP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terminate {
    /// Layer and type, code, M, D and R with reserved bits, reserved.
    pub(crate) control: [u8; 4],
    /// DDP Segment Length and the returned headers.
    pub(crate) rest: Vec<u8>,
}

impl Terminate {
    /// Returns the Terminate in `ulpdu`, or `None` for another message.
    pub(crate) fn parse(ulpdu: &[u8]) -> Option<Self> {
        let (header, payload) = ulpdu.split_at_checked(DDP_HEADER_LEN)?;
        let (control, rest) = payload.split_first_chunk()?;
        let is_terminate = header[0] & 0x80 == 0 && header[1] & 0x0F == 7;
        is_terminate.then(|| Self { control: *control, rest: rest.to_vec() })
    }

    /// Returns layer and type in one octet, and the code in the next.
    pub(crate) const fn code(&self) -> [u8; 2] {
        [self.control[0], self.control[1]]
    }

    /// Returns M, D and R in the three high bits.
    pub(crate) const fn header_bits(&self) -> u8 {
        self.control[2] & 0xE0
    }
}

/// Shows the octets unchanged, so that they can be compared with a capture.
impl fmt::Display for Terminate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Terminate")?;
        self.control.iter().try_for_each(|octet| write!(f, " {octet:02X}"))?;
        if !self.rest.is_empty() {
            f.write_str(" ")?;
        }
        self.rest.iter().try_for_each(|octet| write!(f, "{octet:02X}"))
    }
}

const DDP_HEADER_LEN: usize = 18;
