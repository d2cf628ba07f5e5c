//! The cutting of messages into segments.

use crate::{Header, Queue, Stag, queue::QUEUES};

/// The sending half of a DDP stream: numbers the messages of each queue (RFC 5041 section 4.3).
///
/// `S` is the storage for the next number of each queue. It is an array for the four queues of RDMAP, or the caller's
/// own storage for another ULP.
#[derive(Debug, Clone)]
pub struct Sender<S = [u32; QUEUES]> {
    next_msn: S,
}

impl Sender {
    /// A sender on a fresh stream: the first message of each queue gets MSN 1.
    pub const fn new() -> Self {
        Self::with_msn(1)
    }

    /// A sender whose next message on every queue gets `msn`. Tests of the wrap from 0xFFFFFFFF to 0 use it.
    pub const fn with_msn(msn: u32) -> Self {
        Self { next_msn: [msn; QUEUES] }
    }

    /// Starts an untagged message of `len` octets. It takes the queue's next MSN at once. So the caller must send it
    /// to its end, or send nothing more on that queue.
    #[inline]
    pub fn untagged(&mut self, control: u8, word: u32, queue: Queue, len: u32) -> Cutter {
        let queue = queue as u32;
        // An enum value below QUEUES is always a valid index.
        let msn = number(&mut self.next_msn[queue as usize]);
        Cutter::new(Header::Untagged { last: false, control, word, queue, msn, mo: 0 }, len)
    }
}

impl<S: AsMut<[u32]>> Sender<S> {
    /// A sender whose next message on queue `n` gets the MSN in entry `n`, 1 on a fresh stream.
    pub const fn with_queues(next_msn: S) -> Self {
        Self { next_msn }
    }

    /// Starts an untagged message as [`Sender::untagged`] does, on any queue. Returns `None` if there is no such
    /// queue.
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

/// One message on its way out. It yields its segments in order, each as large as the given space allows.
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
    /// Returns `None` when the message is done. It also returns `None` if `max_ulpdu` has no room for a header or,
    /// with payload left, for one octet behind it. Then the caller asks again when there is more room. A message
    /// without payload is one segment.
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

    /// Returns the header of the first segment, with the last flag clear: STag and TO, or queue and MSN.
    pub const fn first(&self) -> &Header {
        &self.first
    }

    /// Returns the octets of payload that are not yet cut.
    pub const fn remaining(&self) -> u32 {
        self.len - self.offset
    }

    /// Returns the octets of payload that are already cut.
    pub const fn offset(&self) -> u32 {
        self.offset
    }

    /// Returns true after the last segment was cut.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Returns true as long as no segment of the message was cut.
    pub const fn is_untouched(&self) -> bool {
        self.offset == 0 && !self.done
    }

    /// Returns true if the message goes to a tagged buffer.
    pub const fn is_tagged(&self) -> bool {
        self.first.is_tagged()
    }

    const fn new(first: Header, len: u32) -> Self {
        Self { first, len, offset: 0, done: false }
    }
}

/// One segment to build: its header, and the octets of the message behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The header to emit.
    pub header: Header,
    /// Offset of the first payload octet in the message.
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
