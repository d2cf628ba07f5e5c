//! Extended Sockets: queues, memory, and sockets.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};
use core::task::Waker;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use weft_rnic::guard_memory;

use super::boundary::{Outcome, always, read, write};
use super::fork::process;
use super::rsocket::{tell, wanted};
use super::sets::duration;
use super::trace::args;
use crate::abi;
use crate::exs::{Kind, Memory, Setting, Socket, Type};
use crate::process::Process;

/// Returns the socket of a number.
pub(super) fn socket(number: c_int) -> Outcome<Arc<Socket>> {
    process().exs.socket(number)
}

#[unsafe(no_mangle)]
extern "C" fn exs_init(version: c_int) -> c_int {
    args![version].done(|| {
        if version != VERSION {
            return Err(Errno::INVAL);
        }
        process().exs_context().map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn exs_qcreate(depth: c_int) -> c_int {
    args![depth].number(|| process().create_exs_queue(depth))
}

#[unsafe(no_mangle)]
extern "C" fn exs_qdelete(queue: c_int) -> c_int {
    args![queue].done(|| process().exs.delete_queue(queue))
}

#[unsafe(no_mangle)]
extern "C" fn exs_qmodify(queue: c_int, attribute: c_int, value: c_int) -> c_int {
    args![queue, attribute, value]
        .done(|| process().exs.queue(queue)?.modify(Process::exs_attribute(attribute)?, value))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_qstatus(queue: c_int, attribute: c_int, value: *mut c_int) -> c_int {
    args![queue, attribute].done(|| {
        let status = process().exs.queue(queue)?.status(Process::exs_attribute(attribute)?);
        // SAFETY: the program's place for the answer.
        unsafe { write(value, status) }.map_err(|_| Errno::FAULT)
    })
}

#[unsafe(no_mangle)]
extern "C" fn exs_qfd(queue: c_int) -> c_int {
    args![queue].number(|| Ok(process().exs.queue(queue)?.descriptor()))
}

#[unsafe(no_mangle)]
extern "C" fn exs_qcount(queue: c_int) -> c_int {
    args![queue].number(|| Ok(process().exs.queue(queue)?.status(crate::exs::Attribute::Events)))
}

#[unsafe(no_mangle)]
extern "C" fn exs_strevent(number: c_int) -> *const c_char {
    always(c"".as_ptr(), || Kind::name(number).as_ptr())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_mregister(addr: *mut c_void, len: usize, flags: c_int) -> c_int {
    args![len, flags].number(|| {
        if flags & !SHARED != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: memory that is registered stays mapped until it is deregistered, or has no other owner after it has
        // gone.
        Ok(process().exs.add_memory(unsafe { register(addr, len) }?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn exs_mderegister(memory: c_int) -> c_int {
    args![memory].done(|| process().exs.remove_memory(memory))
}

/// Nothing is pinned, and rights come with each operation: there is nothing to modify.
#[unsafe(no_mangle)]
extern "C" fn exs_mmodify(memory: c_int, flags: c_int) -> c_int {
    args![memory, flags].done(|| Err(Errno::OPNOTSUPP))
}

/// Makes a stream or a socket for messages, over IPv4 or IPv6.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    args![domain, kind, protocol].number(|| {
        let is_known = matches!(domain, libc::AF_INET | libc::AF_INET6)
            && matches!(kind & !FLAGS, libc::SOCK_STREAM | libc::SOCK_SEQPACKET)
            && (protocol == 0 || protocol == libc::IPPROTO_TCP && kind & !FLAGS == libc::SOCK_STREAM);
        if !is_known {
            return Err(Errno::OPNOTSUPP);
        }
        let is_stream = kind & !FLAGS == libc::SOCK_STREAM;
        let number = process().create_exs_socket(Type { is_v6: domain == libc::AF_INET6, is_stream })?;
        if kind & libc::SOCK_NONBLOCK != 0 {
            socket(number)?.set_nonblocking(true)?;
        }
        Ok(number)
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn exs_bind(
    number: c_int,
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> c_int {
    args![number].done(|| {
        let socket = socket(number)?;
        // SAFETY: an address of the program's.
        socket.bind(unsafe { address_of(address, len) }?)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_listen(number: c_int, backlog: c_int) -> c_int {
    args![number, backlog].done(|| socket(number)?.listen(process().exs_context()?, backlog))
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn exs_getsockname(
    number: c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: the program's places for an address and its length.
    args![number].done(|| unsafe { give(socket(number)?.local_addr(), address, len) })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn exs_getpeername(
    number: c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: the program's places for an address and its length.
    args![number].done(|| unsafe { give(socket(number)?.peer_addr()?, address, len) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_connect(
    number: c_int,
    address: *const libc::sockaddr,
    len: libc::socklen_t,
    queue: c_int,
    handle: isize,
) -> c_int {
    args![number, queue, handle].done(|| {
        let socket = socket(number)?;
        // SAFETY: an address of the program's.
        let peer = unsafe { address_of(address, len) }?;
        socket.connect(process().exs_context()?, peer, process().start(Kind::Connect, queue, handle)?)
    })
}

/// Starts as many accepts, or none: all events are reserved first.
#[unsafe(no_mangle)]
extern "C" fn exs_accept(
    number: c_int,
    rooms: *mut abi::ExsAcceptAddr,
    count: c_int,
    queue: c_int,
    handle: isize,
) -> c_int {
    args![number, count, queue, handle].done(|| {
        let socket = socket(number)?;
        if !(1..=MAX_ACCEPTS).contains(&count) {
            return Err(Errno::INVAL);
        }
        let starts: Vec<_> =
            (0..count).map(|_| process().start(Kind::Accept, queue, handle)).collect::<Result<_, _>>()?;
        for (index, start) in starts.into_iter().enumerate() {
            let room = if rooms.is_null() { 0 } else { rooms.wrapping_add(index).expose_provenance() };
            socket.accept(start, room)?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn exs_shutdown(number: c_int, how: c_int, queue: c_int, handle: isize) -> c_int {
    args![number, how, queue, handle].done(|| {
        let socket = socket(number)?;
        socket.shut_down(how, Some(process().start(Kind::Shutdown, queue, handle)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn exs_close(number: c_int, queue: c_int, handle: isize) -> c_int {
    args![number, queue, handle].done(|| {
        socket(number)?;
        let start = match queue {
            abi::EXS_NO_QUEUE => None,
            queue => Some(process().start(Kind::Close, queue, handle)?),
        };
        process().close_exs_socket(number, start)
    })
}

#[unsafe(no_mangle)]
extern "C" fn exs_cancel(number: c_int, handle: isize, flags: c_int) -> c_int {
    args![number, handle, flags].number(|| {
        if flags & (BY_SOCKET | BY_HANDLE) == 0 || flags & !(BY_SOCKET | BY_HANDLE) != 0 {
            return Err(Errno::INVAL);
        }
        let number = (flags & BY_SOCKET != 0).then_some(number);
        let handle = (flags & BY_HANDLE != 0).then_some(handle);
        let canceled = process().cancel_exs(number, handle)?;
        c_int::try_from(canceled).map_err(|_| Errno::OVERFLOW)
    })
}

/// Variadic in C. On the supported platforms a third argument is passed the same way.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_fcntl(descriptor: c_int, command: c_int, argument: c_int) -> c_int {
    args![descriptor, command, argument].number(|| {
        let socket = socket(descriptor)?;
        match command {
            libc::F_GETFL => {
                Ok(libc::O_RDWR | if socket.descriptor().is_nonblocking()? { libc::O_NONBLOCK } else { 0 })
            }
            libc::F_SETFL => socket.set_nonblocking(argument & libc::O_NONBLOCK != 0).map(|()| 0),
            _ if command & !0xFF == GET => Ok(Setting::of(command & 0xFF)?.value(&socket.options())),
            _ if command & !0xFF == SET => {
                let setting = Setting::of(command & 0xFF)?;
                let is_stream = socket.kind().is_stream;
                socket.change(|options| setting.change(options, argument, is_stream)).map(|()| 0)
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn exs_setsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: libc::socklen_t,
) -> c_int {
    args![number, level, name].done(|| {
        let socket = socket(number)?;
        let room = len as usize;
        if value.is_null() {
            return Err(Errno::FAULT);
        }
        match (level, name) {
            (libc::SOL_SOCKET, SEND_TIMEOUT | RECV_TIMEOUT) if room >= size_of::<libc::timeval>() => {
                // SAFETY: as long as is said.
                let time = unsafe { read(value.cast::<libc::timeval>()) }?;
                socket
                    .set_timeout(name == SEND_TIMEOUT, Some(duration(time)?).filter(|time| !time.is_zero()));
                Ok(())
            }
            (libc::SOL_SOCKET, libc::SO_LINGER) if room >= size_of::<libc::linger>() => {
                // SAFETY: as long as is said.
                let linger = unsafe { read(value.cast::<libc::linger>()) }?;
                let seconds = u64::try_from(linger.l_linger).map_err(|_| Errno::INVAL)?;
                socket.set_linger((linger.l_onoff != 0).then_some(Duration::from_secs(seconds)));
                Ok(())
            }
            (libc::SOL_SOCKET, SEND_TIMEOUT | RECV_TIMEOUT | libc::SO_LINGER) => Err(Errno::INVAL),
            // They mean nothing here.
            (
                libc::SOL_SOCKET,
                libc::SO_REUSEADDR | libc::SO_KEEPALIVE | libc::SO_RCVBUF | libc::SO_SNDBUF,
            )
            | (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Ok(()),
            _ => Err(Errno::NOPROTOOPT),
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn exs_getsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut libc::socklen_t,
) -> c_int {
    args![number, level, name].done(|| {
        let socket = socket(number)?;
        if value.is_null() || len.is_null() {
            return Err(Errno::FAULT);
        }
        // A connect may have failed of which no call has told.
        socket.settle(Waker::noop());
        let options = socket.options();
        // SAFETY: the program's places for a value, as long as is said, and for its length.
        unsafe {
            match (level, name) {
                (libc::SOL_SOCKET, SEND_TIMEOUT) => put(value, len, time_value(options.send_timeout)),
                (libc::SOL_SOCKET, RECV_TIMEOUT) => put(value, len, time_value(options.recv_timeout)),
                (libc::SOL_SOCKET, libc::SO_LINGER) => {
                    let l_linger = c_int::try_from(options.linger.as_secs()).unwrap_or(c_int::MAX);
                    put(value, len, libc::linger { l_onoff: 1, l_linger })
                }
                (libc::SOL_SOCKET, libc::SO_ERROR) => put(value, len, socket.take_error()),
                (libc::SOL_SOCKET, libc::SO_TYPE) if socket.kind().is_stream => {
                    put(value, len, libc::SOCK_STREAM)
                }
                (libc::SOL_SOCKET, libc::SO_TYPE) => put(value, len, libc::SOCK_SEQPACKET),
                (libc::SOL_SOCKET, libc::SO_DOMAIN) if socket.kind().is_v6 => put(value, len, libc::AF_INET6),
                (libc::SOL_SOCKET, libc::SO_DOMAIN) => put(value, len, libc::AF_INET),
                _ => Err(Errno::NOPROTOOPT),
            }
        }
    })
}

/// Reads an address of the program.
///
/// # Safety
/// `address` is null or an address, of `len` octets.
pub(super) unsafe fn address_of(address: *const libc::sockaddr, len: libc::socklen_t) -> Outcome<SocketAddr> {
    if address.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: as the caller says.
    unsafe { wanted(address, len) }
}

/// Stores as much of an address as there is room for, and its length.
///
/// # Safety
/// `len` is null or the program's place for a length. It says how many octets `address` has room for, unless that is
/// null.
unsafe fn give(told: SocketAddr, address: *mut libc::sockaddr, len: *mut libc::socklen_t) -> Outcome<()> {
    if address.is_null() || len.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: as the caller says.
    unsafe { tell(told, address, len) }
}

/// Registers memory of the program, to be written if that is possible.
///
/// # Safety
/// Mapped memory stays mapped until it is deregistered. Or no other owner gets it after it has gone.
pub(super) unsafe fn register(addr: *mut c_void, len: usize) -> Outcome<Memory> {
    if addr.is_null() {
        return Err(Errno::FAULT);
    }
    // As late as possible, so that the guard finds the handlers which the program installs at its start.
    if process().settings()?.guard {
        guard_memory();
    }
    let context = process().exs_context()?;
    // SAFETY: as the caller says.
    let memory = unsafe {
        weft_exs::Memory::raw(context, addr.cast(), len, true)
            .or_else(|_| weft_exs::Memory::raw(context, addr.cast(), len, false))
    };
    Ok(Memory::new(addr.addr(), memory.map_err(|error| error.errno())?))
}

fn time_value(time: Option<Duration>) -> libc::timeval {
    let time = time.unwrap_or_default();
    libc::timeval {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_usec: time.subsec_micros().into(),
    }
}

/// Stores a value, if there is room, and its length.
///
/// # Safety
/// `len` is the program's place for a length, and says how many octets `value` has room for.
unsafe fn put<T>(value: *mut c_void, len: *mut libc::socklen_t, answer: T) -> Outcome<()> {
    // SAFETY: as the caller says.
    unsafe {
        if (read(len)? as usize) < size_of::<T>() {
            return Err(Errno::INVAL);
        }
        write(value.cast(), answer)?;
        write(len, libc::socklen_t::try_from(size_of::<T>()).map_err(|_| Errno::INVAL)?)
    }
}

/// `EXS_VERSION`
const VERSION: c_int = 1;
/// `EXS_MRF_SHARED`
const SHARED: c_int = 1;
const FLAGS: c_int = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
/// As many as a socket takes of other operations.
const MAX_ACCEPTS: c_int = 64;
/// `EXS_CAF_FILDES`
const BY_SOCKET: c_int = 1;
/// `EXS_CAF_AHANDLE`
const BY_HANDLE: c_int = 2;
/// `EXS_F_GET(0)`
const GET: c_int = 0x4500;
/// `EXS_F_SET(0)`
const SET: c_int = 0x4600;
/// `SO_ASYNC_SEND_TIMEOUT`
const SEND_TIMEOUT: c_int = 0x4501;
/// `SO_ASYNC_RECV_TIMEOUT`
const RECV_TIMEOUT: c_int = 0x4502;
