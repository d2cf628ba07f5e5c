//! What the kernel tells of a far end before its link does, and words that a daemon carries, as the library has them.

use weft_sockets_stepped::end::FAR;
use weft_sockets_stepped::sync::Ordering::Relaxed;
use weft_sockets_stepped::{Carrier, Inbound, Outbound};

use super::end::End;
use super::record::Sifted;
use super::sabotage::Sabotage;

impl End {
    /// True if the kernel's news are an end of the stream, or octets, that the reader must not see yet.
    pub(crate) fn hides(&self) -> bool {
        if !self.words().has(FAR) || self.world.sabotage == Some(Sabotage::EarlyEnd) {
            return false;
        }
        let (kernel, socket) = (self.world.kernel.borrow(), self.socket());
        let is_end = kernel.is_ended(socket) || kernel.is_broken(socket);
        let (is_readable, has_failed) = (kernel.is_readable(socket), kernel.has_failed(socket));
        drop(kernel);
        match self.sift(is_readable, is_end) {
            Sifted::Same => {}
            Sifted::Nothing => return true,
            Sifted::Broken => return false,
        }
        let leg = self.words().inbound.leg();
        let is_ring = leg.carrier != Carrier::Tcp;
        let is_ahead = is_end || is_ring && is_readable;
        if has_failed || !is_ahead || !self.is_early() {
            return false;
        }
        let has_unread = || self.world.kernel.borrow().queued_here(socket) > 0;
        is_ring || leg.number == 0 && self.in_gate().is_closed() && !has_unread()
    }

    /// True if the kernel's word that the other end is done with the connection does not count yet.
    pub(crate) fn is_early(&self) -> bool {
        if !self.words().has(FAR) || self.world.sabotage == Some(Sabotage::EarlyEnd) {
            return false;
        }
        let _told_before =
            self.words().inbound.early.compare_exchange(0, self.milliseconds(), Relaxed, Relaxed);
        self.left().is_some()
    }

    /// Returns the microseconds until earlier news of the kernel's count.
    pub(crate) fn left(&self) -> Option<u64> {
        let since = self.words().inbound.early.load(Relaxed);
        if since == 0 {
            return None;
        }
        let left = PATIENCE.checked_sub(self.milliseconds() - since).filter(|left| *left > 0)?;
        (!self.is_told()).then_some(u64::from(left) * 1000)
    }

    /// True if the kernel's socket is at its end, and the link has not told of one for too long.
    pub(crate) fn is_late(&self) -> bool {
        self.words().has(FAR) && self.words().inbound.early.load(Relaxed) != 0 && !self.is_told()
    }

    /// The link is late. A lane that is lost or a daemon that is stopped makes it so. So does a sender by TCP that cannot tell
    /// its end by the link: another program, or a child that does not know the link while its parent makes no call.
    pub(crate) fn excuse_late(&self) {
        let is_troubled = || self.world.trouble.get().is_some_and(|at| at + TROUBLED > self.world.now.get());
        let may_be = self.words().inbound.leg().number == 0 || is_troubled();
        if may_be && self.is_late() && !self.connection.is_excused() {
            self.world.tally.borrow_mut().fault("link later than the kernel by two seconds", 1);
            self.connection.excuse();
        }
    }

    /// True if the link tells of a reset that this host's kernel does not know.
    pub(crate) fn is_broken_by_link(&self) -> bool {
        let Some(link) = self.link().filter(|_| self.words().has(FAR) && self.in_gate().is_closed()) else {
            return false;
        };
        let inbound = self.inbound(&link);
        let is_reset = inbound.is_reset() && inbound.end().is_none();
        let (kernel, socket) = (self.world.kernel.borrow(), self.socket());
        is_reset && !kernel.is_broken(socket) && !kernel.is_ended(socket)
    }

    fn is_told(&self) -> bool {
        self.link().is_none_or(|link| {
            let inbound = self.inbound(&link);
            let is_done = inbound.is_end_expected() || inbound.is_reset() || inbound.is_closed();
            is_done || inbound.is_before_tcp() == Ok(true)
        })
    }

    pub(crate) fn milliseconds(&self) -> u32 {
        u32::try_from(self.world.now.get() / 1000).unwrap_or(u32::MAX).max(1)
    }

    /// Wakes the daemon that carries a word of the reader's.
    pub(crate) fn tell_sender_of(&self, inbound: &Inbound<'_>) {
        if self.words().has(FAR) {
            self.process.wake(&self.world, self.place(), inbound.waiting_sender());
        }
    }

    /// As `tell_sender_of`, behind a word of the sender's.
    pub(crate) fn tell_reader_of(&self, outbound: &Outbound<'_>) {
        if self.words().has(FAR) {
            self.process.wake(&self.world, self.place(), outbound.sleepers());
        }
    }

    /// Publishes what was left behind in a section, and wakes the sender that waits for it.
    pub(crate) fn catch_up(&self, inbound: &Inbound<'_>) {
        while inbound.is_behind() {
            let section = self.in_section(inbound);
            let has_adopted = inbound.take_adopted();
            inbound.republish();
            let sleepers = if has_adopted { inbound.waiting_sender() } else { inbound.sleepers() };
            self.leave(section);
            self.process.wake(&self.world, self.place(), sleepers);
        }
    }
}

/// What goes wrong with a daemon may be heard so much later, in microseconds: programs sleep meanwhile.
const TROUBLED: u64 = 30_000_000;
/// How long the link may take behind the kernel's socket, in milliseconds.
const PATIENCE: u32 = 2000;
