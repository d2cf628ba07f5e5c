//! How far a connection has come, and how it ended.

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlpState {
    /// The peer has not answered yet.
    Connecting,
    /// The peer may send. This holds after [`Llp::shutdown`](crate::Llp::shutdown), too, until the peer has sent its
    /// FIN.
    Established,
    /// The peer's FIN has come. What it sent before may be unread yet. This side may send.
    PeerClosed,
    /// Both sides have closed, and neither lost anything.
    Closed,
    /// The connection ended by RST, timeout, an abort or the end of the wire; [`Llp::cause`](crate::Llp::cause) says
    /// which. What had arrived before can be read.
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
    /// No way leads to the peer: the wire has lost its other end or, on `host`, the kernel or a router says so.
    Unreachable,
    /// The peer left something unanswered for the configured timeout.
    TimedOut,
    /// This side gave the connection up.
    Aborted,
}
