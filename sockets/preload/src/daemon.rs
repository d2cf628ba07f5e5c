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
///
/// A daemon that the environment names by a path may serve containers. It sees this process, or it closes the port.
pub(crate) fn owner(socket: &OwnedFd) -> Option<u32> {
    let mut octets = [0; size_of::<libc::ucred>()];
    calls::option(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, &mut octets).ok()?;
    let word = |at: usize| octets.get(at..)?.first_chunk().copied();
    let (pid, uid) = (i32::from_ne_bytes(word(0)?), u32::from_ne_bytes(word(4)?));
    (pid > 0 || is_path() && uid != NOBODY).then_some(uid)
}

/// Returns a UDP socket of this network namespace, if programs of other ones may have the same daemon.
pub(crate) fn network() -> Option<OwnedFd> {
    let new =
        |family| socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None);
    if !is_path() {
        return None;
    }
    new(AddressFamily::INET6).or_else(|_| new(AddressFamily::INET)).ok()
}

/// True if the environment names the daemon by a path. Abstract names belong to the network namespace.
fn is_path() -> bool {
    let name = policy::policy().and_then(|policy| policy.daemon.as_ref());
    name.and_then(|name| name.octets().first()).is_some_and(|octet| *octet != b'@')
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

/// The user that the kernel tells for those who have no number in this namespace of users.
const NOBODY: u32 = 65534;
