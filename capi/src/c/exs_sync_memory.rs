//! Extended Sockets: sends and receives that wait, from and to registered memory.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use rustix::io::Errno;

use super::boundary::{Outcome, read, write};
use super::exs::socket;
use super::exs_io::{allow, check, parts as pieces};
use super::exs_sync::{SEND_FLAGS, receive, receiving, send};
use super::fork::process;
use super::trace::args;
use crate::abi;
use crate::exs::{Memory, Socket};

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_msend(
    number: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    memory: c_int,
) -> isize {
    args![number, len, flags, memory].size(|| {
        if memory == abi::EXS_UNREGISTERED {
            let part = libc::iovec { iov_base: buf.cast_mut(), iov_len: len };
            // SAFETY: the program's buffer, which it does not change until the call returns.
            return unsafe { send(number, &raw const part, 1, flags) };
        }
        let memory = process().exs.memory(memory)?;
        send_registered(&*socket(number)?, &memory, buf, len, flags)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_mrecv(
    number: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    memory: c_int,
) -> isize {
    args![number, len, flags, memory].size(|| {
        if memory == abi::EXS_UNREGISTERED {
            let part = libc::iovec { iov_base: buf, iov_len: len };
            // SAFETY: the program's buffer, which is its own until the call returns.
            return Ok(unsafe { receive(number, &raw const part, 1, flags) }?.0);
        }
        let memory = process().exs.memory(memory)?;
        Ok(receive_registered(&*socket(number)?, &memory, buf, len, flags)?.0)
    })
}

/// Of more than one piece, by a copy.
#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_msendmsg(
    number: c_int,
    message: *const abi::ExsMessage,
    flags: c_int,
) -> isize {
    args![number, flags].size(|| {
        // SAFETY: the program's message, whose pieces are where it says.
        let pieces = unsafe { pieces(message) }?;
        if let [only] = pieces.as_slice()
            && only.mhandle != abi::EXS_UNREGISTERED
        {
            let memory = process().exs.memory(only.mhandle)?;
            return send_registered(&*socket(number)?, &memory, only.base, only.len, flags);
        }
        let parts = plain(&pieces)?;
        // SAFETY: as above.
        unsafe { send(number, parts.as_ptr(), parts.len(), flags) }
    })
}

/// Of more than one piece, by a copy.
#[unsafe(no_mangle)]
unsafe extern "C" fn exs_sync_mrecvmsg(number: c_int, message: *mut abi::ExsMessage, flags: c_int) -> isize {
    args![number, flags].size(|| {
        // SAFETY: the program's message, whose pieces are where it says.
        let pieces = unsafe { pieces(message) }?;
        let (received, is_truncated) = match pieces.as_slice() {
            [only] if only.mhandle != abi::EXS_UNREGISTERED => {
                let memory = process().exs.memory(only.mhandle)?;
                receive_registered(&*socket(number)?, &memory, only.base, only.len, flags)?
            }
            _ => {
                let parts = plain(&pieces)?;
                // SAFETY: as above.
                unsafe { receive(number, parts.as_ptr(), parts.len(), flags) }?
            }
        };
        // SAFETY: the program's message.
        unsafe {
            let mut told = read(message)?;
            told.flags = if is_truncated { libc::MSG_TRUNC } else { 0 };
            write(message, told)?;
        }
        Ok(received)
    })
}

/// Such a call waits: nothing is copied, so that it has to see the end.
fn send_registered(
    socket: &Socket,
    memory: &Arc<Memory>,
    buf: *const c_void,
    len: usize,
    flags: c_int,
) -> Outcome<usize> {
    allow(flags, SEND_FLAGS)?;
    let range = memory.place(buf.addr(), len).ok_or(Errno::INVAL)?;
    if !socket.may_wait(flags)? {
        return Err(Errno::OPNOTSUPP);
    }
    socket.send_memory(memory, range)
}

fn receive_registered(
    socket: &Socket,
    memory: &Arc<Memory>,
    buf: *const c_void,
    len: usize,
    flags: c_int,
) -> Outcome<(usize, bool)> {
    let how = receiving(socket, flags)?;
    let range = memory.place(buf.addr(), len).ok_or(Errno::INVAL)?;
    if how.peeks || !how.may_wait {
        return Err(Errno::OPNOTSUPP);
    }
    socket.receive_memory(memory, range, how.waits_for_all)
}

/// Returns the pieces without their handles.
fn plain(pieces: &[abi::ExsIovec]) -> Outcome<Vec<libc::iovec>> {
    let plain = |piece: &abi::ExsIovec| {
        check(piece)?;
        Ok(libc::iovec { iov_base: piece.base, iov_len: piece.len })
    };
    pieces.iter().map(plain).collect()
}
