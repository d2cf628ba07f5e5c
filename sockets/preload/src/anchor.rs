//! The kernel's socket below a direction that goes by a ring: it tells of the other end's death, and nothing else.

use core::ffi::{c_int, c_short};
use core::sync::atomic::Ordering;

use libc::{POLLERR, POLLHUP, POLLIN, POLLRDHUP, pollfd};
use weft_sockets::Reason;
use weft_sockets::end::{BROKEN, DEAD, NEWS};

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

/// Returns what a poll of the kernel's socket tells: its end, errors, octets. It takes no error away.
pub(crate) fn news(descriptor: c_int) -> c_short {
    let mut item = [pollfd { fd: descriptor, events: POLLIN | POLLRDHUP, revents: 0 }];
    calls::look(&mut item);
    item[0].revents
}

/// True if the kernel's socket has an error to tell.
pub(crate) fn has_failed(descriptor: c_int) -> bool {
    news(descriptor) & POLLERR != 0
}

/// True if the kernel's socket neither receives nor sends any more. Of a socket that nobody has shut down, a reset is the
/// reason, which was told already.
pub(crate) fn is_over(descriptor: c_int) -> bool {
    news(descriptor) & POLLHUP != 0
}

/// Asks the kernel's socket. An error is taken away by that: the program has to hear of it now.
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

/// As [`look`], past octets that nobody has taken: the end or the failure behind them counts.
pub(crate) fn look_beyond(descriptor: c_int) -> Anchor {
    match look(descriptor) {
        Anchor::Foreign => {}
        found => return found,
    }
    let news = news(descriptor);
    match (news & POLLERR != 0).then(|| take_error(descriptor)).flatten() {
        Some(error) => Anchor::Failed(error),
        None if news & POLLRDHUP != 0 => Anchor::Ended,
        None => Anchor::Foreign,
    }
}

/// Notes that the kernel's socket has told a wait something.
pub(crate) fn note_news(stream: &Stream) {
    stream.end.inbound.flags.fetch_or(NEWS, Ordering::Relaxed);
}

/// Forgets that, because the kernel's socket is asked now.
pub(crate) fn forget_news(stream: &Stream) {
    if has_news(stream) {
        stream.end.inbound.flags.fetch_and(!NEWS, Ordering::Relaxed);
    }
}

/// True if the kernel's socket has told something, and was not asked since.
pub(crate) fn has_news(stream: &Stream) -> bool {
    stream.end.inbound.flags.load(Ordering::Relaxed) & NEWS != 0
}

/// Notes that the program has heard of the connection's failure, which the kernel tells once.
pub(crate) fn bury(stream: &Stream) {
    stream.end.inbound.flags.fetch_or(DEAD, Ordering::Relaxed);
}

/// True if the program has heard of the connection's failure.
pub(crate) fn is_dead(stream: &Stream) -> bool {
    stream.end.inbound.flags.load(Ordering::Relaxed) & DEAD != 0
}

/// Ends a connection whose other end broke a rule of the link. Returns the error that the program gets.
pub(crate) fn break_off(descriptor: c_int, stream: &Stream) -> c_int {
    stream.end.note(Reason::Peer);
    stream.end.inbound.flags.fetch_or(BROKEN, Ordering::Relaxed);
    calls::reset(descriptor);
    libc::ECONNRESET
}

/// Returns the answer for a receive that the kernel has answered so. Behind a [break](break_off) the kernel tells of a reset
/// once, and then that there is no connection. On TCP the stream has ended then.
pub(crate) fn answer_behind_break(stream: &Stream, answer: isize) -> isize {
    if answer == -(libc::ENOTCONN as isize) && is_broken(stream) { 0 } else { answer }
}

/// Takes the error that the kernel's socket has to tell.
pub(crate) fn take_error(descriptor: c_int) -> Option<c_int> {
    calls::number(descriptor, libc::SOL_SOCKET, libc::SO_ERROR).ok().filter(|error| *error > 0)
}

/// True if the connection was reset because its other end broke a rule.
pub(crate) fn is_broken(stream: &Stream) -> bool {
    stream.end.inbound.flags.load(Ordering::Relaxed) & BROKEN != 0
}

/// Returns the octets that a receive waits for at least.
pub(crate) fn low_water(descriptor: c_int) -> usize {
    let number = calls::number(descriptor, libc::SOL_SOCKET, libc::SO_RCVLOWAT);
    number.ok().and_then(|number| usize::try_from(number).ok()).unwrap_or(1)
}
