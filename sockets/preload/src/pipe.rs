//! `splice` between a pipe and a direction that this library runs.

use core::ffi::{c_int, c_uint};

use libc::{POLLOUT, pollfd};

use crate::buffers;
use crate::call::Call;
use crate::calls;
use crate::poll;
use crate::receive;
use crate::transfer;

/// Moves octets of a pipe to the stream. Returns the kernel's answer.
pub(crate) fn send(call: &Call, pipe: c_int, len: usize, flags: c_uint) -> isize {
    let call = call_of(call, flags);
    let span = call.is_nonblocking().then_some(crate::clock::span(0));
    // What is taken from the pipe has to find room.
    match poll::wait(&mut [pollfd { fd: call.descriptor, events: POLLOUT, revents: 0 }], span, None) {
        0 => return -(libc::EAGAIN as isize),
        error if error < 0 => return error,
        _ => {}
    }
    let mut memory = [0; AT_A_TIME];
    let Some(memory) = memory.get_mut(..len.min(AT_A_TIME)) else { return 0 };
    let result = calls::read_pipe(pipe, memory, flags & libc::SPLICE_F_NONBLOCK != 0);
    let Some(memory) = usize::try_from(result).ok().and_then(|len| memory.get_mut(..len)) else {
        return result;
    };
    buffers::with_own(memory, |buffers| {
        transfer::send(&Call { flags: call.flags & !libc::MSG_DONTWAIT, ..call }, buffers)
    })
}

/// Moves octets of the stream to a pipe. Returns the kernel's answer.
pub(crate) fn receive(call: &Call, pipe: c_int, len: usize, flags: c_uint) -> isize {
    let call = call_of(call, flags);
    let mut memory = [0; AT_A_TIME];
    let Some(memory) = memory.get_mut(..len.min(AT_A_TIME)) else { return 0 };
    let look = Call { flags: call.flags | libc::MSG_PEEK, ..call };
    let seen = buffers::with_own(memory, |buffers| receive::receive(&look, buffers));
    let Some(memory) = usize::try_from(seen).ok().and_then(|len| memory.get_mut(..len)) else { return seen };
    let result = calls::write_pipe(pipe, memory, flags & libc::SPLICE_F_NONBLOCK != 0);
    let Some(memory) = usize::try_from(result).ok().and_then(|len| memory.get_mut(..len)) else {
        return result;
    };
    let drop = Call { flags: libc::MSG_TRUNC | libc::MSG_DONTWAIT, ..call };
    buffers::with_own(memory, |buffers| receive::receive(&drop, buffers))
}

/// The call with the flags of `send`.
fn call_of(call: &Call, flags: c_uint) -> Call {
    Call { flags: if flags & libc::SPLICE_F_NONBLOCK == 0 { 0 } else { libc::MSG_DONTWAIT }, ..*call }
}

/// Octets that a call moves.
const AT_A_TIME: usize = 16 << 10;
