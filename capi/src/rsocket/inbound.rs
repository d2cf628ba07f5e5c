//! What comes: which octets of the own buffer may be read, and what the peer may be told of.

use std::collections::VecDeque;

/// The own buffer of two halves, by numbers. Offsets are from its start.
#[derive(Debug)]
pub(crate) struct Inbound {
    half: u32,
    credits: u16,
    /// Octets of each message that is not wholly read.
    messages: VecDeque<u32>,
    /// Their sum, and where the first of them lies.
    unread: u32,
    start: u32,
    /// Octets that the peer may write, and has not told of.
    open: u32,
    /// Octets that have been read and that the peer knows nothing of.
    free: u32,
    /// The half that it hears of next.
    next: u32,
    /// Messages that were read, and the number of them at which it is told at the latest.
    read: u16,
    due: u16,
}

/// What the peer is to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The number up to which messages may come.
    pub(crate) credits: u16,
    /// Where the half begins that it may write, if there is one.
    pub(crate) half: Option<u32>,
}

/// The peer has broken the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation;

impl Inbound {
    /// For a buffer of twice `half` octets, of which the peer knows the first half, and as many messages as `credits`.
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

    /// The peer has told of data.
    ///
    /// # Errors
    /// When that is more than it may, in octets or messages.
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

    /// A message has come that takes a credit and is no data.
    pub(crate) const fn read_one(&mut self) {
        self.read = self.read.wrapping_add(1);
    }

    /// Where the unread octets behind the first `skip` begin, and how many of them lie together.
    pub(crate) fn unread(&self, skip: usize) -> Option<(usize, usize)> {
        let (unread, size, start) = (self.unread as usize, 2 * self.half as usize, self.start as usize);
        let left = unread.checked_sub(skip).filter(|&left| left > 0)?;
        let at = (start + skip) % size;
        Some((at, left.min(size - at)))
    }

    /// Whether there is something to read.
    pub(crate) const fn is_readable(&self) -> bool {
        self.unread > 0
    }

    /// The first `len` octets were read; no more than there are.
    pub(crate) fn consume(&mut self, len: usize) {
        let mut len = u32::try_from(len).unwrap_or(u32::MAX).min(self.unread);
        self.unread -= len;
        self.free += len;
        // Twice the half fits, as `Sizes` has it.
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

    /// What the peer is to hear now, if it is time.
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
        // To the end of the buffer, then from its start.
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
    fn the_count_of_messages_goes_around() {
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
    fn what_is_told_beyond_the_buffer_is_a_violation_whatever_its_size() {
        for len in [9, 0x1FFF_FFFF, u32::MAX] {
            assert_eq!(Inbound::new(8, 4).arrive(len), Err(Violation));
        }
        let mut inbound = Inbound::new(8, 4);
        assert_eq!(inbound.arrive(0), Ok(()));
        assert!(!inbound.is_readable());
    }
}
