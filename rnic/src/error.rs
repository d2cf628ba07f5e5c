//! Why calls of the API refuse. A call that refuses has changed nothing.

use weft_netif::{ConnectError, ListenError};
use weft_verbs::Errno;

/// Why an object cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// The device holds as many queue pairs as its settings allow.
    TooManyQps,
    /// The device holds as many completion queues as its settings allow.
    TooManyCqs,
    /// The device holds as many shared receive queues as its settings allow.
    TooManySrqs,
    /// More than a queue or a request can hold.
    TooLarge {
        /// Of what.
        what: &'static str,
        /// The number asked for.
        wanted: usize,
        /// The largest number.
        max: usize,
    },
    /// One of the objects given belongs to another device.
    ForeignObject,
    /// The shared receive queue belongs to another protection domain.
    WrongPd,
    /// There are fewer engines than that.
    NoSuchEngine {
        /// The engine asked for.
        comp_vector: usize,
        /// How many there are.
        engines: usize,
    },
    /// The completion queues belong to different engines.
    DifferentEngines,
    /// The device was shut down.
    ShutDown,
}

impl CreateError {
    /// What `ibv_create_qp`, `ibv_create_cq` and `ibv_create_srq` would leave in `errno`.
    pub const fn errno(&self) -> Errno {
        match self {
            Self::TooManyQps | Self::TooManyCqs | Self::TooManySrqs => Errno::NoMem,
            Self::ShutDown => Errno::NoDev,
            Self::TooLarge { .. }
            | Self::ForeignObject
            | Self::WrongPd
            | Self::NoSuchEngine { .. }
            | Self::DifferentEngines => Errno::Inval,
        }
    }
}

impl core::fmt::Display for CreateError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooManyQps => {
                f.write_str("the device holds as many queue pairs as it can: raise max_qps or destroy some")
            }
            Self::TooManyCqs => f.write_str(
                "the device holds as many completion queues as it can: raise max_cqs or drop some",
            ),
            Self::TooManySrqs => f.write_str(
                "the device holds as many shared receive queues as it can: raise max_srqs or drop some",
            ),
            Self::TooLarge { what, wanted, max } => write!(f, "{wanted} {what} are too many: at most {max}"),
            Self::ForeignObject => f.write_str("the objects belong to different devices"),
            Self::WrongPd => f.write_str(
                "the shared receive queue belongs to another protection domain than the queue pair",
            ),
            Self::NoSuchEngine { comp_vector, engines } => {
                write!(f, "there is no completion vector {comp_vector}: the device has {engines}, from 0")
            }
            Self::ShutDown => f.write_str("the device was shut down"),
            Self::DifferentEngines => {
                f.write_str("the completion queues belong to different engines: make both on one vector")
            }
        }
    }
}

impl core::error::Error for CreateError {}

/// Why an object cannot be changed. Nothing was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyError {
    /// More than the queue can hold.
    TooLarge {
        /// Of what.
        what: &'static str,
        /// The largest number.
        max: usize,
    },
    /// More requests are posted than the new size could hold.
    TooSmall,
    /// The state does not allow it.
    InvalidState,
}

impl ModifyError {
    /// What `ibv_modify_qp` and `ibv_modify_srq` would answer.
    pub const fn errno(&self) -> Errno {
        match self {
            Self::TooLarge { .. } | Self::TooSmall | Self::InvalidState => Errno::Inval,
        }
    }
}

impl core::fmt::Display for ModifyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooLarge { what, max } => write!(f, "too many {what}: at most {max}"),
            Self::TooSmall => f.write_str("more requests are posted than the new size could hold"),
            Self::InvalidState => f.write_str("the state of the queue pair does not allow the change"),
        }
    }
}

impl core::error::Error for ModifyError {}

/// Why an object cannot be destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestroyError {
    /// Other objects use it.
    Busy,
}

impl DestroyError {
    /// What `ibv_destroy_srq` would answer.
    pub const fn errno(&self) -> Errno {
        match self {
            Self::Busy => Errno::Busy,
        }
    }
}

impl core::fmt::Display for DestroyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("other objects use it: destroy those first")
    }
}

impl core::error::Error for DestroyError {}

/// Why a call of connection management cannot be carried out. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmError {
    /// The port cannot be listened on.
    Listen(ListenError),
    /// The address cannot be connected to.
    Connect(ConnectError),
    /// The device was shut down.
    ShutDown,
    /// The queue pair is connected, connecting, or has been.
    QpBusy,
    /// A completion queue of the queue pair has overrun, so that no connection of it could last.
    CompletionQueueOverrun,
    /// The queue pair has no connection.
    NotConnected,
    /// The queue pair or the channel is another device's.
    ForeignObject,
    /// The request was answered already, or the peer has gone.
    RequestGone,
    /// A larger IRD or ORD than the device's `max_reads`.
    TooManyReads {
        /// The depth asked for.
        wanted: u16,
        /// The largest depth.
        max: u16,
    },
    /// More private data than the startup frame takes.
    PrivateDataTooLong {
        /// Octets given.
        len: usize,
        /// Octets allowed.
        max: usize,
    },
    /// The connection's streaming mode does not allow it.
    Stream(StreamError),
}

impl core::fmt::Display for CmError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Listen(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
            Self::ShutDown => f.write_str("the device was shut down"),
            Self::QpBusy => f.write_str("the queue pair is not idle: a connection needs a fresh one"),
            Self::CompletionQueueOverrun => {
                f.write_str("a completion queue of the queue pair has overrun: make a larger one")
            }
            Self::ForeignObject => f.write_str("the queue pair or event channel belongs to another device"),
            Self::NotConnected => f.write_str("the queue pair has no connection"),
            Self::RequestGone => {
                f.write_str("the connect request was answered already, or the peer has gone")
            }
            Self::TooManyReads { wanted, max } => {
                write!(f, "a depth of {wanted} Reads is too large: at most {max}")
            }
            Self::PrivateDataTooLong { len, max } => {
                write!(f, "{len} octets of private data are too many: at most {max}")
            }
            Self::Stream(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for CmError {}

impl From<StreamError> for CmError {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

/// Why a connection cannot be used in streaming mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// TCP's handshake is not over yet.
    NotOpen,
    /// MPA has been started: the octets in both directions are MPA's, until it is rejected.
    MpaStarted,
    /// The peer has closed its direction, and everything it sent before has been received.
    Finished,
    /// The connection is over.
    Closed,
    /// Octets of streaming mode are unread. An Initiator would take them for the Reply.
    Unread,
    /// A message that has to be sent in one piece does not fit into the send buffer now.
    NoRoom {
        /// Octets to send.
        needed: usize,
    },
}

impl core::fmt::Display for StreamError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotOpen => f.write_str("the TCP connection is not open yet"),
            Self::MpaStarted => f.write_str("the connection is not in streaming mode: MPA has been started"),
            Self::Finished => f.write_str("the peer has closed its direction"),
            Self::Closed => f.write_str("the TCP connection is over"),
            Self::Unread => {
                f.write_str("octets of streaming mode are unread: receive them before MPA starts")
            }
            Self::NoRoom { needed } => write!(f, "the send buffer has no room for {needed} octets now"),
        }
    }
}

impl core::error::Error for StreamError {}

/// Refuses more than `max` of `what`.
pub(crate) const fn check_size(what: &'static str, wanted: usize, max: usize) -> Result<(), CreateError> {
    if wanted > max { Err(CreateError::TooLarge { what, wanted, max }) } else { Ok(()) }
}

/// Requests of the largest work queue.
pub(crate) const MAX_WR: usize = 1 << 16;
