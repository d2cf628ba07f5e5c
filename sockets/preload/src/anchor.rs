//! The kernel's socket below a direction that goes by a ring: it tells of the other end's death, and nothing else.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use weft_sockets::Reason;
use weft_sockets::end::{DEAD, FAILED};

use crate::calls;
use crate::ends::Stream;

/// What the kernel's socket says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The other end lives.
    Silent,
    /// The other end has ended the stream, or is dead.
    Ended,
    /// The connection failed. The kernel says so once.
    Failed(c_int),
    /// A process without this library wrote to it.
    Foreign,
}

/// Asks the kernel's socket.
pub(crate) fn look(descriptor: c_int) -> Anchor {
    match calls::peek(descriptor) {
        0 => Anchor::Ended,
        1.. => Anchor::Foreign,
        error => match c_int::try_from(-error).unwrap_or(libc::EIO) {
            libc::EAGAIN | libc::EINTR => Anchor::Silent,
            error => Anchor::Failed(error),
        },
    }
}

/// Notes that the program has heard of the connection's failure, which the kernel tells once.
pub(crate) fn bury(stream: &Stream) {
    stream.end.inbound.flags.fetch_or(DEAD, Ordering::Relaxed);
}

/// Notes a failure that the kernel has told, until the program hears of it.
pub(crate) fn remember(stream: &Stream) {
    stream.end.inbound.flags.fetch_or(FAILED, Ordering::Relaxed);
}

/// True if there is a failure that the program has not heard of. It hears of it now.
pub(crate) fn recall(stream: &Stream) -> bool {
    let flags = &stream.end.inbound.flags;
    flags.load(Ordering::Relaxed) & FAILED != 0 && flags.fetch_and(!FAILED, Ordering::Relaxed) & FAILED != 0
}

/// True if the program has heard of the connection's failure.
pub(crate) fn is_dead(stream: &Stream) -> bool {
    stream.end.inbound.flags.load(Ordering::Relaxed) & DEAD != 0
}

/// True if a descriptor still shows the socket of an end. The program may have closed it past the hooks.
pub(crate) fn is_of(descriptor: c_int, stream: &Stream) -> bool {
    let mut cookie = [0; 8];
    let asked = calls::option(descriptor, libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie);
    asked.is_ok() && u64::from_ne_bytes(cookie) == stream.end.identity.cookie.load(Ordering::Relaxed)
}

/// Ends a connection whose other end broke a rule of the link. Returns the error that the program gets.
pub(crate) fn break_off(descriptor: c_int, stream: &Stream) -> c_int {
    stream.end.note(Reason::Peer);
    calls::reset(descriptor);
    libc::ECONNRESET
}

/// Returns the octets that a receive waits for at least.
pub(crate) fn low_water(descriptor: c_int) -> usize {
    let number = calls::number(descriptor, libc::SOL_SOCKET, libc::SO_RCVLOWAT);
    number.ok().and_then(|number| usize::try_from(number).ok()).unwrap_or(1)
}
