//! What a receiver has to be done on its own side.

use super::Way;
use crate::op::Op;

/// What has to be done on this side, without a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Local {
    /// The window over this receive is taken out of use. From then on no Write of the peer reaches it.
    Unbind {
        /// The receive.
        op: Op,
    },
    /// Octets are copied.
    Copy {
        /// Where the first one is.
        from: Place,
        /// Where it goes.
        to: Place,
        /// Octets, at least 1.
        len: u32,
    },
    /// A receive completes. Its window, if it had one, is out of use.
    Done(Received),
}

/// An octet of this side's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Of the immediate data behind the last message.
    Slot {
        /// The number of the octet, from 0 on.
        at: u32,
    },
    /// Of the ring.
    Ring {
        /// The number of the octet, from 0 on.
        at: u32,
    },
    /// Of a receive.
    Receive {
        /// The receive.
        op: Op,
        /// The number of the octet, from 0 on.
        at: u32,
    },
}

/// A receive that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Received {
    /// The receive.
    pub op: Op,
    /// Octets that it holds. 0 of a receive that has room and is not canceled: nothing more comes.
    pub octets: u32,
    /// It was canceled, and holds nothing. A canceled receive that holds octets ends as any other.
    pub is_canceled: bool,
    /// How the octets came.
    pub way: Way,
}
