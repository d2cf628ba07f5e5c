//! A call that moves octets of a direction in this library's hands.

use core::ffi::c_int;

use weft_sockets::end::NONBLOCKING;

use crate::ends::Stream;

/// A call of the program's on a direction whose gate is closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The descriptor.
    pub(crate) descriptor: c_int,
    /// Its end.
    pub(crate) stream: Stream,
    /// Those of `recv` or `send`.
    pub(crate) flags: c_int,
}

/// What a look at a direction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many octets were moved. More may be possible at once.
    Moved(usize),
    /// Nothing can be moved now.
    Nothing,
    /// The stream is at its end.
    End,
    /// The kernel's error.
    Failed(c_int),
}

impl Call {
    /// True if the call must not wait, as far as this library knows.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.has(libc::MSG_DONTWAIT) || self.stream.end.has(NONBLOCKING)
    }

    /// True if all of these flags were given.
    pub(crate) const fn has(&self, flags: c_int) -> bool {
        self.flags & flags == flags
    }
}
