//! Operations of the user, and how they end.

use core::fmt;
use core::time::Duration;

use weft_ddp::Stag;

use crate::fault::Fault;

/// An operation: a name that the caller chooses. No two operations of a socket that are under way have the same name,
/// whatever their direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Op(pub u64);

/// An operation that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SendRequest {
    /// The name.
    pub op: Op,
    /// Octets. They stay as they are until the operation has completed.
    pub len: u32,
    /// Pieces of memory in which they lie, of which a request gathers 31 at most. Of a stream only.
    pub elements: u8,
    /// The STag that the operation's window will have when it is bound. Not used if the octets are immediate data, or
    /// of a stream.
    pub stag: Stag,
    /// The tagged offset of the first octet in that window.
    pub to: u64,
    /// When the operation ends with [`OpError::TimedOut`].
    pub deadline: Option<Duration>,
}

/// An operation that receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecvRequest {
    /// The name.
    pub op: Op,
    /// Octets of the user's memory.
    pub len: u32,
    /// Immediate data is not copied, but handed out in its slot. Of messages only.
    pub is_in_place: bool,
    /// It completes when it is full. Of a stream only.
    pub waits_for_all: bool,
    /// The STag that the operation's window will have when it is first bound; then it has the following keys. Of a
    /// stream only.
    pub stag: Stag,
    /// The tagged offset of the first octet in that window.
    pub to: u64,
    /// When the operation ends with [`OpError::TimedOut`], unless a message has come for it.
    pub deadline: Option<Duration>,
}

/// How an operation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// Octets of the message in the receiver's memory.
    pub octets: u32,
    /// Octets of the message. The receiver's memory may have been shorter; then the rest is gone.
    pub message_len: u32,
    /// The way that the octets took.
    pub mode: Mode,
}

/// The way that the octets of an operation took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// They were immediate data; of a stream, at least a part of them, and none was in the ring.
    Inline,
    /// They are immediate data, and lie behind the header in this slot until it is recycled.
    InPlace {
        /// The slot.
        slot: u16,
    },
    /// The receiver has read them from the sender's memory.
    Read,
    /// Of a stream: the sender has written them into the receiver's memory.
    Direct,
    /// Of a stream: at least a part of them went through the receiver's ring.
    Ring,
    /// They went over TCP alone, and were copied once on each side.
    Plain,
    /// There were none: the peer sends nothing more, or this side receives nothing more.
    End,
}

/// Why an operation was refused, or has ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpError {
    /// The user has canceled it, or closed the socket.
    Canceled,
    /// Its time is over, or the connection's.
    TimedOut,
    /// This side has said that it sends nothing more, or the peer that it takes nothing more.
    Shutdown,
    /// The peer or the network has ended the connection.
    Reset,
    /// One of the sides has broken the protocol.
    Protocol(Fault),
}

impl Outcome {
    /// The outcome of a receive for which nothing comes.
    pub const END: Self = Self { octets: 0, message_len: 0, mode: Mode::End };

    /// Returns whether octets of the message are gone, since the receiver's memory was too short.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.octets < self.message_len
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Canceled => f.write_str("canceled"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Shutdown => f.write_str("the socket is shut down"),
            Self::Reset => f.write_str("connection reset"),
            Self::Protocol(fault) => write!(f, "protocol error: {fault}"),
        }
    }
}

impl core::error::Error for OpError {}
