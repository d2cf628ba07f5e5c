//! `sendfile` into a ring: the kernel reads the file to where the reader takes the octets.

use core::ffi::c_int;

use weft_sockets::Sink;

use crate::call::{Call, Step};
use crate::calls;
use crate::transfer;

/// Sends up to `count` octets of a file from a position on. Returns the kernel's answer.
pub(crate) fn send(call: &Call, file: c_int, position: u64, count: usize) -> isize {
    let mut was_raised = false;
    let result =
        transfer::send_by(&Call { flags: call.flags | libc::MSG_NOSIGNAL, ..*call }, count, |sent| {
            // The kernel does not look at the socket if there is nothing to send.
            if sent == count {
                return Step::End;
            }
            let position = position.wrapping_add(sent as u64);
            match to_ring(call, file, position, count - sent) {
                Step::End => {
                    let step = to_kernel(call, file, position, count - sent);
                    was_raised = step == Step::Failed(libc::EPIPE);
                    step
                }
                Step::Moved(0) => Step::End,
                step => step,
            }
        });
    if result == -(libc::EPIPE as isize) && !was_raised {
        calls::raise(libc::SIGPIPE);
    }
    result
}

/// Reads octets of a file to the ring. `End`: the kernel's socket takes them.
fn to_ring(call: &Call, file: c_int, position: u64, count: usize) -> Step {
    transfer::in_outbound(call, |outbound| {
        if let Some(step) = transfer::before_send(call, outbound)? {
            return Ok(step);
        }
        if outbound.sink() == Sink::Tcp || transfer::is_kernels(&call.stream, outbound) {
            return Ok(transfer::send_backlog(call.descriptor, &call.stream, outbound).unwrap_or(Step::End));
        }
        let room = outbound.free(count.min(AT_A_TIME))?;
        if room.iter().all(|(_, len)| *len == 0) {
            return Ok(Step::Nothing);
        }
        let octets = calls::read_at(file, room, position);
        outbound.publish(usize::try_from(octets).unwrap_or(0), false)?;
        Ok(match octets {
            0 => Step::Moved(0),
            1.. => transfer::given(call, octets.unsigned_abs()),
            error => transfer::failed(error),
        })
    })
}

fn to_kernel(call: &Call, file: c_int, position: u64, count: usize) -> Step {
    match calls::send_file(call.descriptor, file, position, count) {
        0 => Step::End,
        octets @ 1.. => {
            call.stream.end.outbound.count(octets.unsigned_abs() as u64);
            Step::Moved(octets.unsigned_abs())
        }
        error => {
            let step = transfer::failed(error);
            transfer::note_failure(&call.stream, step);
            step
        }
    }
}

/// Octets that one section copies.
const AT_A_TIME: usize = 64 << 10;
