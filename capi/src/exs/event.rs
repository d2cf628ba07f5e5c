//! What has ended, for the program.

use std::sync::Arc;

use weft_exs::{Buf, InPlace, Mode, Outcome, Ready, Received};

use super::memory::Memory;
use super::peer::Peer;

/// An operation that has ended.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    /// The number of the socket.
    pub(crate) socket: i32,
    /// The program's own number.
    pub(crate) handle: isize,
    /// 0, or the number of an error.
    pub(crate) error: i32,
    pub(crate) detail: Detail,
}

/// What was started: `EXS_EVT_...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Poll = 1,
    Connect = 2,
    Accept = 3,
    Send = 4,
    Receive = 5,
    SendMessage = 6,
    ReceiveMessage = 7,
    SendFile = 8,
    Shutdown = 9,
    Close = 10,
}

/// What else an event tells.
#[derive(Debug)]
pub(crate) enum Detail {
    None,
    Transfer {
        moved: Moved,
        places: Places,
        lent: Lent,
    },
    Poll(Ready),
    Accept {
        /// The new socket; none after an error.
        peer: Option<Peer>,
        /// The place for the peer's address, or 0.
        room: usize,
    },
}

/// What a transfer has moved.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) outcome: Outcome,
    /// The message, if it lies in the library's memory.
    pub(crate) in_place: Option<Box<InPlace>>,
}

/// The memory of the program, by addresses and lengths.
#[derive(Debug)]
pub(crate) struct Places(pub(crate) Vec<(usize, usize)>);

/// The memory of an operation, until the program takes the event.
#[derive(Debug)]
pub(crate) enum Lent {
    /// The program's.
    Memory(#[expect(dead_code, reason = "it is kept, and not used")] Arc<Memory>),
    /// Several pieces of the program's.
    Pieces(#[expect(dead_code, reason = "they are kept, and not used")] Vec<Arc<Memory>>),
    /// The library's: octets of a receive are copied to the program when it takes the event.
    Copy(Buf),
}

impl Places {
    pub(crate) fn one(address: usize, len: usize) -> Self {
        Self(vec![(address, len)])
    }
}

impl Kind {
    /// Returns the number.
    pub(crate) const fn number(self) -> i32 {
        self as i32
    }

    /// Returns the name of a number.
    pub(crate) const fn name(number: i32) -> &'static core::ffi::CStr {
        match number {
            1 => c"EXS_EVT_POLL",
            2 => c"EXS_EVT_CONNECT",
            3 => c"EXS_EVT_ACCEPT",
            4 => c"EXS_EVT_SEND",
            5 => c"EXS_EVT_RECV",
            6 => c"EXS_EVT_SENDMSG",
            7 => c"EXS_EVT_RECVMSG",
            8 => c"EXS_EVT_SENDFILE",
            9 => c"EXS_EVT_SHUTDOWN",
            10 => c"EXS_EVT_CLOSE",
            _ => c"no event",
        }
    }
}

impl Moved {
    pub(super) const NOTHING: Self =
        Self { outcome: Outcome { octets: 0, message_len: 0, mode: Mode::Inline }, in_place: None };
}

impl From<Outcome> for Moved {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, in_place: None }
    }
}

impl From<Received> for Moved {
    fn from(Received { outcome, in_place }: Received) -> Self {
        Self { outcome, in_place: in_place.map(Box::new) }
    }
}
