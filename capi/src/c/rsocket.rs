//! rsocket: makes and connects sockets, and queries them.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::sync::Arc;

use rustix::io::Errno;

use super::addrinfo::given;
use super::boundary::{Outcome, read, write};
use super::fork::process;
use super::trace::args;
use crate::cm::storage;
use crate::rsocket::{How, Name, Socket};

/// Returns the socket of a descriptor.
pub(super) fn socket(number: c_int) -> Outcome<Arc<Socket>> {
    process().rsockets.get(number).map_err(|_| Errno::BADF)
}

/// Makes a stream over IPv4 or IPv6. Datagrams would need UD, which iWARP lacks.
#[unsafe(no_mangle)]
extern "C" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    args![domain, kind, protocol].number(|| {
        let is_known = matches!(domain, libc::AF_INET | libc::AF_INET6)
            && kind == libc::SOCK_STREAM
            && matches!(protocol, 0 | libc::IPPROTO_TCP);
        if !is_known {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(process().create_socket(domain == libc::AF_INET6)?.number())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbind(number: c_int, address: *const libc::sockaddr, len: libc::socklen_t) -> c_int {
    args![number].done(|| {
        let socket = socket(number)?;
        // SAFETY: an address of the program's.
        socket.bind(unsafe { wanted(address, len) }?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rlisten(number: c_int, backlog: c_int) -> c_int {
    args![number, backlog].done(|| socket(number)?.listen(usize::try_from(backlog).unwrap_or(0)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn raccept(
    listener: c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    args![listener].number(|| {
        let socket = process().accept_socket(&*socket(listener)?)?;
        if !address.is_null() && !len.is_null() {
            // SAFETY: the program's places for an address and its length.
            unsafe { tell(socket.peer_addr()?, address, len) }?;
        }
        Ok(socket.number())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rconnect(number: c_int, address: *const libc::sockaddr, len: libc::socklen_t) -> c_int {
    args![number].done(|| {
        let socket = socket(number)?;
        // SAFETY: an address of the program's.
        process().connect_socket(&socket, unsafe { wanted(address, len) }?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rshutdown(number: c_int, how: c_int) -> c_int {
    args![number, how].done(|| {
        let how = match how {
            libc::SHUT_RD => How::Read,
            libc::SHUT_WR => How::Write,
            libc::SHUT_RDWR => How::Both,
            _ => return Err(Errno::INVAL),
        };
        socket(number)?.shutdown(how)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rclose(number: c_int) -> c_int {
    args![number].done(|| process().close_socket(number))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rgetpeername(
    number: c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: the program's places for an address and its length.
    args![number].done(|| unsafe { tell(socket(number)?.peer_addr()?, address, len) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rgetsockname(
    number: c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: the program's places for an address and its length.
    args![number].done(|| unsafe { tell(socket(number)?.local_addr(), address, len) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rsetsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: libc::socklen_t,
) -> c_int {
    args![number, level, name].done(|| {
        let socket = socket(number)?;
        if (len as usize) < size_of::<c_int>() {
            return Err(Errno::INVAL);
        }
        // SAFETY: as long as is said, and each option begins with an int.
        socket.set_option(Name { level, name }, unsafe { read(value.cast::<c_int>()) }?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rgetsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut libc::socklen_t,
) -> c_int {
    args![number, level, name].done(|| {
        let socket = socket(number)?;
        // SAFETY: the program's place for a length.
        let room = unsafe { read(len) }? as usize;
        if value.is_null() || room < size_of::<c_int>() {
            return Err(Errno::INVAL);
        }
        let answer = socket.option(Name { level, name })?;
        // SAFETY: the place for the value is as long as the program has said, and that for its length is as above.
        unsafe {
            let is_linger = (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER);
            if is_linger && room >= size_of::<libc::linger>() {
                write(value.cast(), libc::linger { l_onoff: answer, l_linger: 0 })?;
                return write(len, SIZE_OF_LINGER);
            }
            write(value.cast(), answer)?;
            write(len, SIZE_OF_INT)
        }
    })
}

/// Variadic in C. On the supported platforms a third argument is passed the same way.
#[unsafe(no_mangle)]
extern "C" fn rfcntl(descriptor: c_int, command: c_int, argument: c_int) -> c_int {
    args![descriptor, command, argument].number(|| {
        let socket = socket(descriptor)?;
        match command {
            libc::F_GETFL => Ok(socket.status()),
            libc::F_SETFL => {
                socket.set_status(argument);
                Ok(0)
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    })
}

/// # Safety
/// `address` is null or an address, of `len` octets.
pub(super) unsafe fn wanted(address: *const libc::sockaddr, len: libc::socklen_t) -> Outcome<SocketAddr> {
    // SAFETY: as the caller says.
    unsafe { given(address, len) }?.ok_or(Errno::INVAL)
}

/// Stores as much of an address as there is room for, and its length.
///
/// # Safety
/// `len` is null or the program's place for a length. It says how many octets `address` has room for, unless that is
/// null.
pub(super) unsafe fn tell(
    told: SocketAddr,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> Outcome<()> {
    let (octets, whole) = storage(told);
    // SAFETY: as the caller says, and the storage is longer than an address.
    unsafe {
        let room = read(len)?;
        if address.is_null() {
            return Err(Errno::INVAL);
        }
        let known = room.min(whole) as usize;
        octets.0.as_ptr().copy_to_nonoverlapping(address.cast(), known);
        write(len, whole)
    }
}

const SIZE_OF_INT: libc::socklen_t = 4;
const SIZE_OF_LINGER: libc::socklen_t = 8;
