//! `sendfile` into a ring: the kernel reads the file to where the reader takes the octets.

use core::ffi::c_int;

use weft_sockets::Sink;

use crate::calls;
use crate::transfer::{self, Call, Step};

/// Sends up to `count` octets of a file from a position on. Returns the kernel's answer.
pub(crate) fn send(call: &Call, file: c_int, position: u64, count: usize) -> isize {
    transfer::send_by(call, count, |sent| {
        let position = position.wrapping_add(sent as u64);
        let step = transfer::in_outbound(call, |outbound| {
            if let Some(step) = transfer::before_send(call, outbound)? {
                return Ok(step);
            }
            if count == sent {
                return Ok(Step::Moved(0));
            }
            if outbound.sink() == Sink::Tcp || transfer::is_kernels(&call.stream) {
                return Ok(transfer::send_backlog(call.descriptor, outbound).unwrap_or(Step::End));
            }
            let room = outbound.free((count - sent).min(AT_A_TIME))?;
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
        });
        match step {
            Step::End => match calls::send_file(call.descriptor, file, position, count - sent) {
                0 => Step::End,
                octets @ 1.. => {
                    call.stream.end.outbound.count(octets.unsigned_abs() as u64);
                    Step::Moved(octets.unsigned_abs())
                }
                error => transfer::failed(error),
            },
            Step::Moved(0) => Step::End,
            step => step,
        }
    })
}

/// Octets that one section copies.
const AT_A_TIME: usize = 64 << 10;
