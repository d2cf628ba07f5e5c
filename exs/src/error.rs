//! Why a call fails, or an operation ends without success.

use core::fmt;
use std::io;

use rustix::io::Errno;
use weft_exs_core::{Fault, OpError, RejectCode};
use weft_rnic::{CmError, ConnectFailure, CreateError, RegisterError};

/// Why a call fails, or an operation ends without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// An option is out of its limits.
    InvalidOption(&'static str),
    /// The range is not within the buffer.
    Range,
    /// The memory belongs to another context.
    ForeignMemory,
    /// As many operations of this direction are under way as a socket takes, or as many events are reserved as the
    /// queue has. Take some and try again.
    Full,
    /// An operation has at most 2^32 - 1 octets.
    MessageSize,
    /// The peer has rejected the connection: a peer without EXS if it gives no reason.
    Refused(Option<RejectCode>),
    /// The connection did not come about.
    Connect(ConnectFailure),
    /// The device cannot connect or listen there.
    Address(CmError),
    /// The time of the operation is over, or TCP gave up.
    TimedOut,
    /// This side sends nothing more, or the peer takes nothing more.
    Shutdown,
    /// The user has canceled the operation, or has closed the socket.
    Canceled,
    /// The peer or the network has ended the connection.
    Reset,
    /// One of the sides has broken the protocol.
    Protocol(Fault),
    /// Memory cannot be registered.
    Memory(RegisterError),
    /// The device has no more queues.
    Device(CreateError),
    /// The system has no descriptor, thread or memory left.
    System(Errno),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidOption(name) => write!(f, "the option {name} is out of its limits"),
            Self::Range => f.write_str("the range is not within the buffer"),
            Self::ForeignMemory => f.write_str("the memory belongs to another context"),
            Self::Full => f.write_str("too many operations are under way: wait for one and try again"),
            Self::MessageSize => f.write_str("an operation has at most 2^32 - 1 octets"),
            Self::Refused(Some(code)) => write!(f, "the peer has rejected the connection: {code}"),
            Self::Refused(None) => f.write_str("the peer does not speak EXS"),
            Self::Connect(failure) => failure.fmt(f),
            Self::Address(error) => error.fmt(f),
            Self::TimedOut => OpError::TimedOut.fmt(f),
            Self::Shutdown => OpError::Shutdown.fmt(f),
            Self::Canceled => OpError::Canceled.fmt(f),
            Self::Reset => OpError::Reset.fmt(f),
            Self::Protocol(fault) => OpError::Protocol(*fault).fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::System(errno) => errno.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

impl From<OpError> for Error {
    fn from(error: OpError) -> Self {
        match error {
            OpError::Canceled => Self::Canceled,
            OpError::TimedOut => Self::TimedOut,
            OpError::Shutdown => Self::Shutdown,
            OpError::Reset => Self::Reset,
            OpError::Protocol(fault) => Self::Protocol(fault),
        }
    }
}

impl From<RegisterError> for Error {
    fn from(error: RegisterError) -> Self {
        Self::Memory(error)
    }
}

impl From<CreateError> for Error {
    fn from(error: CreateError) -> Self {
        Self::Device(error)
    }
}

impl From<CmError> for Error {
    fn from(error: CmError) -> Self {
        Self::Address(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        // Errors that are not the system's have no number.
        Self::System(error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}
