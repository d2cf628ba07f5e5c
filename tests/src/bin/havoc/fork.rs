//! Children that share the connections of their parent.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Forks. Returns the child's number, or `None` in the child.
pub(crate) fn fork() -> io::Result<Option<u32>> {
    // SAFETY: the child takes no lock that another thread of its parent may have: it allocates, which the C library
    // allows, it writes past the standard library's streams, and it starts no thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        child => Ok(Some(child.cast_unsigned())),
    }
}

/// Closes all descriptors up to `last` but the standard ones and these two, by the C library.
pub(crate) fn close_others(kept: [BorrowedFd<'_>; 2], last: u32) {
    let [a, b] = kept.map(|kept| kept.as_raw_fd().cast_unsigned());
    for (first, last) in [(3, a.min(b) - 1), (a.min(b) + 1, a.max(b) - 1), (a.max(b) + 1, last)] {
        if first <= last {
            // SAFETY: this child has only its two descriptors in use.
            unsafe { libc::close_range(first, last, 0) };
        }
    }
}

/// Waits for the end of a child.
pub(crate) fn wait(child: u32) {
    let mut status = 0;
    // SAFETY: the status is a local variable.
    unsafe { libc::waitpid(child.cast_signed(), &raw mut status, 0) };
}

/// Looks at the next octet without waiting, and leaves it there.
pub(crate) fn peek(socket: &std::net::TcpStream) {
    let mut octet = 0_u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the octet is a local variable. Nothing there is as good as something.
    unsafe { libc::recv(socket.as_raw_fd(), (&raw mut octet).cast(), 1, flags) };
}

/// Asks whether there is room, without waiting.
pub(crate) fn look_for_room(socket: &std::net::TcpStream) {
    let mut item = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: the item is a local variable.
    unsafe { libc::poll(&raw mut item, 1, 0) };
}

/// Waits until the socket is ready for one of `events`, or the pipe for a read. Returns what each is ready for.
pub(crate) fn wait_for(
    socket: &std::net::TcpStream,
    events: i16,
    pipe: Option<BorrowedFd<'_>>,
) -> io::Result<[i16; 2]> {
    let pipe = pipe.map_or(-1, |pipe| pipe.as_raw_fd());
    let item = |fd, events| libc::pollfd { fd, events, revents: 0 };
    let mut items = [item(socket.as_raw_fd(), events), item(pipe, libc::POLLIN)];
    // SAFETY: the items are a local variable.
    match unsafe { libc::poll(items.as_mut_ptr(), 2, -1) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(items.map(|item| item.revents)),
    }
}

/// Sends what there is room for, without waiting.
pub(crate) fn send(socket: &std::net::TcpStream, octets: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the octets are the caller's.
    let sent = unsafe { libc::send(socket.as_raw_fd(), octets.as_ptr().cast(), octets.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Writes a line to standard output, past its lock, which another thread of the parent may have had.
pub(crate) fn say(line: &str) {
    let line = format!("{line}\n");
    // SAFETY: the line is a local variable. A driver that has gone hears nothing.
    unsafe { libc::write(libc::STDOUT_FILENO, line.as_ptr().cast(), line.len()) };
}

/// Ends this process at once.
pub(crate) fn exit() -> ! {
    // SAFETY: no handler needs to run.
    unsafe { libc::_exit(0) }
}
