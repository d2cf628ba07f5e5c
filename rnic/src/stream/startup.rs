//! What MPA's startup has in common for queue pairs and for streams without verbs (RFC 5044 section 7.1, RFC 6581
//! section 9). `weft-mpa` decides what the two frames mean. When to send one, and for how long to wait, is left to the
//! users: only queue pairs have a clock, a backlog, and a connection that outlives a rejection.

use bytes::Bytes;
use weft_mpa::{FrameKind, MAX_FRAME_LEN, Negotiated, StartupError, StartupFrame};
use weft_netif::{CloseCause, Llp, LlpState};

use crate::events::connection::ConnectFailure;

/// What the two ends have agreed on in MPA's startup (RFC 5044 section 7.1.2, RFC 6581 section 9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// CRC, Markers, IRD, ORD, and how the stream begins.
    pub negotiated: Negotiated,
    /// This end has sent the Request, and sends first.
    pub initiator: bool,
    /// The IRD and ORD in the peer's frame, if it told them.
    pub peer_depths: Option<(u16, u16)>,
    /// The private data of the peer's frame.
    pub private_data: Bytes,
}

/// Whether TCP's handshake is over.
pub(crate) fn is_open(llp: &Llp<'_>) -> Result<bool, ConnectFailure> {
    match llp.state() {
        LlpState::Connecting => Ok(false),
        LlpState::Established | LlpState::PeerClosed => Ok(true),
        LlpState::Closed | LlpState::Reset => Err(match llp.cause() {
            Some(CloseCause::Refused) => ConnectFailure::Refused,
            Some(CloseCause::TimedOut) => ConnectFailure::TimedOut,
            Some(CloseCause::Graceful | CloseCause::Reset) => ConnectFailure::Closed,
            // Only a device that is shut down or has no memory gives up a connection that opens.
            Some(CloseCause::Unreachable | CloseCause::Aborted) | None => ConnectFailure::Unreachable,
        }),
    }
}

/// The octets of a frame of our own.
pub(crate) fn octets(frame: &StartupFrame<'_>) -> Result<Vec<u8>, StartupError> {
    let mut octets = vec![0; MAX_FRAME_LEN];
    let len = frame.emit(&mut octets)?;
    octets.truncate(len);
    Ok(octets)
}

/// Takes octets off TCP until the peer's frame is whole, and not one more: what follows belongs to the stream.
pub(crate) fn receive<'f>(
    frame: &'f mut Vec<u8>,
    llp: &mut Llp<'_>,
    kind: FrameKind,
) -> Result<Option<StartupFrame<'f>>, ConnectFailure> {
    let malformed = |error: StartupError| ConnectFailure::Protocol(error.into());
    while StartupFrame::parse(kind, frame).map_err(malformed)?.is_none() {
        let octets = llp.readable();
        if octets.is_empty() {
            return match llp.state() {
                LlpState::Connecting | LlpState::Established => Ok(None),
                LlpState::PeerClosed | LlpState::Closed | LlpState::Reset => Err(ConnectFailure::Closed),
            };
        }
        let taken = missing(frame).clamp(1, octets.len().max(1));
        frame.extend_from_slice(&octets[..taken]);
        llp.consume(taken);
    }
    Ok(StartupFrame::parse(kind, frame).map_err(malformed)?.map(|(frame, _)| frame))
}

/// The octets that a frame lacks, as far as its beginning tells.
fn missing(frame: &[u8]) -> usize {
    let private =
        frame.get(HEADER_LEN - 2..HEADER_LEN).map_or(0, |len| usize::from(len[0]) << 8 | usize::from(len[1]));
    (HEADER_LEN + private).saturating_sub(frame.len())
}

const HEADER_LEN: usize = 20;
