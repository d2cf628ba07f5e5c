//! Descriptors that go to another program: their connections go back to TCP before.

use core::ffi::c_int;

use rustix::net::sockopt::socket_cookie;
use weft_sockets::Reason;
use weft_sockets::end::{PASSED, Phase};
use weft_sockets::sync::Ordering;

use crate::{ends, guest, lower, real};

/// The program prepares a descriptor for a program that it is about to start.
///
/// A child closes what that program must not have before it starts it, this library's own descriptors with it. So its
/// connections go back to TCP now, as long as the other end can be woken.
pub(crate) fn prepare(descriptor: c_int) {
    if let Some(stream) = ends::known(descriptor)
        && stream.end.state().phase == Phase::Offered
    {
        lower::lower(descriptor, &stream, Reason::Exec);
    }
}

/// The program is about to start another one, which gets the standard descriptors.
pub(crate) fn start() {
    for descriptor in 0..3 {
        if !guest::is_guest() {
            prepare(descriptor);
        } else if let Ok(cookie) = socket_cookie(real::borrow(descriptor)) {
            // The table is the parent's, which has other files there.
            let has_cookie = |end: &ends::Stream| end.end.identity.cookie.load(Ordering::Relaxed) == cookie;
            ends::all().filter(|(_, stream)| has_cookie(stream)).take(1).for_each(|(_, stream)| {
                if stream.end.state().phase == Phase::Offered {
                    lower::lower(descriptor, &stream, Reason::Exec);
                }
            });
        }
    }
}

/// The program is about to pass a descriptor to another process.
pub(crate) fn pass(descriptor: c_int) {
    if let Some(stream) = ends::stream(descriptor) {
        stream.end.identity.flags.fetch_or(PASSED, Ordering::Relaxed);
        lower::lower(descriptor, &stream, Reason::Passed);
    }
}
