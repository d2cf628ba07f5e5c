//! The types that RDMAP and its user exchange.

use heapless::Vec;
use weft_ddp::{Header, Stag};

use crate::{AtomicOp, AtomicRequest, AtomicResponse, Immediate, Opcode, ReadRequest, Terminate};

/// The octets of the longest message that is never cut into segments, without its DDP header.
pub const MAX_UNCUT: usize = Terminate::MAX_LEN;
/// The octets of the longest message that is never cut into segments, with its DDP header.
pub const MAX_UNCUT_ULPDU: usize = Header::UNTAGGED_LEN + MAX_UNCUT;

const _: () = {
    let others = [ReadRequest::LEN, AtomicRequest::LEN, AtomicResponse::LEN, Immediate::LEN];
    let mut index = 0;
    while index < others.len() {
        assert!(others[index] <= MAX_UNCUT, "MAX_UNCUT has to be the longest");
        index += 1;
    }
};

/// The owner's name for a message. RDMAP hands it back and never looks inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Token(pub u64);

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// RDMAP returns it when the message is done.
    pub token: Token,
    /// The octets to send, or for a Read to fetch. Immediate Data and Atomics have a length of their own.
    pub len: u32,
    /// The operation.
    pub kind: Kind,
}

/// The operations of RFC 5040 and RFC 7306 that a user can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Send to the next buffer that the peer posted.
    Send {
        /// Ask for an event at the peer.
        solicited: bool,
        /// A buffer of the peer, which it shall invalidate on delivery.
        invalidate: Option<Stag>,
    },
    /// Write into a buffer of the peer.
    Write {
        /// The peer's buffer.
        stag: Stag,
        /// Offset of the first octet there.
        to: u64,
    },
    /// Write into a buffer of the peer, and send it 8 octets of Immediate Data behind that, as [`Kind::Immediate`]
    /// does. These are two messages with no message between them, and they are done together (RFC 7306 section 6).
    WriteImmediate {
        /// The peer's buffer.
        stag: Stag,
        /// Offset of the first octet there.
        to: u64,
        /// Ask for an event at the peer.
        solicited: bool,
        /// The octets.
        data: Immediate,
    },
    /// Fetch from a buffer of the peer into one of ours.
    Read {
        /// Our buffer.
        sink_stag: Stag,
        /// Offset of the first octet there.
        sink_to: u64,
        /// The peer's buffer.
        source_stag: Stag,
        /// Offset of the first octet there.
        source_to: u64,
    },
    /// Send 8 octets to the peer, which take a posted receive there, like a Send.
    Immediate {
        /// Ask for an event at the peer.
        solicited: bool,
        /// The octets.
        data: Immediate,
    },
    /// Change 64 bits of a buffer of the peer, and fetch their former value.
    Atomic {
        /// The operation.
        op: AtomicOp,
        /// The peer's buffer.
        stag: Stag,
        /// Offset of the 8 octets there.
        to: u64,
    },
}

impl Kind {
    /// Returns the opcode of the message on the wire; of two messages that of the first.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Send { solicited: false, invalidate: None } => Opcode::Send,
            Self::Send { solicited: false, invalidate: Some(_) } => Opcode::SendInvalidate,
            Self::Send { solicited: true, invalidate: None } => Opcode::SendSolicited,
            Self::Send { solicited: true, invalidate: Some(_) } => Opcode::SendSolicitedInvalidate,
            Self::Write { .. } | Self::WriteImmediate { .. } => Opcode::Write,
            Self::Read { .. } => Opcode::ReadRequest,
            Self::Immediate { solicited: false, .. } => Opcode::Immediate,
            Self::Immediate { solicited: true, .. } => Opcode::ImmediateSolicited,
            Self::Atomic { .. } => Opcode::AtomicRequest,
        }
    }
}

/// One segment to build and send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    /// The DDP header to emit.
    pub header: Header,
    /// The source of the octets behind it.
    pub body: Body,
    /// The number of octets behind the header.
    pub len: usize,
    /// The Send, Write or Immediate Data whose last octet this is. A Read or Atomic is done when its response has
    /// come.
    pub finished: Option<Token>,
}

impl Outbound {
    /// Returns the octets of the whole ULPDU.
    pub const fn ulpdu_len(&self) -> usize {
        self.header.len() + self.len
    }
}

/// The source of a segment's octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The user's message, from this offset on.
    Message {
        /// Which message.
        token: Token,
        /// Offset of the first octet in it.
        offset: u32,
    },
    /// Registered memory that the peer asked to read.
    ReadResponse {
        /// Our buffer. A response without octets names any, and it need not exist.
        stag: Stag,
        /// Offset of the first octet there.
        to: u64,
    },
    /// An Atomic Response. The caller does the operation now. The segment's octets are an
    /// [`AtomicResponse`](crate::AtomicResponse) with this request's identifier and the former value. Each request is
    /// handed out once.
    AtomicResponse(AtomicRequest),
    /// A message of RDMAP's own: Read Request, Atomic Request, Immediate Data or Terminate.
    Inline(Vec<u8, MAX_UNCUT>),
}

/// What the caller has to do with an accepted segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound<'a> {
    /// Place into the posted receive that is first in line. With `last`, complete it.
    Send {
        /// Offset in the receive buffer.
        offset: u32,
        /// The octets to place.
        payload: &'a [u8],
        /// Set on the last segment.
        last: Option<SendEnd>,
    },
    /// Place into a registered buffer, if the peer may. With an empty `payload` nothing needs a check.
    Write {
        /// Our buffer.
        stag: Stag,
        /// Offset of the first octet there.
        to: u64,
        /// The octets to place.
        payload: &'a [u8],
        /// True on the last segment.
        last: bool,
    },
    /// The peer asks to read. The answer is queued already. The caller checks the source now, and calls
    /// [`Endpoint::terminate`](crate::Endpoint::terminate) if the peer may not read it. Size 0 needs no check.
    ReadRequest(ReadRequest),
    /// Place into the sink of our own Read. With `finished`, complete it. The octets are the next ones of the Read in
    /// order, and never more than it asked for.
    ReadResponse {
        /// The Read that this answers.
        token: Token,
        /// Our sink buffer.
        stag: Stag,
        /// Offset of the first octet there.
        to: u64,
        /// The octets to place.
        payload: &'a [u8],
        /// True when the Read has all the octets that it asked for.
        finished: bool,
    },
    /// Give these octets to the user, and complete the posted receive that is first in line. No octets are placed.
    Immediate {
        /// The octets.
        data: Immediate,
        /// The peer asks for an event.
        solicited: bool,
    },
    /// The peer asks for an Atomic. The answer is queued already. The caller checks now whether the peer may do it
    /// and whether the 8 octets are aligned. If not, it calls [`Endpoint::terminate`](crate::Endpoint::terminate).
    /// The operation itself is done when its answer is due ([`Body::AtomicResponse`]).
    AtomicRequest(AtomicRequest),
    /// The answer to an Atomic of ours, which is done.
    AtomicResponse {
        /// The Atomic that this answers.
        token: Token,
        /// The value before the operation.
        original: u64,
    },
    /// The peer found an error and ends the stream.
    Terminate(Terminate),
}

impl Inbound<'_> {
    /// Returns true if the message takes a posted receive.
    pub const fn takes_receive(&self) -> bool {
        match self {
            Self::Send { .. } | Self::Immediate { .. } => true,
            Self::Write { .. }
            | Self::ReadRequest(_)
            | Self::ReadResponse { .. }
            | Self::AtomicRequest(_)
            | Self::AtomicResponse { .. }
            | Self::Terminate(_) => false,
        }
    }
}

/// The facts about a whole Send that its last segment carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendEnd {
    /// The octets of the whole message.
    pub len: u32,
    /// The kind of Send.
    pub opcode: Opcode,
    /// The peer asks to invalidate this buffer of ours.
    pub invalidate: Option<Stag>,
}
