//! How many octets wait in the directions that this library runs.

use core::ffi::{c_int, c_ulong};

use weft_sockets::{Sink, Source};

use crate::call::{Call, Step};
use crate::transfer;
use crate::{calls, channel, ends, record};

/// Returns the answer to `FIONREAD` or `SIOCOUTQ` if it is not the kernel's, which is `kernel`.
pub(crate) fn octets(descriptor: c_int, request: c_ulong, kernel: impl FnOnce() -> c_int) -> Option<c_int> {
    let call = |stream| Call { descriptor, stream, flags: 0 };
    match request {
        libc::FIONREAD => unread(&call(ends::known(descriptor)?), kernel),
        libc::TIOCOUTQ => unsent(&call(ends::known(descriptor)?)),
        _ => None,
    }
}

fn unread(call: &Call, kernel: impl FnOnce() -> c_int) -> Option<c_int> {
    channel::inbound(&call.stream)?;
    let (octets, is_tcp) = in_ring(call);
    let kernels = if is_tcp { u64::from(kernel().unsigned_abs()) } else { 0 };
    Some(c_int::try_from(octets + kernels).unwrap_or(c_int::MAX))
}

/// Returns how many octets wait in the ring, and whether those of the kernel's socket come before or behind them.
pub(crate) fn in_ring(call: &Call) -> (u64, bool) {
    let mut found = (0, true);
    transfer::in_inbound(call, |inbound| {
        record::settle(call.descriptor, &call.stream, inbound)?;
        found = match inbound.source()? {
            Source::Tcp { .. } => (inbound.behind()?, true),
            Source::Ring { .. } => {
                (inbound.available(u64::MAX)? + inbound.behind()?, inbound.is_before_tcp()?)
            }
        };
        Ok(Step::Nothing)
    });
    found
}

fn unsent(call: &Call) -> Option<c_int> {
    let outbound = channel::outbound(&call.stream)?;
    let octets = match outbound.sink() {
        Sink::Ring => outbound.unread().ok()?,
        Sink::Tcp => {
            let left = outbound.backlog().map_or(0, |pieces| pieces.iter().map(|piece| piece.1 as u64).sum());
            left + calls::queued(call.descriptor, libc::TIOCOUTQ).unwrap_or(0)
        }
    };
    Some(c_int::try_from(octets).unwrap_or(c_int::MAX))
}
