//! The source of the octets of a message to send.

use bytes::Bytes;
use weft_ddp::Stag;
use weft_verbs::{Payload, Reach, Violation};

use super::PostError;

/// The octets of a message to send. The stream copies them straight into TCP's buffer when there is room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Octets that the stream keeps until they are sent.
    Octets(Bytes),
    /// Registered memory, read when the message is sent.
    Memory {
        /// The STag of the registration.
        stag: Stag,
        /// The tagged offset of the first octet.
        to: u64,
        /// The length in octets.
        len: u32,
    },
}

impl Source {
    /// Returns the length of the message in octets.
    ///
    /// # Errors
    /// [`PostError::TooLong`]: a message has at most 2^32 - 1 octets (RFC 5041 section 5.2).
    pub(super) fn message_len(&self) -> Result<u32, PostError> {
        match self {
            Self::Octets(octets) => u32::try_from(octets.len()).map_err(|_| PostError::TooLong),
            Self::Memory { len, .. } => Ok(*len),
        }
    }

    /// Checks that all octets can be read now.
    pub(super) fn check(&self, reach: Reach<'_>) -> Result<(), Violation> {
        match *self {
            Self::Memory { stag, to, len } if len > 0 => {
                let claim = reach.claim(stag, weft_verbs::Access::LOCAL_READ);
                reach.memory.check(claim, to, len as usize).map(|_| ())
            }
            Self::Octets(_) | Self::Memory { .. } => Ok(()),
        }
    }

    /// Fills the rest of a payload with the octets from `offset` on.
    pub(super) fn fill(
        &self,
        reach: Reach<'_>,
        offset: u32,
        payload: &mut Payload<'_>,
    ) -> Result<(), Violation> {
        let len = payload.left();
        match self {
            Self::Octets(octets) => {
                let start = offset as usize;
                payload.put(octets.get(start..start + len).ok_or(Violation::Bounds)?)
            }
            Self::Memory { stag, to, .. } => {
                reach.fetch(*stag, to.wrapping_add(u64::from(offset)), len, payload)
            }
        }
    }
}

impl From<Bytes> for Source {
    fn from(octets: Bytes) -> Self {
        Self::Octets(octets)
    }
}

impl From<Vec<u8>> for Source {
    fn from(octets: Vec<u8>) -> Self {
        Self::Octets(octets.into())
    }
}

impl From<&'static [u8]> for Source {
    fn from(octets: &'static [u8]) -> Self {
        Self::Octets(Bytes::from_static(octets))
    }
}

impl<const N: usize> From<&'static [u8; N]> for Source {
    fn from(octets: &'static [u8; N]) -> Self {
        Self::Octets(Bytes::from_static(octets))
    }
}
