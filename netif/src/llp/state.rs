//! How far a connection has come, and how it ended.

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlpState {
    /// The peer has not answered yet.
    Connecting,
    /// The peer may send. So it is after [`Llp::shutdown`] too, as long as the peer has not sent its FIN.
    Established,
    /// The peer's FIN has come; what it sent before may be still unread. This side may send.
    PeerClosed,
    /// Both sides have closed, and neither lost anything.
    Closed,
    /// Ended by RST, timeout or an abort; [`Llp::cause`] says which. What had arrived before can be read.
    Reset,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseCause {
    /// Both sides sent FIN and had it acknowledged.
    Graceful,
    /// The peer answered the SYN with RST: nobody listens there.
    Refused,
    /// The peer sent RST.
    Reset,
    /// No way leads to the peer: the wire has lost its other end or, on `host`, the kernel or a router says so.
    Unreachable,
    /// The peer was silent for the configured timeout.
    TimedOut,
    /// This side gave the connection up.
    Aborted,
}
