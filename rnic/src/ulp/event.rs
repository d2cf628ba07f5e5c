//! The events of a stream of a ULP.

use core::ops::Range;

use weft_ddp::Stag;
use weft_rdmap::Terminate;
use weft_verbs::Status;

use super::DdpError;
use crate::failure::Cause;

/// An event of a [`DdpStream`](super::DdpStream).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DdpEvent {
    /// A message of this end is in TCP, so the ULP may change its octets.
    Sent {
        /// The number that the ULP gave the message.
        id: u64,
    },
    /// A message of this end was not sent, or only in part.
    Unsent {
        /// The number that the ULP gave the message.
        id: u64,
    },
    /// An untagged message has come.
    Untagged {
        /// The number of its buffer.
        id: u64,
        /// The queue.
        queue: u32,
        /// Its sequence number.
        msn: u32,
        /// RsvdULP, which the peer's ULP has set, in the order of the wire.
        rsvd: [u8; 5],
        /// The buffer, cut to the length of the message.
        buffer: Vec<u8>,
    },
    /// The last segment of a tagged message was placed, so the whole message is in memory.
    Tagged {
        /// The buffer of this end that the peer named. It has no meaning if the range is empty.
        stag: Stag,
        /// The tagged offsets that were written.
        to: Range<u64>,
        /// RsvdULP, which the peer's ULP has set.
        rsvd: u8,
    },
    /// A posted buffer gets no message any more.
    Returned {
        /// The number of the buffer.
        id: u64,
        /// The queue.
        queue: u32,
        /// The buffer. It may contain a part of an unfinished message.
        buffer: Vec<u8>,
    },
    /// The peer has closed its direction, between two messages or inside one. This end may still send (RFC 5041
    /// section 6.2.1).
    PeerClosed,
    /// A fatal error: the stream receives no more messages. The ULP may still send, and has to close the stream.
    Failed(DdpError),
    /// The stream is over; nothing comes after this.
    Closed,
}

/// An event of an [`RdmapStream`](super::RdmapStream).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RdmapEvent {
    /// A request of this end has ended.
    Completed {
        /// The number that the ULP gave it.
        id: u64,
        /// The result. [`Status::WorkRequestFlushed`] if the stream ended before.
        status: Status,
        /// For an Atomic: the original value of the peer's memory.
        original: Option<u64>,
    },
    /// A Send has come.
    Received {
        /// The number of its buffer.
        id: u64,
        /// The buffer, as long as the message.
        buffer: Vec<u8>,
        /// The peer asks for an event.
        solicited: bool,
        /// The STag of this end that the peer has invalidated.
        invalidated: Option<Stag>,
    },
    /// Immediate Data has come (RFC 7306 section 6).
    Immediate {
        /// The number of the buffer that the message consumed.
        id: u64,
        /// That buffer, empty.
        buffer: Vec<u8>,
        /// The octets.
        data: [u8; 8],
        /// The peer asks for an event.
        solicited: bool,
    },
    /// A posted buffer gets no message any more.
    Returned {
        /// The number of the buffer.
        id: u64,
        /// The buffer. It may contain a part of an unfinished message.
        buffer: Vec<u8>,
    },
    /// The peer has closed the stream gracefully. This end still answers the peer's earlier requests.
    PeerClosed,
    /// The peer has ended the stream by a Terminate.
    Terminated(Terminate),
    /// This end has ended the stream, or TCP has lost it ([`weft_mpa::Error::Closed`]).
    Failed(Cause),
    /// The stream is over; nothing comes after this.
    Closed,
}
