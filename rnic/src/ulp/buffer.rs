//! Untagged buffers that the ULP has posted.

use std::collections::VecDeque;

/// A buffer for one untagged message. Its length is the longest allowed message in octets.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) id: u64,
    pub(super) octets: Vec<u8>,
}

/// The buffers of one queue, in the order in which messages take them.
#[derive(Debug, Default)]
pub(super) struct BufferQueue {
    buffers: VecDeque<Buffer>,
}

impl BufferQueue {
    /// Adds a buffer at the end of the queue.
    pub(super) fn post(&mut self, id: u64, octets: Vec<u8>) {
        self.buffers.push_back(Buffer { id, octets });
    }

    /// Places a part of the current message.
    pub(super) fn place(&mut self, offset: u32, payload: &[u8]) -> Result<(), weft_ddp::Error> {
        let buffer = self.buffers.front_mut().ok_or(weft_ddp::Error::NoBuffer)?;
        let start = offset as usize;
        let place = start.checked_add(payload.len()).and_then(|end| buffer.octets.get_mut(start..end));
        place.ok_or(weft_ddp::Error::TooLong)?.copy_from_slice(payload);
        Ok(())
    }

    /// Takes the buffer of a complete message, cut to the message's `len` octets.
    pub(super) fn deliver(&mut self, len: u32) -> Option<Buffer> {
        let mut buffer = self.buffers.pop_front()?;
        buffer.octets.truncate(len as usize);
        Some(buffer)
    }

    /// Takes a buffer that gets no message any more.
    pub(super) fn give_back(&mut self) -> Option<Buffer> {
        self.buffers.pop_front()
    }
}
