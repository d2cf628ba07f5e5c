//! Immediate Data.

use crate::Error;

/// The 8 octets of an Immediate Data message, which RDMAP does not interpret (RFC 7306 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Immediate(pub [u8; 8]);

impl Immediate {
    /// The octets of the message.
    pub const LEN: usize = 8;

    /// Reads the message. Another length is [`Error::StreamCatastrophic`].
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        octets.try_into().map(Self).map_err(|_| Error::StreamCatastrophic)
    }

    /// Returns the message's octets.
    pub const fn emit(&self) -> [u8; Self::LEN] {
        self.0
    }
}
