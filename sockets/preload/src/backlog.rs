//! The rest of a ring that its reader leaves: its sender writes it to the kernel's socket before all else.

use core::ffi::c_int;

use weft_sockets::end::Phase;
use weft_sockets::{Gate, Outbound, Reason};

use crate::ends::Stream;
use crate::section::Section;
use crate::trace::trace;
use crate::{anchor, calls, channel, ends};

/// Takes a sending direction back to TCP if its reader has asked for that. Does not wait: what the kernel's socket does
/// not take now is left for the next call.
#[inline]
pub(crate) fn obey(descriptor: c_int, stream: &Stream) {
    if stream.end.state().phase == Phase::Offered
        && let Some(outbound) = channel::offered_outbound(stream)
        && outbound.is_asked_back()
        && (outbound.is_attached() != Some(false) || outbound.backlog().is_some())
    {
        obey_now(descriptor, stream, &outbound);
    }
}

/// As [`obey`], for all connections of this process.
pub(crate) fn obey_all() {
    ends::all().for_each(|(descriptor, stream)| obey(descriptor, &stream));
}

#[cold]
fn obey_now(descriptor: c_int, stream: &Stream, outbound: &Outbound<'_>) {
    // A signal handler leaves it to the thread that it has interrupted.
    let Some(section) = Section::of_outbound(stream) else { return };
    if section.is_inherited {
        outbound.republish();
    }
    let obeyed = outbound.obey();
    if obeyed == Ok(true) {
        stream.end.stay(Reason::Refused);
        let _is_out = send(descriptor, stream, outbound);
        trace!("{descriptor}: sends by TCP again, as its reader asks");
    }
    section.leave();
    if obeyed.is_err() {
        anchor::break_off(descriptor, stream);
    }
}

/// Sends what the reader has left in the ring. Behind it the sender is free to use the kernel's socket.
pub(crate) fn send(descriptor: c_int, stream: &Stream, outbound: &Outbound<'_>) -> bool {
    let is_out = loop {
        let Some(pieces) = outbound.backlog() else { break true };
        match calls::send_pieces(descriptor, pieces) {
            octets @ 1.. => outbound.resent(octets.unsigned_abs()),
            _ => break false,
        }
    };
    let gate = Gate::new(&stream.end.outbound.inside, false);
    if is_out && gate.is_closed() {
        gate.open();
    }
    is_out
}
