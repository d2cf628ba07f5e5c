//! The receiving direction, by numbers: octets that may be read, and grants to the peer.

use std::collections::VecDeque;

/// The own buffer of two halves. Offsets are from its start.
#[derive(Debug)]
pub(crate) struct Inbound {
    half: u32,
    credits: u16,
    /// Octets of each message that is not completely read.
    messages: VecDeque<u32>,
    /// Their sum, and the offset of the first of them.
    unread: u32,
    start: u32,
    /// Octets that the peer may write and has not reported yet.
    open: u32,
    /// Octets that were read and are not granted again yet.
    free: u32,
    /// The half of the next grant.
    next: u32,
    /// Messages that were read, and the count at which a grant goes out at the latest.
    read: u16,
    due: u16,
}

/// A grant to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The number of messages that may come in all.
    pub(crate) credits: u16,
    /// The offset of the half that the peer may write, if any.
    pub(crate) half: Option<u32>,
}

/// The error for a peer that broke the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation;

impl Inbound {
    /// For a buffer of twice `half` octets. The peer knows its first half, and may send `credits` messages.
    pub(crate) const fn new(half: u32, credits: u16) -> Self {
        Self {
            half,
            credits,
            messages: VecDeque::new(),
            unread: 0,
            start: 0,
            open: half,
            free: half,
            next: half,
            read: 0,
            due: credits / 2,
        }
    }

    /// Counts data that the peer has reported.
    ///
    /// # Errors
    /// If that is more than it may send, in octets or messages.
    pub(crate) fn arrive(&mut self, len: u32) -> Result<(), Violation> {
        if len > self.open || self.messages.len() >= self.credits.into() {
            return Err(Violation);
        }
        if len == 0 {
            self.read_one();
            return Ok(());
        }
        self.open -= len;
        self.unread += len;
        self.messages.push_back(len);
        Ok(())
    }

    /// Counts a message that takes a credit and is no data.
    pub(crate) const fn read_one(&mut self) {
        self.read = self.read.wrapping_add(1);
    }

    /// Returns the offset of the unread octets behind the first `skip`, and how many of them lie together.
    pub(crate) fn unread(&self, skip: usize) -> Option<(usize, usize)> {
        let (unread, size, start) = (self.unread as usize, 2 * self.half as usize, self.start as usize);
        let left = unread.checked_sub(skip).filter(|&left| left > 0)?;
        let at = (start + skip) % size;
        Some((at, left.min(size - at)))
    }

    /// Returns true if there are unread octets.
    pub(crate) const fn is_readable(&self) -> bool {
        self.unread > 0
    }

    /// Counts `len` octets as read, at most as many as there are.
    pub(crate) fn consume(&mut self, len: usize) {
        let mut len = u32::try_from(len).unwrap_or(u32::MAX).min(self.unread);
        self.unread -= len;
        self.free += len;
        // The bounds in `Sizes` guarantee that twice the half fits.
        self.start = (self.start + len) % (2 * self.half);
        while let Some(first) = self.messages.front_mut() {
            if *first > len {
                *first -= len;
                break;
            }
            len -= *first;
            self.messages.pop_front();
            self.read_one();
        }
    }

    /// Returns the next grant, if one is due.
    pub(crate) fn grant(&mut self) -> Option<Grant> {
        let has_half = self.free >= self.half;
        if !has_half && self.read.wrapping_sub(self.due).cast_signed() < 0 {
            return None;
        }
        self.due = self.read.wrapping_add(self.credits / 2);
        let half = has_half.then_some(self.next);
        if has_half {
            self.free -= self.half;
            self.open += self.half;
            self.next = self.half - self.next;
        }
        Some(Grant { credits: self.read.wrapping_add(self.credits), half })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_granted_in_turns_as_they_are_read() {
        let mut inbound = Inbound::new(8, 16);
        assert_eq!(inbound.grant(), Some(Grant { credits: 16, half: Some(8) }));
        assert_eq!(inbound.grant(), None);
        inbound.arrive(5).unwrap();
        inbound.arrive(7).unwrap();
        assert_eq!(inbound.unread(0), Some((0, 12)));
        inbound.consume(6);
        assert_eq!(inbound.grant(), None);
        inbound.consume(2);
        assert_eq!(inbound.grant(), Some(Grant { credits: 17, half: Some(0) }));
        inbound.arrive(12).unwrap();
        assert_eq!(inbound.arrive(1), Err(Violation));
        // First to the end of the buffer, then from its start.
        assert_eq!(inbound.unread(0), Some((8, 8)));
        assert_eq!(inbound.unread(8), Some((0, 8)));
        assert_eq!(inbound.unread(16), None);
        inbound.consume(16);
        assert_eq!(inbound.grant(), Some(Grant { credits: 19, half: Some(8) }));
        assert!(!inbound.is_readable());
    }

    #[test]
    fn short_messages_are_granted_by_the_half_of_their_number() {
        let mut inbound = Inbound::new(1000, 16);
        assert!(inbound.grant().is_some());
        for _ in 0..16 {
            inbound.arrive(1).unwrap();
        }
        assert_eq!(inbound.arrive(1), Err(Violation));
        inbound.consume(7);
        assert_eq!(inbound.grant(), None);
        inbound.consume(1);
        assert_eq!(inbound.grant(), Some(Grant { credits: 24, half: None }));
        assert_eq!(inbound.grant(), None);
    }

    #[test]
    fn the_count_of_messages_wraps() {
        let mut inbound = Inbound::new(1 << 20, 0xFFFE);
        let mut granted = inbound.grant().unwrap().credits;
        for sent in 0..300_000_u32 {
            let sent = u16::try_from(sent & 0xFFFF).unwrap();
            assert_ne!(sent, granted, "the peer could not send");
            inbound.arrive(1).unwrap();
            inbound.consume(1);
            if let Some(grant) = inbound.grant() {
                granted = grant.credits;
            }
        }
    }

    #[test]
    fn a_report_beyond_the_buffer_is_a_violation_of_any_size() {
        for len in [9, 0x1FFF_FFFF, u32::MAX] {
            assert_eq!(Inbound::new(8, 4).arrive(len), Err(Violation));
        }
        let mut inbound = Inbound::new(8, 4);
        assert_eq!(inbound.arrive(0), Ok(()));
        assert!(!inbound.is_readable());
    }
}
