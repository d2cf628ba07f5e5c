//! The directions of an end that this library runs by itself: those whose gates are closed.

use core::ffi::c_int;

use weft_sockets::end::FAR;
use weft_sockets::{Broken, Gate, Inbound, Outbound, Source};

use crate::ends::{self, Stream};
use crate::{calls, links};

/// Returns the receiving direction of an end if its reader has attached.
#[inline]
pub(crate) fn inbound(stream: &Stream) -> Option<Inbound<'static>> {
    Gate::new(&stream.end.inbound.inside, false).is_closed().then(|| offered_inbound(stream)).flatten()
}

/// Returns the sending direction of an end if its sender has switched.
#[inline]
pub(crate) fn outbound(stream: &Stream) -> Option<Outbound<'static>> {
    Gate::new(&stream.end.outbound.inside, false).is_closed().then(|| offered_outbound(stream)).flatten()
}

/// Returns the receiving direction of an end that has a channel.
#[inline]
pub(crate) fn offered_inbound(stream: &Stream) -> Option<Inbound<'static>> {
    let (link, channel, party) = ends::place(stream.end);
    Inbound::new(&stream.end.inbound, links::of(link, stream.handle.slot)?, channel, party)
}

/// Returns the sending direction of an end that has a channel.
#[inline]
pub(crate) fn offered_outbound(stream: &Stream) -> Option<Outbound<'static>> {
    let (link, channel, party) = ends::place(stream.end);
    Outbound::new(&stream.end.outbound, links::of(link, stream.handle.slot)?, channel, party)
}

/// True if the sender ran on this thread's CPU when it published last. One on another host runs on none of these.
pub(crate) fn is_on_this_cpu(stream: &Stream) -> bool {
    !stream.end.has(FAR) && inbound(stream).is_some_and(|inbound| inbound.sender_cpu() == calls::cpu())
}

/// True if the other end has told nothing since the last look at a direction that is run here: no octets, or no room.
#[inline]
pub(crate) fn is_still(stream: &Stream, is_inbound: bool) -> bool {
    if is_inbound {
        offered_inbound(stream).is_some_and(|inbound| inbound.is_still())
    } else {
        offered_outbound(stream).is_some_and(|outbound| outbound.is_still())
    }
}

/// Tells whether the next octets come from a ring, and whether a poll for `least` octets is told that they are there. The
/// caller has the direction's lock.
pub(crate) fn look(inbound: &Inbound<'_>, descriptor: c_int, least: usize) -> Result<(bool, bool), Broken> {
    let least = least as u64;
    let behind = if least > 1 && inbound.available(least)? < least { inbound.behind()? } else { 0 };
    let (is_ring, is_there) = match inbound.source()? {
        // A reader that waits for more than half of the ring would wait for ever.
        Source::Ring { available } => (true, available + behind >= least.min(inbound.capacity() / 2).max(1)),
        Source::Tcp { .. } if behind > 0 => {
            let octets = calls::queued(descriptor, libc::FIONREAD).unwrap_or(0);
            (false, octets + behind >= least)
        }
        Source::Tcp { .. } => (false, false),
    };
    Ok((is_ring, is_there || is_ring && inbound.end().is_some() || inbound.is_reset()))
}

#[cfg(test)]
pub(crate) mod tests {
    use core::sync::atomic::Ordering;

    use weft_sockets::Link;
    use weft_sockets::end::{Phase, allocate};

    use super::*;
    use crate::family;
    use crate::table::Handle;

    /// Makes both ends of a connection in this family, with a channel of their own.
    pub(crate) fn pair(link: u64) -> [Stream; 2] {
        assert!(links::add(link, Link::create().expect("memory")));
        [0, 1].map(|party| {
            let slab = &family::opened().slab;
            let (slot, state) = allocate(slab, 200).expect("a place");
            let stream = Stream::of(Handle { slot, generation: state.generation }).expect("an end");
            assert!(stream.end.holders.add(family::member().expect("a place")));
            stream.end.identity.link.store(link, Ordering::Relaxed);
            stream.end.identity.party.store(party, Ordering::Relaxed);
            assert!(stream.end.advance(state, Phase::Offered));
            stream
        })
    }

    /// Forgets both ends and their link.
    pub(crate) fn forget(link: u64, pair: [Stream; 2]) {
        for stream in pair {
            assert!(stream.end.advance(stream.end.state(), Phase::Free));
        }
        links::remove(link);
    }
}
