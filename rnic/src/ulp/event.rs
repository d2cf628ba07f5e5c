//! What happens on a stream of a ULP.

use core::ops::Range;

use weft_ddp::Stag;
use weft_rdmap::Terminate;
use weft_verbs::Status;

use super::DdpError;
use crate::failure::Cause;

/// What has happened on a [`DdpStream`](super::DdpStream).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DdpEvent {
    /// A message of ours is in TCP: its octets may be changed.
    Sent {
        /// The number that its sender gave it.
        id: u64,
    },
    /// A message of ours was not sent, or not as a whole.
    Unsent {
        /// The number that its sender gave it.
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
        /// What the peer's ULP has set: RsvdULP, in the order of the wire.
        rsvd: [u8; 5],
        /// The buffer, as long as the message.
        buffer: Vec<u8>,
    },
    /// The last segment of a tagged message was placed; all of it is there.
    Tagged {
        /// The buffer of ours that the peer named. It means nothing when the range is empty.
        stag: Stag,
        /// The tagged offsets that were written.
        to: Range<u64>,
        /// What the peer's ULP has set: RsvdULP.
        rsvd: u8,
    },
    /// A posted buffer that no message will come into.
    Returned {
        /// The number of the buffer.
        id: u64,
        /// The queue.
        queue: u32,
        /// The buffer, with what may have come of a message that never ended.
        buffer: Vec<u8>,
    },
    /// The peer has closed its direction, between two messages or inside one. This end may send on (RFC 5041 section
    /// 6.2.1).
    PeerClosed,
    /// A fatal error: nothing more is taken in. The ULP may still send, and has to close the stream.
    Failed(DdpError),
    /// The stream is over; nothing comes after this.
    Closed,
}

/// What has happened on an [`RdmapStream`](super::RdmapStream).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RdmapEvent {
    /// A request of ours has ended.
    Completed {
        /// The number that the ULP gave it.
        id: u64,
        /// How. [`Status::WorkRequestFlushed`] when the stream ended before.
        status: Status,
        /// What memory held before, of an Atomic.
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
        /// The STag of ours that the peer has taken out of use.
        invalidated: Option<Stag>,
    },
    /// Immediate Data has come (RFC 7306 section 6).
    Immediate {
        /// The number of the buffer that it has taken.
        id: u64,
        /// That buffer, empty.
        buffer: Vec<u8>,
        /// The octets.
        data: [u8; 8],
        /// The peer asks for an event.
        solicited: bool,
    },
    /// A posted buffer that nothing will come into.
    Returned {
        /// The number of the buffer.
        id: u64,
        /// The buffer, with what may have come of a message that never ended.
        buffer: Vec<u8>,
    },
    /// The peer has closed the stream gracefully. What it still asked for is answered.
    PeerClosed,
    /// The peer has ended the stream by a Terminate.
    Terminated(Terminate),
    /// This end has ended the stream, or TCP has lost it ([`weft_mpa::Error::Closed`]).
    Failed(Cause),
    /// The stream is over; nothing comes after this.
    Closed,
}
