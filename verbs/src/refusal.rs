//! Why a segment or a request ends the stream, and which side is to blame.

use crate::completion::Status;

/// Why a received segment or a segment to send ends the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The peer broke a rule: it gets a Terminate.
    Peer(weft_rdmap::Error),
    /// Our own side cannot go on; the peer is not to blame.
    Local(Status),
}

/// Something in the queue pair's own requests is wrong: the request has completed with its status, and the stream must
/// end without blame on the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalFault(pub Status);

impl From<LocalFault> for Refusal {
    fn from(fault: LocalFault) -> Self {
        Self::Local(fault.0)
    }
}
