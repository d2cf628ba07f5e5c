//! What becomes of a connection.

use crate::{Received, Segment};

/// What an arriving segment, or the time, has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// What became of the payload.
    pub received: Received,
    /// An RST for the peer that belongs to no connection. It goes at once.
    pub reply: Option<Segment>,
    /// How many octets the peer has newly acknowledged.
    pub acked: u32,
    /// The connection is established.
    pub opened: bool,
    /// The connection is closed.
    pub closed: Option<Cause>,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Both sides have closed it and know that.
    Finished,
    /// The peer has refused it.
    Refused,
    /// The peer has reset it.
    Reset,
    /// The user has given it up.
    Aborted,
    /// The peer did not answer.
    TimedOut,
    /// ICMP says that there is no way to the peer, before the connection was established.
    Unreachable,
}
