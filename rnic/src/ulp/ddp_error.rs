//! Fatal errors of a DDP stream, as they are reported to its ULP (RFC 5041 sections 6.2.2 and 7).

use weft_ddp::{Header, Segment};
use weft_netif::CloseCause;

/// A fatal error, after which a DDP stream receives no more messages.
///
/// DDP does not report the error to the peer, because it has no message for that. Until the ULP closes the stream it
/// may send a last message about the error. The peer's DDP sees an abort
/// ([`DdpStream::abort`](super::DdpStream::abort)) as a lost LLP stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DdpError {
    /// The cause.
    pub cause: DdpCause,
    /// The DDP header of the bad segment, if it has a readable one.
    pub header: Option<Header>,
    /// The length of that segment with its header, in octets.
    pub segment_len: Option<usize>,
}

/// The layer that found a fatal error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DdpCause {
    /// DDP: a segment of the peer breaks a rule, or this end cannot continue ([`weft_ddp::Error::LocalCatastrophic`]).
    Ddp(weft_ddp::Error),
    /// MPA: a CRC, a Marker, or the peer's FIN inside an FPDU.
    Mpa(weft_mpa::Error),
    /// TCP lost the connection, with the cause if TCP knows it.
    Lost(Option<CloseCause>),
}

impl DdpError {
    /// Returns error type and error code of RFC 5041 section 7.2. Type 3 is that of the LLP, with the codes of RFC 5044
    /// section 8.
    #[must_use]
    pub const fn code(&self) -> (u8, u8) {
        match &self.cause {
            DdpCause::Ddp(error) => error.code(),
            DdpCause::Mpa(error) => (LLP, error.code()),
            DdpCause::Lost(_) => (LLP, weft_mpa::Error::Closed.code()),
        }
    }

    /// Makes the error of the segment in `ulpdu`.
    pub(super) fn segment(error: weft_ddp::Error, ulpdu: &[u8]) -> Self {
        let header = Segment::parse(ulpdu).ok().map(|segment| segment.header);
        Self { cause: DdpCause::Ddp(error), header, segment_len: Some(ulpdu.len()) }
    }
}

impl From<DdpCause> for DdpError {
    fn from(cause: DdpCause) -> Self {
        Self { cause, header: None, segment_len: None }
    }
}

impl core::fmt::Display for DdpError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.cause {
            DdpCause::Ddp(error) => write!(f, "DDP: {error}"),
            DdpCause::Mpa(error) => write!(f, "MPA: {error}"),
            DdpCause::Lost(_) => f.write_str("the TCP connection is lost"),
        }
    }
}

impl core::error::Error for DdpError {}

/// Errors of the LLP (RFC 5041 section 7.2).
const LLP: u8 = 0x3;
