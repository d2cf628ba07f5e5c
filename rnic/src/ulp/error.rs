//! Errors of the ULP's own calls. Such a call changes nothing.

use weft_mpa::StartupError;

/// The reason why a stream refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The message is longer than 2^32 - 1 octets (RFC 5041 section 5.2).
    TooLong,
    /// The stream has no queue of that number.
    UnknownQueue,
    /// This direction of the stream is closed, or closing (RFC 5041 section 6.2.1).
    Closed,
    /// The request is a Read or an Atomic, and startup has agreed on an ORD of 0.
    NoReads,
}

impl core::fmt::Display for PostError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::TooLong => "a message has at most 2^32 - 1 octets",
            Self::UnknownQueue => "the stream has no queue of that number",
            Self::Closed => "this direction of the stream is closed",
            Self::NoReads => "startup has agreed on no outstanding Reads and Atomics",
        })
    }
}

impl core::error::Error for PostError {}

/// The reason why an answer to a Request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// No Request waits for an answer.
    NothingAsked,
    /// The Reply does not fit: too much private data.
    Frame(StartupError),
}

impl core::fmt::Display for AnswerError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NothingAsked => f.write_str("no Request waits for an answer"),
            Self::Frame(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AnswerError {}
