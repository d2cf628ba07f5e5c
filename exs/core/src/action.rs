//! What a session wants to have done.

use weft_ddp::Stag;

use crate::fault::Fault;
use crate::message::Message;
use crate::op::{Op, OpError, Outcome};

/// Something to be done. The caller does all of them in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Post a receive with this slot.
    Recv {
        /// The slot.
        slot: u16,
    },
    /// Bind the operation's window over its memory, for the peer's Reads. Its completion is told to the session.
    Bind {
        /// The operation.
        op: Op,
    },
    /// Send a message.
    Send(Outgoing),
    /// Read from the peer's memory to the start of the operation's memory. Its completion is told to the session.
    Read {
        /// The operation.
        op: Op,
        /// Octets.
        len: u32,
        /// The STag of the source.
        stag: Stag,
        /// The tagged offset of its first octet.
        to: u64,
    },
    /// Bind the operation's window over a part of its memory, for the peer's Writes. Its completion is not told.
    BindPart {
        /// The operation.
        op: Op,
        /// The first octet.
        at: u32,
        /// Octets.
        len: u32,
        /// The STag that the window gets. Its tagged offsets begin where the operation's do, with the first octet of
        /// its memory.
        stag: Stag,
    },
    /// These octets of the operation's memory are the next ones of the Write or of the message that follows.
    Gather {
        /// The operation.
        op: Op,
        /// The first octet.
        at: u32,
        /// Octets.
        len: u32,
    },
    /// Write the octets that were gathered to the peer's memory. Its completion is not told: a Send follows.
    Write {
        /// The STag of the sink.
        stag: Stag,
        /// The tagged offset of the first octet.
        to: u64,
        /// Octets.
        len: u32,
    },
    /// Copy octets from one place to another.
    Copy {
        /// The place of the first octet.
        from: Place,
        /// Where it goes.
        to: Place,
        /// Octets.
        len: u32,
    },
    /// Take the operation's window out of use, at once, and what is posted to bind it.
    Revoke {
        /// The operation.
        op: Op,
    },
    /// The operation has ended. Its memory is the user's again.
    Complete {
        /// The operation.
        op: Op,
        /// How it has ended.
        result: Result<Outcome, OpError>,
    },
    /// The connection ends. Nothing more is posted: the caller closes the connection behind what was, if it is not
    /// gone, and tells the completions of all that was posted for operations, flushed or not.
    End {
        /// Why.
        cause: Cause,
        /// What is sent before, if the send queue has room for it.
        abort: Option<Message>,
    },
    /// The socket is closed: no operation is left. [`Session::closed`](crate::Session::closed) tells how.
    Closed,
}

/// The place of an octet on this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Behind the header in a slot.
    Slot {
        /// The slot.
        slot: u16,
        /// The number of the octet behind the header, from 0 on.
        at: u32,
    },
    /// In this side's ring.
    Ring {
        /// The number of the octet, from 0 on.
        at: u32,
    },
    /// In an operation's memory.
    Memory {
        /// The operation.
        op: Op,
        /// The number of the octet, from 0 on.
        at: u32,
    },
}

/// A message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outgoing {
    /// The message.
    pub message: Message,
    /// The octets of this operation's memory follow as immediate data. Those of a stream have been gathered.
    pub payload: Option<Op>,
    /// The STag that the peer's device takes out of use: Send with Invalidate.
    pub invalidate: Option<Stag>,
    /// The operation of which the session wants to hear that the Send has completed.
    pub op: Option<Op>,
}

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Both sides have shut down, and all is done.
    Closed,
    /// This side was closed with unread data, or at once.
    Abandoned,
    /// The peer or the network has ended it.
    Reset,
    /// TCP gave up, or this side has waited long enough: for a send, or for the end of a close.
    TimedOut,
    /// The peer has broken the protocol.
    Fault(Fault),
    /// The peer says that this side has broken the protocol.
    Blamed(Fault),
}

impl Cause {
    /// Returns how an operation ends that is under way.
    #[must_use]
    pub const fn error(self) -> OpError {
        match self {
            Self::Closed => OpError::Shutdown,
            Self::Abandoned => OpError::Canceled,
            Self::Reset => OpError::Reset,
            Self::TimedOut => OpError::TimedOut,
            Self::Fault(fault) | Self::Blamed(fault) => OpError::Protocol(fault),
        }
    }
}
