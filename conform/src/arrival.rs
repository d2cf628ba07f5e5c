//! What a connection brings, or why there is none.

use std::fmt;

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialError {
    /// The target's host answered that no program listens there.
    Refused,
    /// No answer came in time.
    Silent,
    /// It cannot work, in words.
    Impossible(String),
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("nobody listens there (the connection was refused)"),
            Self::Silent => f.write_str("no answer to the TCP connection in time: is the host there?"),
            Self::Impossible(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for DialError {}

/// What a receive on a connection brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Octets(Vec<u8>),
    /// The target closed its direction; everything before it was read.
    Fin,
    /// The connection was reset.
    Reset,
    /// Nothing until the deadline.
    Nothing,
}
