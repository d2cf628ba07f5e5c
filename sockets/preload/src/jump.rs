//! Jumps out of signal handlers: what a handler has interrupted does not go on.

use core::sync::atomic::Ordering;

use weft_sockets::end::ASKING;
use weft_sockets::{Level, Lock};

use crate::ends::{self, Stream};
use crate::{calls, channel, nested, section, sets, wake};

/// Frees the locks of this thread, which jumps out of a signal handler and of what that has interrupted. What a section
/// has not written is given up. What it has written goes to the other end, which hears of it.
pub(crate) fn abandon() {
    nested::set_sending(false);
    if section::leave_all() {
        ends::all().for_each(|(_, stream)| abandon_stream(&stream));
        sets::locks().filter(|lock| lock.is_mine(section::me())).for_each(free);
    }
}

fn abandon_stream(stream: &Stream) {
    let me = section::me();
    let (inbound, outbound) = (channel::inbound(stream), channel::outbound(stream));
    let lock = Lock::new(&stream.end.inbound.lock);
    if lock.is_mine(me) {
        stream.end.inbound.flags.fetch_and(!ASKING, Ordering::Relaxed);
        if let Some(inbound) = inbound {
            inbound.republish();
        }
        free(lock);
    }
    let lock = Lock::new(&stream.end.outbound.lock);
    if lock.is_mine(me) {
        if let Some(outbound) = outbound {
            outbound.republish();
        }
        free(lock);
    }
    if let Some(outbound) = outbound {
        wake::wake(stream, outbound.sleepers());
    }
    if let Some(inbound) = inbound {
        wake::tell_sender(stream, &inbound);
    }
}

fn free(lock: Lock<'_>) {
    if lock.unlock(Level::Shared) {
        calls::futex_wake(lock.futex());
    }
}
