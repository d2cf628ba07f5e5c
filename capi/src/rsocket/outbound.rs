//! The sending direction, by numbers: the peer's grants, and the own ring.

use super::message::Message;
use super::place::RemotePlace;

/// The ring of octets under way, and the peer's grants.
#[derive(Debug)]
pub(crate) struct Outbound {
    /// Messages that were sent, and the count at which sending stops.
    sent: u16,
    limit: u16,
    /// Credits that are kept for messages without credit.
    reserve: u16,
    /// The part of the peer's buffer that is not filled.
    target: RemotePlace,
    size: u32,
    head: u32,
    free: u32,
    /// Requests that fit into the send queue.
    requests: u32,
}

impl Outbound {
    /// For a ring of `size` octets and so many `requests`, towards a peer with `credits` and this buffer.
    pub(crate) fn new(size: u32, requests: u32, credits: u16, target: RemotePlace) -> Self {
        // A peer without hardware that holds a message back needs receives for messages without credit.
        let reserve = RESERVE.min(credits / 4);
        Self { sent: 0, limit: credits, reserve, target, size, head: 0, free: size, requests }
    }

    /// Allows messages up to this number.
    pub(crate) const fn allow(&mut self, limit: u16) {
        self.limit = limit;
    }

    /// Returns true if the peer's buffer is full, so that the next one is needed.
    pub(crate) const fn wants_target(&self) -> bool {
        self.target.len == 0
    }

    pub(crate) const fn set_target(&mut self, target: RemotePlace) {
        self.target = target;
    }

    /// Returns how many octets a message can hold now; 0 if it has to wait.
    pub(crate) fn room(&self) -> u32 {
        if self.target.len == 0 || !self.has_credit() { 0 } else { self.direct_room().min(self.target.len) }
    }

    /// Returns how many octets can be written directly now; 0 if that has to wait.
    pub(crate) fn direct_room(&self) -> u32 {
        let is_worth_it = self.free >= LOW_WATER.min(self.size) && self.requests >= 2;
        if is_worth_it { self.free.min(Message::MAX_DATA) } else { 0 }
    }

    /// Returns true if a message that takes a credit and is no data can go now.
    pub(crate) const fn can_tell(&self) -> bool {
        self.has_credit() && self.requests >= 2
    }

    /// Counts a message and its two requests.
    pub(crate) const fn tell(&mut self) {
        self.sent = self.sent.wrapping_add(1);
        self.requests -= 2;
    }

    /// Takes `len` octets of the peer's buffer for a message, at most [`Self::room`].
    pub(crate) const fn fill(&mut self, len: u32) -> RemotePlace {
        let target = self.target;
        self.target.advance(len);
        self.tell();
        target
    }

    /// Takes `len` octets of the ring until [`Self::complete`]. Returns offset and length of each part. The second part
    /// is empty unless the octets go around the ring's end.
    pub(crate) const fn take(&mut self, len: u32) -> [(u32, u32); 2] {
        let to_end = self.size - self.head;
        let first = if len < to_end { len } else { to_end };
        let source = [(self.head, first), (0, len - first)];
        self.head = (self.head + len) % self.size;
        self.free -= len;
        source
    }

    /// Counts a Write without a message.
    pub(crate) const fn write_alone(&mut self) {
        self.requests -= 1;
    }

    /// Gives back requests and octets of the ring.
    pub(crate) const fn complete(&mut self, requests: u32, octets: u32) {
        self.requests += requests;
        self.free += octets;
    }

    /// Returns true if none of `requests` is under way.
    pub(crate) const fn is_done(&self, requests: u32) -> bool {
        self.requests == requests
    }

    const fn has_credit(&self) -> bool {
        self.limit.wrapping_sub(self.sent) > self.reserve
    }
}

/// How many messages without credit may come at a time.
const RESERVE: u16 = 8;
/// Fewer octets are not sent as long as more room is about to come.
const LOW_WATER: u32 = 2048;

#[cfg(test)]
mod tests {
    use weft_rnic::Stag;

    use super::*;

    const TARGET: RemotePlace = RemotePlace { addr: 0x1000, key: Stag(7), len: 5000 };

    #[test]
    fn the_ring_wraps_and_completed_octets_are_free_again() {
        let mut outbound = Outbound::new(4096, 8, 100, TARGET);
        assert_eq!(outbound.room(), 4096);
        assert_eq!(outbound.fill(3000), TARGET);
        assert_eq!(outbound.take(3000), [(0, 3000), (0, 0)]);
        // Less than the low water is free.
        assert_eq!(outbound.room(), 0);
        outbound.complete(2, 3000);
        assert_eq!(outbound.room(), 2000);
        assert_eq!(outbound.fill(2000).addr, 0x1000 + 3000);
        assert_eq!(outbound.take(2000), [(3000, 1096), (0, 904)]);
        assert!(outbound.wants_target() && outbound.room() == 0);
        outbound.complete(2, 2000);
        outbound.set_target(TARGET);
        assert_eq!(outbound.room(), 4096);
        assert!(outbound.is_done(8));
    }

    #[test]
    fn some_credits_are_kept_for_messages_that_need_none() {
        let mut outbound = Outbound::new(4096, 1000, 16, TARGET);
        for _ in 0..12 {
            assert!(outbound.room() > 0);
            outbound.fill(1);
        }
        assert_eq!(outbound.room(), 0);
        assert!(!outbound.can_tell());
        outbound.allow(17);
        assert!(outbound.room() > 0);
    }

    #[test]
    fn a_message_takes_two_requests() {
        let mut outbound = Outbound::new(4096, 3, 16, TARGET);
        outbound.fill(1);
        assert_eq!(outbound.room(), 0);
        assert!(!outbound.can_tell());
        outbound.complete(2, 0);
        assert!(outbound.room() > 0);
    }
}
