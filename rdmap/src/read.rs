//! The Read Request header.

use weft_ddp::Stag;

use crate::Error;

/// An RDMA Read Request (RFC 5040 section 4.4). "Sink" is the buffer of the requester, "source" that of the
/// responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadRequest {
    /// The requester's buffer. The responder only copies it into the response.
    pub sink_stag: Stag,
    /// The offset at which the response starts.
    pub sink_to: u64,
    /// Octets to read.
    pub size: u32,
    /// Buffer to read from.
    pub source_stag: Stag,
    /// Offset there.
    pub source_to: u64,
}

impl ReadRequest {
    /// The octets of the header, which is the whole message.
    pub const LEN: usize = 28;

    /// Reads the message. Another length is [`Error::StreamCatastrophic`], as no code fits better.
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        let octets: &[u8; Self::LEN] = octets.try_into().map_err(|_| Error::StreamCatastrophic)?;
        let [k0, k1, k2, k3, sink @ .., n0, n1, n2, n3, r0, r1, r2, r3, t0, t1, t2, t3, t4, t5, t6, t7] =
            *octets;
        Ok(Self {
            sink_stag: Stag(u32::from_be_bytes([k0, k1, k2, k3])),
            sink_to: u64::from_be_bytes(sink),
            size: u32::from_be_bytes([n0, n1, n2, n3]),
            source_stag: Stag(u32::from_be_bytes([r0, r1, r2, r3])),
            source_to: u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
        })
    }

    /// Returns the header's octets.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets[0..4].copy_from_slice(&self.sink_stag.0.to_be_bytes());
        octets[4..12].copy_from_slice(&self.sink_to.to_be_bytes());
        octets[12..16].copy_from_slice(&self.size.to_be_bytes());
        octets[16..20].copy_from_slice(&self.source_stag.0.to_be_bytes());
        octets[20..28].copy_from_slice(&self.source_to.to_be_bytes());
        octets
    }

    /// Returns the request for the rest after `sent` octets: both offsets moved on, the size reduced.
    #[must_use]
    pub const fn moved_on(&self, sent: u32) -> Self {
        Self {
            sink_stag: self.sink_stag,
            sink_to: self.sink_to.wrapping_add(sent as u64),
            size: self.size.saturating_sub(sent),
            source_stag: self.source_stag,
            source_to: self.source_to.wrapping_add(sent as u64),
        }
    }
}
