//! Why a stream ends before its time, and what the peer is told.

use weft_rdmap::Terminate;
use weft_verbs::{Refusal, Status};

/// The end of a stream: the cause, and the Terminate that the peer gets, if any.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) terminate: Terminate,
}

/// The layer that found the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// MPA: framing, Markers, CRC, startup.
    Mpa(weft_mpa::Error),
    /// DDP or RDMAP: the peer broke a rule or asked for memory it may not touch.
    Peer(weft_rdmap::Error),
    /// Our own request or memory was not in order.
    Local(Status),
    /// A completion queue overran.
    CompletionQueueOverrun,
}

impl Failure {
    pub(crate) fn mpa(error: weft_mpa::Error) -> Self {
        Self { cause: Cause::Mpa(error), terminate: Terminate::new(LAYER_LLP, 0x0, error.code()) }
    }

    /// The segment in `ulpdu` is to blame; its headers go into the Terminate.
    pub(crate) fn peer(error: weft_rdmap::Error, ulpdu: Option<&[u8]>) -> Self {
        Self { cause: Cause::Peer(error), terminate: Terminate::from_error(&error, ulpdu) }
    }

    pub(crate) fn refused(refusal: Refusal, ulpdu: Option<&[u8]>) -> Self {
        match refusal {
            Refusal::Peer(error) => Self::peer(error, ulpdu),
            Refusal::Local(status) => Self::local(Cause::Local(status)),
        }
    }

    /// The peer is not to blame, and learns only that it is over (RDMAP Local Catastrophic Error).
    pub(crate) fn local(cause: Cause) -> Self {
        let error = weft_rdmap::Error::LocalCatastrophic;
        Self { cause, terminate: Terminate::from_error(&error, None) }
    }
}

impl core::fmt::Display for Cause {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Mpa(error) => write!(f, "MPA: {error}"),
            Self::Peer(error) => write!(f, "the peer's segment was refused: {error}"),
            Self::Local(status) => write!(f, "a local request failed: {status}"),
            Self::CompletionQueueOverrun => f.write_str("a completion queue overran"),
        }
    }
}

const LAYER_LLP: u8 = 0x2;
