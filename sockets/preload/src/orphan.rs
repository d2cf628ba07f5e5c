//! Sockets that no process holds any more, as the kernel tells.

use core::ffi::c_int;
use core::net::SocketAddr;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, getpeername, getsockname, netlink, recv,
    send, socket_with,
};

use crate::real;

/// True if the kernel knows that no process holds the other end of a connection of this network namespace.
///
/// Only then this can be said of an end that was shut down in one direction before its process was killed: its kernel has
/// nothing more to send.
pub(crate) fn is_deserted(descriptor: c_int) -> bool {
    inode(descriptor) == Some(0)
}

/// Returns the inode of the socket at the other end: 0 if there is none. `None`: that is not known.
fn inode(descriptor: c_int) -> Option<u32> {
    let socket = real::borrow(descriptor);
    let local = SocketAddr::try_from(getsockname(socket).ok()?).ok()?;
    let peer = SocketAddr::try_from(getpeername(socket).ok()??).ok()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kernel =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG)).ok()?;
    send(&kernel, &question(peer, local)?, SendFlags::NOSIGNAL).ok()?;
    let mut answer = [0_u8; 512];
    let (len, _) = recv(&kernel, &mut answer[..], RecvFlags::DONTWAIT).ok()?;
    let word =
        |at: usize| answer.get(..len)?.get(at..)?.first_chunk().map(|octets| u32::from_ne_bytes(*octets));
    match word(4)? & 0xffff {
        u32_type if u32_type == u32::from(BY_FAMILY) => word(INODE),
        ERROR if word(HEADER)?.cast_signed() == -libc::ENOENT => Some(0),
        _ => None,
    }
}

/// Asks for the socket with these addresses: a header of 16 octets, then `struct inet_diag_req_v2`.
fn question(local: SocketAddr, peer: SocketAddr) -> Option<[u8; QUESTION]> {
    let mut octets = [0; QUESTION];
    let mut put = |at: usize, value: &[u8]| {
        octets.get_mut(at..at + value.len())?.copy_from_slice(value);
        Some(())
    };
    put(0, &u32::try_from(QUESTION).ok()?.to_ne_bytes())?;
    put(4, &BY_FAMILY.to_ne_bytes())?;
    put(6, &REQUEST.to_ne_bytes())?;
    put(HEADER + 1, &[u8::try_from(libc::IPPROTO_TCP).ok()?])?;
    put(HEADER + 4, &u32::MAX.to_ne_bytes())?;
    let mut family = libc::AF_INET6;
    for (at, address) in [(0, local), (1, peer)] {
        put(HEADER + 8 + 2 * at, &address.port().to_be_bytes())?;
        match address.ip().to_canonical() {
            core::net::IpAddr::V4(ip) => {
                family = libc::AF_INET;
                put(HEADER + 12 + 16 * at, &ip.octets())?;
            }
            core::net::IpAddr::V6(ip) => put(HEADER + 12 + 16 * at, &ip.octets())?,
        }
    }
    put(HEADER, &[u8::try_from(family).ok()?])?;
    // No cookie, so that the addresses decide.
    put(QUESTION - 8, &[0xff; 8])?;
    Some(octets)
}

const HEADER: usize = 16;
const QUESTION: usize = HEADER + 56;
/// `SOCK_DIAG_BY_FAMILY`
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
/// `NLMSG_ERROR`
const ERROR: u32 = 2;
/// The inode is the last word of `struct inet_diag_msg`.
const INODE: usize = HEADER + 68;

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn an_end_that_was_shut_down_is_deserted_once_it_is_closed() {
        // A child of another test has copies of all sockets until it runs its program.
        let _turn = crate::family::turn();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).expect("a listener");
            let client =
                TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
            let server = listener.accept().expect("its other end").0;
            assert!(!is_deserted(server.as_raw_fd()));
            client.shutdown(Shutdown::Write).expect("a FIN");
            assert!(!is_deserted(server.as_raw_fd()), "it reads on");
            drop(client);
            while !is_deserted(server.as_raw_fd()) {
                std::thread::yield_now();
            }
        }
    }
}
