//! The errors that DDP finds in an arriving segment.

use core::{error, fmt};

/// The error cases of RFC 5041 section 7.2, and their numbers in a Terminate message.
///
/// DDP's own [`Receiver`](crate::Receiver) raises those that a header shows. The owner of the memory raises those
/// that need the buffer (STag, bounds, length). So all of them have DDP's names and numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// A local failure that no input caused.
    LocalCatastrophic,
    /// The ULPDU is shorter than the DDP header that it starts with. The RFCs assign no code, so it is reported as a
    /// local catastrophe, which carries no headers.
    Runt,
    /// The STag of a tagged segment names no buffer that this stream may place into.
    InvalidStag,
    /// A tagged segment leaves the range of offsets registered for its STag.
    BaseOrBounds,
    /// The STag exists, but belongs to another stream or protection domain.
    WrongStream,
    /// Tagged offset plus payload length exceeds 64 bits.
    ToWrap,
    /// The version of a tagged segment is not 1.
    TaggedVersion,
    /// The queue number is not one that this stream uses.
    InvalidQueue,
    /// No untagged buffer is posted for this message.
    NoBuffer,
    /// The message sequence number repeats or skips one.
    MsnRange,
    /// The message offset is not the one that continues the message.
    InvalidMo,
    /// The untagged message is longer than its buffer, or than the 2^32 - 1 octets that any message may have.
    TooLong,
    /// The version of an untagged segment is not 1.
    UntaggedVersion,
}

impl Error {
    /// Returns error type and error code of a Terminate message; the layer is 1.
    pub const fn code(&self) -> (u8, u8) {
        match self {
            Self::LocalCatastrophic | Self::Runt => (0x0, 0x00),
            Self::InvalidStag => (0x1, 0x00),
            Self::BaseOrBounds => (0x1, 0x01),
            Self::WrongStream => (0x1, 0x02),
            Self::ToWrap => (0x1, 0x03),
            Self::TaggedVersion => (0x1, 0x04),
            Self::InvalidQueue => (0x2, 0x01),
            Self::NoBuffer => (0x2, 0x02),
            Self::MsnRange => (0x2, 0x03),
            Self::InvalidMo => (0x2, 0x04),
            Self::TooLong => (0x2, 0x05),
            Self::UntaggedVersion => (0x2, 0x06),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LocalCatastrophic => "local catastrophic DDP error",
            Self::Runt => "segment shorter than its DDP header",
            Self::InvalidStag => "STag is not valid for placement",
            Self::BaseOrBounds => "tagged offset outside the buffer",
            Self::WrongStream => "STag belongs to another stream",
            Self::ToWrap => "tagged offset wraps",
            Self::TaggedVersion => "tagged segment of a DDP version other than 1",
            Self::InvalidQueue => "queue number not in use",
            Self::NoBuffer => "no buffer for the untagged message",
            Self::MsnRange => "message sequence number out of order",
            Self::InvalidMo => "message offset does not continue the message",
            Self::TooLong => "untagged message too long for its buffer",
            Self::UntaggedVersion => "untagged segment of a DDP version other than 1",
        })
    }
}

impl error::Error for Error {}
