//! What a dial or a receive on a connection can end with.

use std::fmt;

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialError {
    /// No program at the target's host listens on that port.
    Refused,
    /// No answer came in time.
    Silent,
    /// The attempt cannot succeed. The text says why.
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

/// What a receive on a connection returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Octets(Vec<u8>),
    /// The target closed its direction. All octets before the FIN have been read.
    Fin,
    /// The connection was reset.
    Reset,
    /// Nothing came before the deadline.
    Nothing,
}
