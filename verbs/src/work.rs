//! Work requests, as `ibv_send_wr` and `ibv_recv_wr` name their parts.

use weft_ddp::Stag;

/// A scatter-gather element: a piece of registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sge {
    /// The tagged offset of the first octet; the address, unless the memory was registered with another iova.
    pub addr: u64,
    /// Octets.
    pub length: u32,
    /// The STag of the memory region.
    pub lkey: Stag,
}

/// A request for the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWr<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// What to do.
    pub opcode: SendOpcode,
    /// Where the data is, or for a Read where it is to go.
    pub data: Data<'a>,
    /// Make a completion even if the queue pair signals only what asks for it.
    pub signaled: bool,
    /// Start only when all Reads posted before have completed (RFC 5040 section 5.5).
    pub fence: bool,
    /// Send kinds only: ask the peer for an event.
    pub solicited: bool,
}

/// The local side of a request for the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// Registered memory, read (or for an RDMA Read written) when the engine gets to it.
    Sges(&'a [Sge]),
    /// Octets that are copied into the queue when posted: the caller may reuse them at once. Not for Reads.
    Inline(&'a [u8]),
}

/// The operations of the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOpcode {
    /// Send to the peer's receive queue.
    Send,
    /// Send, and invalidate the peer's STag when it has arrived.
    SendInvalidate {
        /// The peer's STag.
        stag: Stag,
    },
    /// Write into the peer's memory.
    Write {
        /// The peer's STag.
        stag: Stag,
        /// The tagged offset in the peer's memory.
        to: u64,
    },
    /// Read from the peer's memory.
    Read {
        /// The peer's STag.
        stag: Stag,
        /// The tagged offset in the peer's memory.
        to: u64,
    },
}

/// A request for the receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvWr<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// Where a message is to go.
    pub sges: &'a [Sge],
}

/// Why a request cannot be posted. Nothing was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The queue holds as many requests as it can.
    QueueFull,
    /// More scatter-gather elements than the queue was made for.
    TooManySges,
    /// More inline octets than the queue was made for.
    InlineTooLong,
    /// The message would be longer than 2^32 - 1 octets.
    TooLong,
    /// Inline data with a Read, or Solicited Event with anything but a Send.
    BadFlags,
    /// The state of the queue pair does not allow it.
    InvalidState,
}

impl core::fmt::Display for PostError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::QueueFull => "the work queue is full: poll completions first",
            Self::TooManySges => "more scatter-gather elements than the queue pair was created for",
            Self::InlineTooLong => "more inline data than the queue pair was created for",
            Self::TooLong => "a message has at most 2^32 - 1 octets",
            Self::BadFlags => "this flag does not go with this operation",
            Self::InvalidState => "the state of the queue pair does not allow posting",
        })
    }
}

impl core::error::Error for PostError {}

/// The most scatter-gather elements that a queue can be made for.
pub const MAX_SGE: usize = 32;
/// The most inline octets that a queue can be made for.
pub const MAX_INLINE: usize = 1024;
