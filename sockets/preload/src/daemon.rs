//! The daemon's socket: how it is found, and whether the daemon is still there.

use core::fmt::Write;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with,
};
use rustix::process::geteuid;

use crate::line::Line;
use crate::{calls, policy};

/// Returns the user of the daemon. `None` if this process cannot see the daemon: it belongs to another namespace of
/// processes, and the kernel tells 0 in the place of its id.
pub(crate) fn owner(socket: &OwnedFd) -> Option<u32> {
    let mut octets = [0; size_of::<libc::ucred>()];
    calls::option(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, &mut octets).ok()?;
    let word = |at: usize| octets.get(at..)?.first_chunk().copied();
    (i32::from_ne_bytes(word(0)?) > 0).then_some(u32::from_ne_bytes(word(4)?))
}

/// Connects to the daemon that the environment names, or to the host's, or to the user's.
pub(crate) fn connected() -> Option<OwnedFd> {
    if let Some(name) = policy::policy().and_then(|policy| policy.daemon.as_ref()) {
        let address = match name.octets().split_first()? {
            (b'@', name) => SocketAddrUnix::new_abstract_name(name),
            _ => SocketAddrUnix::new(name.octets()),
        };
        return try_connect(&address.ok()?);
    }
    let mut own = Line::<32>::new();
    let _fits = write!(own, "weft/1/{}", geteuid().as_raw());
    let names = [b"weft/1/0", own.octets()];
    names.iter().find_map(|name| try_connect(&SocketAddrUnix::new_abstract_name(name).ok()?))
}

fn try_connect(address: &SocketAddrUnix) -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok()?;
    connect(&socket, address).ok().map(|()| socket)
}

/// True if the daemon has not closed the port.
pub(crate) fn is_alive(socket: BorrowedFd<'_>) -> bool {
    let mut octet = [0_u8; 1];
    let looked = recv(socket, &mut octet, RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(looked, Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR))
}
