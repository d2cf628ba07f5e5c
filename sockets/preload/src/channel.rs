//! The directions of an end that this library runs by itself: those whose gates are closed.

use core::sync::atomic::Ordering;

use weft_sockets::{Gate, Inbound, Outbound};

use crate::ends::Stream;
use crate::links;

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
    let (channel, party) = place(stream);
    Inbound::new(&stream.end.inbound, links::of(stream)?, channel, party)
}

/// Returns the sending direction of an end that has a channel.
#[inline]
pub(crate) fn offered_outbound(stream: &Stream) -> Option<Outbound<'static>> {
    let (channel, party) = place(stream);
    Outbound::new(&stream.end.outbound, links::of(stream)?, channel, party)
}

/// True if the sender ran on this thread's CPU when it published last.
pub(crate) fn is_on_this_cpu(stream: &Stream) -> bool {
    let cpu = rustix::thread::sched_getcpu();
    inbound(stream).is_some_and(|inbound| usize::from(inbound.sender_cpu()) == cpu)
}

/// The channel, and the party that the end is.
#[inline]
fn place(stream: &Stream) -> (u32, u32) {
    let identity = &stream.end.identity;
    (identity.channel.load(Ordering::Relaxed), identity.party.load(Ordering::Relaxed))
}
