//! `sendfile` into a ring: the kernel reads the file to where the reader takes the octets.

use core::ffi::c_int;

use weft_sockets::{Gate, Sink};

use crate::call::{Call, Step};
use crate::transfer;
use crate::{backlog, calls, channel};

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
            if let Some(step) = transfer::send_backlog(call.descriptor, &call.stream, outbound) {
                return Ok(step);
            }
            if outbound.sink() == Sink::Tcp {
                // The kernel's call may wait, so that it cannot be made here.
                backlog::send(call.descriptor, &call.stream, outbound);
            }
            return Ok(Step::End);
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

/// Sends by the kernel's socket. The thread counts as inside a send of the kernel's, so that the direction does not leave
/// TCP, nor looks for octets of others, before these are counted.
fn to_kernel(call: &Call, file: c_int, position: u64, count: usize) -> Step {
    let gate = Gate::new(&call.stream.end.outbound.inside, false);
    let is_inside = gate.enter();
    let outbound = channel::offered_outbound(&call.stream);
    if !is_inside && outbound.is_some_and(|outbound| outbound.sink() == Sink::Tcp) {
        // The rest of a ring goes first.
        return Step::Nothing;
    }
    let step = send_by_kernel(call, file, position, count);
    if is_inside && call.stream.is_current() {
        gate.leave();
    }
    step
}

fn send_by_kernel(call: &Call, file: c_int, position: u64, count: usize) -> Step {
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::backlog::tests::Waiting;
    use crate::family;

    #[test]
    fn a_file_that_goes_out_by_tcp_counts_as_a_send() {
        let _turn = family::turn();
        let mut waiting = Waiting::new(0x600c);
        let (gate, mut octets) = (waiting.leave(), Vec::new());
        // The rest of the ring goes out, and the direction is the kernel's.
        while waiting.answer() == Ok(false) {
            waiting.drain(&mut octets);
        }
        while !waiting.drain(&mut octets) {}
        let descriptor = waiting.own.as_raw_fd();
        waiting.own.set_nonblocking(false).expect("a mode");
        let call = Call { descriptor, stream: waiting.ends[0], flags: 0 };
        let file = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
        rustix::fs::ftruncate(&file, COUNT as u64).expect("memory");
        let number = file.as_raw_fd();
        let sending = std::thread::spawn(move || send(&call, number, 0, COUNT));
        // The kernel's buffers get full, so that the thread waits in its call.
        while calls::queued(descriptor, libc::TIOCOUTQ).is_ok_and(|queued| queued < 4096) {
            std::thread::yield_now();
        }
        assert!(!gate.try_close(), "the direction may change its carrier in the middle");
        waiting.peer.set_nonblocking(false).expect("a mode");
        let mut rest = vec![0; COUNT];
        waiting.peer.read_exact(&mut rest).expect("the file");
        assert_eq!(sending.join().expect("no panic"), COUNT.cast_signed());
        assert!(gate.try_close(), "nobody is inside");
        channel::tests::forget(0x600c, waiting.ends);
    }

    const COUNT: usize = 1 << 20;
}
