//! What a reader wants of its sender.

use crate::inbound::Inbound;
use crate::layout::{ATTACHED, DECLINED};
use crate::sync::Ordering;

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
}
