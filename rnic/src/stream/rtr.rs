//! The message by which an initiator says that it is ready to receive, in the peer-to-peer start (RFC 6581 section
//! 9), and the one by which it asks a silent peer to look.

use weft_ddp::Stag;
use weft_mpa::{RtrKind, Start};
use weft_rdmap::{Inbound, Kind, Message, SendEnd, Token};

/// What the first message of the peer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// Any message.
    Any,
    /// Any message, or an empty Send that only says "ready to receive".
    MaybeRtr,
}

impl First {
    pub(crate) const fn of(start: Start) -> Self {
        match start {
            Start::ExpectRtr(kinds) if kinds.send => Self::MaybeRtr,
            _ => Self::Any,
        }
    }
}

/// The empty message of that kind.
pub(crate) const fn message(kind: RtrKind) -> Message {
    let (stag, to) = (RTR_STAG, 0);
    let kind = match kind {
        RtrKind::Send => Kind::Send { solicited: false, invalidate: None },
        RtrKind::Write => Kind::Write { stag, to },
        RtrKind::Read => Kind::Read { sink_stag: stag, sink_to: to, source_stag: stag, source_to: to },
    };
    Message { token: RTR, len: 0, kind }
}

/// Whether a segment can be the Send that only says "ready to receive".
pub(crate) const fn is_send(inbound: &Inbound<'_>) -> bool {
    matches!(inbound, Inbound::Send { payload: [], last: Some(SendEnd { invalidate: None, .. }), .. })
}

/// The RTR message belongs to no work request. No queue pair counts this far.
const RTR: Token = Token(u64::MAX);
/// Some adapters treat STag 0 specially even where no STag is checked.
const RTR_STAG: Stag = Stag(1);
