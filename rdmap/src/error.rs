//! The errors that RDMAP finds, and their numbers in a Terminate message.

use core::{error, fmt};

use weft_ddp as ddp;

/// The error cases of RFC 5040 section 4.8 (figure 9), and those of the DDP layer below.
///
/// The protection errors here are those of a Read Request's source and of an invalidation. A Write or Read Response
/// that misses its buffer is a [`ddp::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The DDP segment is wrong, or its buffer does not take it.
    Ddp(ddp::Error),
    /// The source STag of a Read Request names no buffer.
    InvalidStag,
    /// A Read Request leaves the bounds of its source.
    BaseOrBounds,
    /// The buffer does not grant the right that the operation needs.
    AccessRights,
    /// The STag belongs to another stream or protection domain.
    WrongStream,
    /// Source offset plus size exceeds 64 bits.
    ToWrap,
    /// The STag to invalidate is unknown, shared, or of another stream.
    CannotInvalidate,
    /// A protection error that no other case names.
    RemoteProtection,
    /// The RDMAP version is not 1.
    InvalidVersion,
    /// The opcode is unknown, is in the wrong kind of segment or on the wrong queue, or answers no request.
    UnexpectedOpcode,
    /// An error that ends this stream only. Also a fixed-length message of a wrong length.
    StreamCatastrophic,
    /// An error that affects more than this stream.
    GlobalCatastrophic,
    /// An operation error that no other case names.
    RemoteOperation,
    /// A local failure that no input caused.
    LocalCatastrophic,
}

impl Error {
    /// Returns layer, error type and error code of a Terminate message.
    pub const fn code(&self) -> (u8, u8, u8) {
        match self {
            Self::Ddp(error) => {
                let (etype, code) = error.code();
                (0x1, etype, code)
            }
            Self::LocalCatastrophic => (0x0, 0x0, 0x00),
            Self::InvalidStag => (0x0, 0x1, 0x00),
            Self::BaseOrBounds => (0x0, 0x1, 0x01),
            Self::AccessRights => (0x0, 0x1, 0x02),
            Self::WrongStream => (0x0, 0x1, 0x03),
            Self::ToWrap => (0x0, 0x1, 0x04),
            Self::CannotInvalidate => (0x0, 0x1, 0x09),
            Self::RemoteProtection => (0x0, 0x1, 0xFF),
            Self::InvalidVersion => (0x0, 0x2, 0x05),
            Self::UnexpectedOpcode => (0x0, 0x2, 0x06),
            Self::StreamCatastrophic => (0x0, 0x2, 0x07),
            Self::GlobalCatastrophic => (0x0, 0x2, 0x08),
            Self::RemoteOperation => (0x0, 0x2, 0xFF),
        }
    }
}

impl From<ddp::Error> for Error {
    fn from(error: ddp::Error) -> Self {
        Self::Ddp(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ddp(error) => return error.fmt(f),
            Self::LocalCatastrophic => "local catastrophic RDMAP error",
            Self::InvalidStag => "source STag of a Read Request is not valid",
            Self::BaseOrBounds => "Read Request outside its source buffer",
            Self::AccessRights => "buffer does not grant the right needed",
            Self::WrongStream => "STag belongs to another stream",
            Self::ToWrap => "source offset of a Read Request wraps",
            Self::CannotInvalidate => "STag cannot be invalidated",
            Self::RemoteProtection => "protection error",
            Self::InvalidVersion => "RDMAP version other than 1",
            Self::UnexpectedOpcode => "unexpected RDMAP opcode",
            Self::StreamCatastrophic => "malformed RDMAP message",
            Self::GlobalCatastrophic => "catastrophic RDMAP error beyond this stream",
            Self::RemoteOperation => "RDMAP operation error",
        })
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Ddp(error) => Some(error),
            _ => None,
        }
    }
}

/// The endpoint cannot start this message now. Another message is in progress, the peer allows no more outstanding
/// Reads, or the stream is terminating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream cannot start another message now")
    }
}

impl error::Error for Busy {}
