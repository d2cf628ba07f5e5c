//! How many octets wait in the directions that this library runs.

use core::ffi::{c_int, c_ulong};

use weft_sockets::Source;

use crate::transfer::{self, Call, Step};
use crate::{channel, ends};

/// Returns the answer to `FIONREAD` or `SIOCOUTQ`, if the kernel's is not the right one.
pub(crate) fn octets(descriptor: c_int, request: c_ulong) -> Option<c_int> {
    let count = match request {
        libc::FIONREAD => unread,
        libc::TIOCOUTQ => unsent,
        _ => return None,
    };
    let stream = ends::known(descriptor)?;
    count(&Call { descriptor, stream, flags: 0 })
}

fn unread(call: &Call) -> Option<c_int> {
    channel::inbound(&call.stream)?;
    let mut octets = None;
    transfer::in_inbound(call, |inbound| {
        if let Source::Ring { .. } = inbound.source()? {
            octets = Some(inbound.available(u64::MAX)?);
        }
        Ok(Step::Nothing)
    });
    octets.map(|octets| c_int::try_from(octets).unwrap_or(c_int::MAX))
}

fn unsent(call: &Call) -> Option<c_int> {
    let outbound = channel::outbound(&call.stream)?;
    outbound.unread().ok().map(|octets| c_int::try_from(octets).unwrap_or(c_int::MAX))
}
