//! What a reader wants of its sender, who carries that to it, and whether the sender is there.

use crate::inbound::{ADOPTED, Inbound};
use crate::layout::{ATTACHED, CLOSED, DECLINED};
use crate::sync::{Ordering, fence};
use crate::waiter::Sleepers;

impl Inbound<'_> {
    /// Tells the sender that this reader takes octets from a ring. The gate has to be closed.
    pub fn attach(&self) {
        self.shared.reader.attached.store(ATTACHED, Ordering::Release);
    }

    /// Tells the sender that this reader stays on TCP.
    pub fn decline(&self) {
        self.shared.reader.attached.store(DECLINED, Ordering::Release);
    }

    /// Asks the sender for a larger ring than others, should those be full.
    pub fn want_wide(&self) {
        self.shared.reader.wide.store(1, Ordering::Relaxed);
    }

    /// Asks the sender to [stamp](crate::Outbound::stamp) what it sends.
    pub fn want_stamps(&self) {
        self.shared.reader.stamps.store(1, Ordering::Relaxed);
    }

    /// True once behind each leg that the reader has come to while somebody waited for room. That may be a daemon, which
    /// carries the reader's words to another host: [it](Self::waiting_sender) has to hear of the leg.
    #[must_use]
    pub fn take_adopted(&self) -> bool {
        self.own.behind.fetch_and(!ADOPTED, Ordering::Relaxed) & ADOPTED != 0
    }

    /// Returns who waits for room, or carries the reader's words to another host, behind a store of such a word.
    #[must_use]
    pub fn waiting_sender(&self) -> Option<Sleepers> {
        fence(Ordering::SeqCst);
        Sleepers::from_word(self.shared.legs.waiter.load(Ordering::Relaxed))
    }

    /// True if the sender has told where its stream ends, or has left the ring behind a [record](crate::Record). Then the end
    /// of the kernel's stream does not say that it is dead: it may go on reading.
    #[inline]
    #[must_use]
    pub fn is_end_expected(&self) -> bool {
        self.has_left() || self.end().is_some()
    }

    /// True if the other end was closed before it has begun a ring: the kernel tells the end of the stream alone.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.producer.flags.load(Ordering::Acquire) & CLOSED != 0
    }
}
