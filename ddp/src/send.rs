//! Cutting messages into segments.

use crate::{Header, Queue, Stag, queue::QUEUES};

/// The sending half of a DDP stream: numbers the messages of each queue (RFC 5041 section 4.3).
///
/// `S` is the storage for the next number of each queue: an array for the four that RDMAP uses or, for another ULP, what its
/// owner lends.
#[derive(Debug, Clone)]
pub struct Sender<S = [u32; QUEUES]> {
    next_msn: S,
}

impl Sender {
    /// A sender on a fresh stream: the first message of each queue gets MSN 1.
    pub const fn new() -> Self {
        Self::with_msn(1)
    }

    /// A sender whose next message on every queue gets `msn`; for tests of the wrap from 0xFFFFFFFF to 0.
    pub const fn with_msn(msn: u32) -> Self {
        Self { next_msn: [msn; QUEUES] }
    }

    /// Starts an untagged message of `len` octets. It takes the queue's next MSN at once, so it must be sent
    /// to its end, or nothing more be sent on that queue.
    #[inline]
    pub fn untagged(&mut self, control: u8, word: u32, queue: Queue, len: u32) -> Cutter {
        let queue = queue as u32;
        // An enum value below QUEUES is always a valid index.
        let msn = number(&mut self.next_msn[queue as usize]);
        Cutter::new(Header::Untagged { last: false, control, word, queue, msn, mo: 0 }, len)
    }
}

impl<S: AsMut<[u32]>> Sender<S> {
    /// A sender whose next message on queue `n` gets the MSN that entry `n` says, 1 on a fresh stream.
    pub const fn with_queues(next_msn: S) -> Self {
        Self { next_msn }
    }

    /// Starts an untagged message as [`Sender::untagged`] does, on any queue. None if there is no such queue.
    pub fn untagged_on(&mut self, control: u8, word: u32, queue: u32, len: u32) -> Option<Cutter> {
        let msn = number(self.next_msn.as_mut().get_mut(usize::try_from(queue).ok()?)?);
        Some(Cutter::new(Header::Untagged { last: false, control, word, queue, msn, mo: 0 }, len))
    }

    /// Starts a tagged message of `len` octets that goes to offset `to` of the peer's buffer `stag`.
    #[inline]
    pub fn tagged(&self, control: u8, stag: Stag, to: u64, len: u32) -> Cutter {
        Cutter::new(Header::Tagged { last: false, control, stag, to }, len)
    }
}

impl Default for Sender {
    fn default() -> Self {
        Self::new()
    }
}

/// One message on its way out: yields its segments in order, each as large as the space at hand allows.
#[derive(Debug, Clone)]
pub struct Cutter {
    first: Header,
    len: u32,
    offset: u32,
    done: bool,
}

impl Cutter {
    /// Cuts the next segment, of at most `max_ulpdu` octets with its header.
    ///
    /// None when the message is done, or when `max_ulpdu` holds no header or (with payload left) not one octet
    /// behind it; then ask again when there is more room. A message without payload is one segment.
    #[inline]
    pub fn next(&mut self, max_ulpdu: usize) -> Option<Cut> {
        if self.done {
            return None;
        }
        let room = max_ulpdu.checked_sub(self.first.len())?;
        let remaining = self.remaining();
        if room == 0 && remaining > 0 {
            return None;
        }
        let len = u32::try_from(room).map_or(remaining, |room| room.min(remaining));
        let offset = self.offset;
        self.offset += len;
        self.done = self.offset == self.len;
        // `len` is at most `room`, which is a usize.
        Some(Cut { header: self.first.at(offset, self.done), offset, len: len as usize })
    }

    /// The header of the first segment, with the last flag clear: STag and TO, or queue and MSN.
    pub const fn first(&self) -> &Header {
        &self.first
    }

    /// Octets of payload not yet cut.
    pub const fn remaining(&self) -> u32 {
        self.len - self.offset
    }

    /// Octets of payload already cut.
    pub const fn offset(&self) -> u32 {
        self.offset
    }

    /// True once the last segment was cut.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// True as long as nothing of the message was cut.
    pub const fn is_untouched(&self) -> bool {
        self.offset == 0 && !self.done
    }

    /// True if the message goes to a tagged buffer.
    pub const fn is_tagged(&self) -> bool {
        self.first.is_tagged()
    }

    const fn new(first: Header, len: u32) -> Self {
        Self { first, len, offset: 0, done: false }
    }
}

/// One segment to build: its header, and which octets of the message follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The header to emit.
    pub header: Header,
    /// Offset in the message of the first payload octet.
    pub offset: u32,
    /// Octets of payload.
    pub len: usize,
}

/// Takes the next MSN of a queue.
const fn number(next: &mut u32) -> u32 {
    let msn = *next;
    *next = msn.wrapping_add(1);
    msn
}
