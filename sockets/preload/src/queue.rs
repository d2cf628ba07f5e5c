//! How many octets wait in the directions that this library runs.

use core::ffi::{c_int, c_ulong};

use weft_sockets::Source;

use crate::transfer::{self, Call, Step};
use crate::{channel, ends};

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
    let mut octets = 0;
    transfer::in_inbound(call, |inbound| {
        octets = match inbound.source()? {
            Source::Tcp { .. } => u64::from(kernel().unsigned_abs()) + inbound.behind_tcp()?,
            Source::Ring { .. } => inbound.available(u64::MAX)?,
        };
        Ok(Step::Nothing)
    });
    Some(c_int::try_from(octets).unwrap_or(c_int::MAX))
}

fn unsent(call: &Call) -> Option<c_int> {
    let outbound = channel::outbound(&call.stream)?;
    outbound.unread().ok().map(|octets| c_int::try_from(octets).unwrap_or(c_int::MAX))
}
