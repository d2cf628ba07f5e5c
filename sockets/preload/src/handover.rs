//! Descriptors that go to another program: their connections go back to TCP before.

use core::ffi::c_int;

use rustix::net::sockopt::socket_cookie;
use weft_sockets::Reason;
use weft_sockets::end::PASSED;
use weft_sockets::sync::Ordering;

use crate::{ends, family, guest, lower, real};

/// The program prepares a descriptor for a program that it is about to start.
///
/// A child closes what that program must not have before it starts it, this library's own descriptors with it. So its
/// connections go back to TCP now, as long as the other end can be woken. A claim is taken back: with it on its way, the
/// program's close would end the connection for the other program, too.
pub(crate) fn prepare(descriptor: c_int) {
    if let Some(stream) = ends::known(descriptor) {
        lower::lower(descriptor, &stream, Reason::Exec);
    }
}

/// The program is about to set an option. Some of them need the kernel's own stream.
pub(crate) fn set_option(descriptor: c_int, level: c_int, name: c_int) {
    if KERNELS.contains(&(level, name))
        && let Some(stream) = ends::known(descriptor)
    {
        lower::lower(descriptor, &stream, Reason::Option);
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
                lower::lower(descriptor, &stream, Reason::Exec);
            });
        }
    }
}

/// Makes a call by which another program takes this process over. If it does, its relatives reckon with it no more.
pub(crate) fn hand_over(exec: impl FnOnce() -> isize) -> isize {
    let family = family::family().filter(|_| !guest::is_guest());
    let departed = family.and_then(|family| Some((family, family.depart()?)));
    let result = exec();
    if let Some((family, started)) = departed {
        family.come_back(started);
    }
    result
}

/// The program is about to pass a descriptor to another process.
pub(crate) fn pass(descriptor: c_int) {
    if let Some(stream) = ends::stream(descriptor) {
        stream.end.identity.flags.fetch_or(PASSED, Ordering::Relaxed);
        lower::lower(descriptor, &stream, Reason::Passed);
    }
}

/// Options that concern the kernel's stream, and not only the connection.
const KERNELS: [(c_int, c_int); 13] = [
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
    (libc::SOL_SOCKET, NEW_STAMPS[0]),
    (libc::SOL_SOCKET, NEW_STAMPS[1]),
    (libc::SOL_SOCKET, NEW_STAMPS[2]),
    (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
    (libc::SOL_SOCKET, libc::SO_ATTACH_BPF),
    (libc::SOL_SOCKET, libc::SO_PEEK_OFF),
    (libc::IPPROTO_TCP, libc::TCP_REPAIR),
    (libc::IPPROTO_TCP, libc::TCP_ULP),
    (libc::IPPROTO_TCP, TCP_INQ),
];
/// `SO_TIMESTAMP`, `SO_TIMESTAMPNS` and `SO_TIMESTAMPING` with 64 bits of seconds.
const NEW_STAMPS: [c_int; 3] = [63, 64, 65];
const TCP_INQ: c_int = 36;
