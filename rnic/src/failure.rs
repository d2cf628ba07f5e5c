//! Why a stream fails, and what the peer is told.

use weft_rdmap::{Opcode, Terminate};
use weft_verbs::{QpNotice, Refusal, Status};

/// The end of a stream: the cause, and the Terminate that the peer gets, if any.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) terminate: Terminate,
    /// The peer is blamed for a segment that was to answer a Read or Atomic of this side.
    pub(crate) is_in_answer: bool,
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
    /// The application asked for it, by [`crate::Qp::modify`].
    Requested,
}

/// The result of receiving octets: the peer's Terminate, if it was among them.
pub(crate) type Received = Result<Option<Terminate>, Failure>;

impl Failure {
    pub(crate) fn mpa(error: weft_mpa::Error) -> Self {
        let terminate = Terminate::new(LAYER_LLP, 0x0, error.code());
        Self { cause: Cause::Mpa(error), terminate, is_in_answer: false }
    }

    /// The segment in `ulpdu` is to blame; its headers go into the Terminate.
    pub(crate) fn peer(error: weft_rdmap::Error, ulpdu: Option<&[u8]>) -> Self {
        let terminate = Terminate::from_error(&error, ulpdu);
        Self { cause: Cause::Peer(error), terminate, is_in_answer: false }
    }

    /// RDMAP does not take the segment in `ulpdu`.
    pub(crate) fn unexpected(error: weft_rdmap::Error, ulpdu: &[u8]) -> Self {
        let opcode = ulpdu.get(1).and_then(|&control| Opcode::parse(control).ok());
        let is_in_answer = opcode.is_some_and(Opcode::is_response);
        Self { is_in_answer, ..Self::peer(error, Some(ulpdu)) }
    }

    pub(crate) fn refused(refusal: Refusal, ulpdu: Option<&[u8]>) -> Self {
        match refusal {
            Refusal::Peer(error) => Self::peer(error, ulpdu),
            Refusal::Local(status) => Self::local(Cause::Local(status)),
        }
    }

    /// The peer is not to blame, and learns only that the stream is over (RDMAP Local Catastrophic Error).
    pub(crate) fn local(cause: Cause) -> Self {
        let error = weft_rdmap::Error::LocalCatastrophic;
        Self { cause, terminate: Terminate::from_error(&error, None), is_in_answer: false }
    }
}

impl Cause {
    /// The asynchronous event of the queue pair that the cause makes.
    pub(crate) const fn notice(&self) -> Option<QpNotice> {
        Some(match self {
            Self::Requested => return None,
            Self::Mpa(_) => QpNotice::RequestError,
            // The protection errors of both layers have type 1 (RFC 5040 section 4.8).
            Self::Peer(error) => match error.code() {
                (_, 0x1, _) => QpNotice::AccessError,
                _ => QpNotice::RequestError,
            },
            Self::Local(_) | Self::CompletionQueueOverrun => QpNotice::Fatal,
        })
    }
}

impl core::fmt::Display for Cause {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Mpa(error) => write!(f, "MPA: {error}"),
            Self::Peer(error) => write!(f, "the peer's segment was refused: {error}"),
            Self::Local(status) => write!(f, "a local request failed: {status}"),
            Self::CompletionQueueOverrun => f.write_str("a completion queue overran"),
            Self::Requested => f.write_str("the application asked for it"),
        }
    }
}

/// How the request that a Terminate complains about ends (RFC 5040 section 4.8, RFC 5041 section 8.2).
pub(crate) fn status_of(terminate: &Terminate) -> Status {
    match (terminate.layer, terminate.etype, terminate.code) {
        // Protection errors: the peer's memory refuses.
        (0x0 | 0x1, 0x1, _) => Status::RemoteAccess,
        // No buffer is posted. Of a Read or Atomic it says that the peer's IRD was overrun.
        (0x1, 0x2, 0x02) if !terminate.names_request() => Status::RnrRetryExceeded,
        // Another error of the untagged buffer; a version or an opcode that the peer does not know.
        (0x1, 0x2, _) | (0x0, 0x2, 0x05 | 0x06) => Status::RemoteInvalidRequest,
        _ => Status::RemoteOperation,
    }
}

const LAYER_LLP: u8 = 0x2;
