//! Receives from directions that this library runs by itself: from TCP up to the ring, then from the ring.

use core::sync::atomic::Ordering;

use weft_sockets::end::{NARROW, SHUT};
use weft_sockets::{Broken, Inbound, Reason, Source};

use crate::anchor::{self, Anchor};
use crate::buffers::Buffers;
use crate::patience::{Next, Patience};
use crate::transfer::{Call, Step, add, answer, failed, has_unread, in_inbound};
use crate::{channel, sleep};

/// Receives as `recv` does. Returns the kernel's answer.
pub(crate) fn receive(call: &Call, buffers: Buffers<'_>) -> isize {
    let wanted = buffers.len();
    let mut patience = Patience::new(call.descriptor, libc::POLLIN);
    let mut taken = 0;
    loop {
        let step = match take(call, buffers, taken) {
            Step::Nothing if taken > 0 && taken >= least(call, wanted) => return answer(taken),
            Step::Nothing => {
                match patience.next(&call.stream, call.flags, channel::is_on_this_cpu(&call.stream)) {
                    Next::Look => continue,
                    Next::Leave if taken > 0 => return answer(taken),
                    // Calls that never wait hear of the other end's death here.
                    Next::Leave => match look_at_anchor(call, buffers, taken) {
                        Step::Nothing => Step::Failed(libc::EAGAIN),
                        step => step,
                    },
                    Next::Sleep if !anchor::is_of(call.descriptor, &call.stream) => Step::Failed(libc::EBADF),
                    Next::Sleep => look_at_anchor(call, buffers, taken),
                }
            }
            step => step,
        };
        match step {
            Step::Moved(octets) => {
                patience.pay(&call.stream);
                taken += octets;
                // A peek sees the same octets again.
                if taken == wanted || octets > 0 && call.has(libc::MSG_PEEK) {
                    return answer(taken);
                }
            }
            Step::End => return answer(taken),
            Step::Failed(_) if taken > 0 => return answer(taken),
            Step::Failed(error) => return -(error as isize),
            Step::Nothing => {
                let error = patience.sleep(&call.stream);
                // As the kernel does: without room a call waits once, whatever comes of it.
                if wanted == 0 && !call.is_nonblocking() {
                    return 0;
                }
                if let Some(error) = error {
                    return if taken > 0 { answer(taken) } else { error };
                }
            }
        }
    }
}

/// Octets below which a call waits for more.
fn least(call: &Call, wanted: usize) -> usize {
    if call.has(libc::MSG_WAITALL) {
        wanted
    } else if call.stream.end.has(NARROW) {
        anchor::low_water(call.descriptor).min(wanted)
    } else {
        1
    }
}

/// Receives what is there, behind `taken` octets that this call already has.
fn take(call: &Call, buffers: Buffers<'_>, taken: usize) -> Step {
    in_inbound(call, |inbound| match inbound.source()? {
        Source::Tcp { left } => {
            let step = from_kernel(call, buffers, taken, left.unwrap_or(u64::MAX));
            if let Step::Moved(octets) = step
                && !call.has(libc::MSG_PEEK)
            {
                call.stream.end.inbound.count(octets as u64);
            }
            // Before a ring there is no end of the stream.
            Ok(if step == Step::End && left.is_some() { Step::Failed(libc::ECONNRESET) } else { step })
        }
        Source::Ring { available: 0 } => Ok(silence(call, inbound, buffers, taken)),
        Source::Ring { .. } => from_ring(call, inbound, buffers, taken).map(Step::Moved),
    })
}

/// Receives by the kernel's socket without waiting.
fn from_kernel(call: &Call, buffers: Buffers<'_>, taken: usize, most: u64) -> Step {
    let flags = call.flags & !libc::MSG_WAITALL | libc::MSG_DONTWAIT;
    match buffers.window(taken, most).receive(call.descriptor, flags) {
        0 if taken < buffers.len() => Step::End,
        octets @ 0.. => Step::Moved(octets.unsigned_abs()),
        error => failed(error),
    }
}

/// Takes octets from the ring, as many as are there.
fn from_ring(
    call: &Call,
    inbound: &Inbound<'_>,
    buffers: Buffers<'_>,
    place: usize,
) -> Result<usize, Broken> {
    let mut moved = 0;
    for part in buffers.places(place) {
        let octets = if call.has(libc::MSG_PEEK) {
            inbound.peek(moved as u64, part)?
        } else if call.has(libc::MSG_TRUNC) {
            inbound.discard(part.len())?
        } else {
            inbound.read(part)?
        };
        moved += octets;
        if octets < part.len() {
            break;
        }
    }
    if !call.has(libc::MSG_PEEK) {
        add(&call.stream.end.counts.in_ring, moved);
        if sleep::has_barriers() {
            inbound.stay_awake();
        }
    }
    Ok(moved)
}

/// Says what an empty ring means, as far as the link tells. Of a reset the kernel tells.
fn silence(call: &Call, inbound: &Inbound<'_>, buffers: Buffers<'_>, taken: usize) -> Step {
    let is_shut = call.stream.end.inbound.flags.load(Ordering::Relaxed) & SHUT != 0;
    if !inbound.is_at_end() && !is_shut {
        return Step::Nothing;
    }
    match from_kernel(call, buffers, taken, u64::MAX) {
        // Its end of the stream is on its way.
        Step::Nothing => Step::End,
        step => step,
    }
}

/// Asks the kernel's socket below an empty ring whether the other end lives.
fn look_at_anchor(call: &Call, buffers: Buffers<'_>, taken: usize) -> Step {
    if anchor::recall(&call.stream) {
        anchor::bury(&call.stream);
        return Step::Failed(libc::ECONNRESET);
    }
    let found = match anchor::look(call.descriptor) {
        Anchor::Silent => return Step::Nothing,
        Anchor::Failed(error) => Step::Failed(error),
        Anchor::Foreign => {
            call.stream.end.stay(Reason::Foreign);
            Step::Nothing
        }
        Anchor::Ended if anchor::is_dead(&call.stream) || !has_unread(&call.stream) => Step::End,
        Anchor::Ended => Step::Failed(libc::ECONNRESET),
    };
    // What the other end wrote to the ring before comes first.
    in_inbound(call, |inbound| match inbound.source()? {
        Source::Ring { available: 0 } if found == Step::Nothing => {
            Ok(from_kernel(call, buffers, taken, u64::MAX))
        }
        Source::Ring { available: 0 } => {
            if let Step::Failed(_) = found {
                anchor::bury(&call.stream);
            }
            Ok(found)
        }
        _ => {
            if let Step::Failed(_) = found {
                anchor::remember(&call.stream);
            }
            Ok(Step::Moved(0))
        }
    })
}
