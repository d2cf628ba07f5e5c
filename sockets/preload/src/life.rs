//! Which descriptors are streams, as they come and go.

use core::ffi::{c_int, c_long};
use core::sync::atomic::Ordering;

use weft_sockets::Reason;
use weft_sockets::end::{NARROW, WIDE};

use crate::boundary::answer_int;
use crate::{anchor, calls, channel, closing, ends, handover, lower, upgrade, wake};

/// A socket was made.
pub(crate) fn made(result: isize, domain: c_int, kind: c_int, protocol: c_int) {
    let descriptor = number(result);
    let is_tcp = matches!(domain, libc::AF_INET | libc::AF_INET6)
        && kind & 0xf == libc::SOCK_STREAM
        && matches!(protocol, 0 | libc::IPPROTO_TCP);
    if is_tcp {
        ends::enter_stream(descriptor, kind & libc::SOCK_NONBLOCK != 0);
    } else {
        ends::enter(descriptor);
    }
}

/// A listener gave out a socket.
pub(crate) fn accepted(listener: c_int, result: isize, flags: c_int) {
    if result < 0 {
        return;
    }
    if let Some(listener) = ends::stream(listener) {
        ends::enter_stream(number(result), flags & libc::SOCK_NONBLOCK != 0);
        if listener.end.has(NARROW) {
            narrowed(number(result));
        }
        if listener.end.has(WIDE) {
            widened(number(result));
        }
        upgrade::greet(number(result));
    } else {
        ends::enter(number(result));
    }
}

/// A socket was taken off its connection, and may be connected anew.
pub(crate) fn dissolved(descriptor: c_int) {
    if let Some(stream) = ends::known(descriptor) {
        stream.end.stay(Reason::Option);
    }
}

/// A descriptor is about to be put in the place of another one, which the kernel closes by that.
pub(crate) fn overwrite(from: c_int, to: c_int) {
    if from != to && ends::last(to).is_some() && calls::file_flags(from).is_ok() {
        closing::close(to);
    }
}

/// A descriptor was duplicated, if `result` is no error.
pub(crate) fn duplicated(from: c_int, result: isize) {
    let to = number(result);
    if to >= 0 && to != from {
        if to <= libc::STDERR_FILENO {
            handover::prepare(from);
        }
        closing::forget(to);
        ends::duplicate(from, to);
    }
}

/// A call of `fcntl` has returned.
pub(crate) fn controlled(descriptor: c_int, command: c_int, argument: c_long, result: isize) {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(descriptor, result),
        libc::F_SETFD if result == 0 && argument & c_long::from(libc::FD_CLOEXEC) == 0 => {
            handover::prepare(descriptor);
        }
        libc::F_SETFL if result == 0 => {
            set_nonblocking(descriptor, argument & c_long::from(libc::O_NONBLOCK) != 0);
        }
        _ => {}
    }
}

/// The program has made a descriptor block or not.
pub(crate) fn set_nonblocking(descriptor: c_int, is_nonblocking: bool) {
    if let Some(stream) = ends::known(descriptor) {
        stream.set_nonblocking(is_nonblocking);
    }
}

/// The program has heard of a failure from the kernel, which tells it once.
pub(crate) fn failed(descriptor: c_int) {
    if let Some(stream) = ends::known(descriptor).filter(|stream| channel::offered_inbound(stream).is_some())
    {
        anchor::bury(&stream);
    }
}

/// The program wants to receive more than an octet at a time.
pub(crate) fn narrowed(descriptor: c_int) {
    if let Some(stream) = ends::stream(descriptor) {
        stream.end.identity.flags.fetch_or(NARROW, Ordering::Relaxed);
    }
}

/// The program has asked for a buffer above 1 MiB.
pub(crate) fn widened(descriptor: c_int) {
    if let Some(stream) = ends::stream(descriptor) {
        stream.end.identity.flags.fetch_or(WIDE, Ordering::SeqCst);
        // A thread that attaches from now on finds the flag.
        if let Some(inbound) = channel::inbound(&stream) {
            inbound.want_wide();
            wake::tell_sender(&stream, &inbound);
        }
    }
}

/// The C library is about to use a descriptor for a stream of its own.
pub(crate) fn given_to_stdio(descriptor: c_int) {
    if let Some(stream) = ends::known(descriptor) {
        lower::lower(descriptor, &stream, Reason::Stdio);
    }
}

/// A descriptor of something other than a socket was made. Returns what the C library returns.
pub(crate) fn opened(result: isize) -> c_int {
    ends::enter(number(result));
    answer_int(result)
}

/// Returns the descriptor that a call gave out, or a negative number.
fn number(result: isize) -> c_int {
    c_int::try_from(result).unwrap_or(-1)
}
