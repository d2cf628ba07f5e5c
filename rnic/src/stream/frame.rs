//! Startup frames on TCP, octet for octet.

use weft_mpa::{FrameKind, MAX_PRIVATE_DATA, Offer, StartupError, StartupFrame};
use weft_netif::{Llp, LlpState};

/// How much of a startup frame has come.
pub(crate) enum Arrival {
    /// Not all of it.
    Partial,
    /// All of it.
    Whole,
    /// It is malformed.
    Bad(StartupError),
    /// The peer has gone before it was whole.
    Gone,
}

/// Takes octets off TCP until the frame in `frame` is whole, and not one more: what follows belongs to the stream.
pub(crate) fn receive(frame: &mut Vec<u8>, llp: &mut Llp<'_>, kind: FrameKind) -> Arrival {
    loop {
        match StartupFrame::parse(kind, frame) {
            Ok(Some(_)) => return Arrival::Whole,
            Ok(None) => {}
            Err(error) => return Arrival::Bad(error),
        }
        let octets = llp.readable();
        if octets.is_empty() {
            return match llp.state() {
                LlpState::Connecting | LlpState::Established => Arrival::Partial,
                LlpState::PeerClosed | LlpState::Closed | LlpState::Reset => Arrival::Gone,
            };
        }
        let taken = missing(frame).clamp(1, octets.len().max(1));
        frame.extend_from_slice(&octets[..taken]);
        llp.consume(taken);
    }
}

/// Octets of the Reply to `offer`, whether it accepts or rejects.
pub(crate) const fn reply_len(offer: &Offer, private_data: &[u8]) -> Result<usize, StartupError> {
    let enhanced = if offer.peer_ird.is_some() { ENHANCED_LEN } else { 0 };
    let (len, max) = (private_data.len(), MAX_PRIVATE_DATA - enhanced);
    if len > max {
        Err(StartupError::PrivateDataTooLong { len, max })
    } else {
        Ok(HEADER_LEN + enhanced + len)
    }
}

/// The octets that a frame lacks, as far as its beginning tells.
fn missing(frame: &[u8]) -> usize {
    let private =
        frame.get(HEADER_LEN - 2..HEADER_LEN).map_or(0, |len| usize::from(len[0]) << 8 | usize::from(len[1]));
    (HEADER_LEN + private).saturating_sub(frame.len())
}

const HEADER_LEN: usize = 20;
/// IRD and ORD take the first octets of the private data (RFC 6581 section 9).
const ENHANCED_LEN: usize = 4;
