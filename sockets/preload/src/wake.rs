//! Wakes those who sleep at the other end of a connection, or the daemon that stands between both ends.

use core::sync::atomic::Ordering;

use weft_sockets::end::FAR;
use weft_sockets::layout::EVERYBODY;
use weft_sockets::{Inbound, Outbound, Sleepers};

use crate::ends::Stream;
use crate::{channel, port, sleep};

/// Wakes sleepers of the other end.
#[inline]
pub(crate) fn wake(stream: &Stream, sleepers: Option<Sleepers>) {
    if let Some(sleepers) = sleepers {
        wake_them(stream, sleepers);
    }
}

fn wake_them(stream: &Stream, sleepers: Sleepers) {
    let word = match sleepers {
        Sleepers::One(name) => name.to_word(),
        Sleepers::Everybody => EVERYBODY,
    };
    let identity = &stream.end.identity;
    let (link, party) = (identity.link.load(Ordering::Relaxed), identity.party.load(Ordering::Relaxed));
    if port::wake(link, party, word, sleep::is_awake, sleep::status) {
        stream.end.counts.wakes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Wakes the daemon that carries the words of a far end's reader, behind a store of one of them. The sender of a near end
/// looks at them by itself.
pub(crate) fn tell_sender(stream: &Stream, inbound: &Inbound<'_>) {
    if stream.end.has(FAR) {
        wake(stream, inbound.waiting_sender());
    }
}

/// As [`tell_sender`], behind a word of the sender's.
pub(crate) fn tell_reader(stream: &Stream, outbound: &Outbound<'_>) {
    if stream.end.has(FAR) {
        wake(stream, outbound.sleepers());
    }
}

/// Tells the daemon of a far end that this process has the channel. No ring begins before the other host knows that.
pub(crate) fn appear(stream: &Stream) {
    if stream.end.has(FAR)
        && let Some(outbound) = channel::offered_outbound(stream)
        && outbound.appear()
    {
        tell_reader(stream, &outbound);
    }
}
