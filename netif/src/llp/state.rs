//! The state of a connection, and how it ended.

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlpState {
    /// The peer has not answered yet.
    Connecting,
    /// The peer may send. This holds after [`Llp::shutdown`](crate::Llp::shutdown), too, until the peer has sent its
    /// FIN.
    Established,
    /// The peer's FIN has come. Octets before it may be unread yet. This side may send.
    PeerClosed,
    /// Both sides have closed, and no octet was lost.
    Closed,
    /// The connection ended by RST, timeout, an abort or the end of the wire. [`Llp::cause`](crate::Llp::cause) tells
    /// which. Octets that arrived before can be read.
    Reset,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseCause {
    /// Both sides sent FIN and had it acknowledged.
    Graceful,
    /// The peer answered the SYN with RST, as it does for a port that is not listened on.
    Refused,
    /// The peer sent RST.
    Reset,
    /// No way leads to the peer: the wire has lost its other end, or on `host` the kernel or a router says so.
    Unreachable,
    /// The peer left data or a probe unanswered for the configured timeout.
    TimedOut,
    /// This side gave the connection up.
    Aborted,
}
