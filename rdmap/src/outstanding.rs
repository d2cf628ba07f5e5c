//! The two bounded queues that Reads and Atomics share (RFC 7306 section 5.2): our own requests (ORQ) and the peer's
//! (IRQ).

use core::marker::PhantomData;

use weft_ddp::Stag;

use crate::{AtomicRequest, ReadRequest, Token};

/// A Read or Atomic of ours that was sent and is not yet answered in full. It takes one slot of the ORQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OutstandingRequest {
    pub(crate) token: Token,
    pub(crate) msn: u32,
    pub(crate) expected: Expected,
}

/// The answer that an [`OutstandingRequest`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The rest of a Read Response.
    Read(Sink),
    /// The Atomic Response with this identifier.
    Atomic(u32),
}

/// The place for the octets of a Read of ours, and the number that have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Sink {
    pub(crate) stag: Stag,
    pub(crate) to: u64,
    pub(crate) size: u32,
    pub(crate) received: u32,
}

impl Default for Expected {
    fn default() -> Self {
        Self::Read(Sink::default())
    }
}

/// A Read or Atomic of the peer that is not yet answered in full. It takes one slot of the IRQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PendingRequest {
    /// The peer's request.
    pub asked: Asked,
    /// Sequence number of the request.
    pub msn: u32,
    /// The octets of a Read Response that were handed out to be sent.
    pub sent: u32,
}

/// A request on queue 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A Read of octets.
    Read(ReadRequest),
    /// An operation on 64 bits.
    Atomic(AtomicRequest),
}

impl Default for Asked {
    fn default() -> Self {
        Self::Read(ReadRequest::default())
    }
}

/// A first-in first-out queue in the owner's storage. Its length was negotiated with the peer. So the caller supplies
/// the storage, of any size, also 0.
#[derive(Debug)]
pub(crate) struct Fifo<T, S> {
    storage: S,
    head: usize,
    len: usize,
    entry: PhantomData<T>,
}

impl<T: Copy, S: AsRef<[T]> + AsMut<[T]>> Fifo<T, S> {
    pub(crate) const fn new(storage: S) -> Self {
        Self { storage, head: 0, len: 0, entry: PhantomData }
    }

    /// Appends an entry, or returns it when the queue is full.
    pub(crate) fn push(&mut self, entry: T) -> Result<(), T> {
        let capacity = self.capacity();
        if self.len == capacity {
            return Err(entry);
        }
        let end = self.head + self.len;
        let slot = if end < capacity { end } else { end - capacity };
        let Some(slot) = self.storage.as_mut().get_mut(slot) else { return Err(entry) };
        *slot = entry;
        self.len += 1;
        Ok(())
    }

    pub(crate) fn pop(&mut self) {
        if self.len > 0 {
            self.len -= 1;
            self.head = if self.head + 1 < self.capacity() { self.head + 1 } else { 0 };
        }
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.iter().next()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let (storage, head, capacity) = (self.storage.as_ref(), self.head, self.capacity());
        (head..head + self.len)
            .map(move |slot| &storage[if slot < capacity { slot } else { slot - capacity }])
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        if self.len == 0 { None } else { self.storage.as_mut().get_mut(self.head) }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == self.capacity()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn capacity(&self) -> usize {
        self.storage.as_ref().len()
    }
}
