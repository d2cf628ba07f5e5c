//! One arrived segment.

use crate::{Error, Header};

/// A DDP segment: its header and the payload that follows, borrowed from the ULPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Where the payload belongs.
    pub header: Header,
    /// The octets to place; may be empty.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Splits a ULPDU into header and payload. The only errors are those that make the header unreadable: a wrong
    /// version or too few octets. [`Receiver::accept`](crate::Receiver::accept) checks order and queues.
    #[inline]
    pub fn parse(ulpdu: &'a [u8]) -> Result<Self, Error> {
        let header = Header::parse(ulpdu)?;
        // The parse above succeeded, so the header's octets are there.
        Ok(Self { header, payload: &ulpdu[header.len()..] })
    }
}
