//! What one stream may do to registered memory: the same checks, copies and blame for queue pairs and for streams
//! without verbs.

use weft_ddp::Stag;
use weft_rdmap::{AtomicRequest, AtomicResponse, ReadRequest};

use crate::access::Access;
use crate::ids::{PdId, StreamId};
use crate::memory::{Claim, MemoryTable, Span, Violation};
use crate::payload::Payload;
use crate::pieces::Piece;
use crate::region::Entries;

/// The memory in reach of one stream, of its peer and of its own side.
///
/// An access of no octets is not checked (RFC 5041 section 5.2).
#[derive(Clone, Copy, Debug)]
pub struct Reach<'a> {
    /// All memory.
    pub memory: &'a MemoryTable,
    /// The protection domain of the stream.
    pub pd: PdId,
    /// The stream.
    pub stream: StreamId,
}

impl<'a> Reach<'a> {
    /// Returns where `len` octets of memory of our own are, to be read on our own behalf.
    ///
    /// # Errors
    /// [`Violation`] when they cannot be read.
    #[inline(always)]
    pub fn lend(&self, stag: Stag, to: u64, len: usize) -> Result<Span<'a>, Violation> {
        self.memory.check(self.claim(stag, Access::LOCAL_READ), to, len)
    }

    /// Returns where the next octets of a Read Response are.
    ///
    /// # Errors
    /// What the peer is to be told when the memory is not there any more.
    pub fn lend_answer(&self, stag: Stag, to: u64, len: usize) -> Result<Span<'a>, weft_rdmap::Error> {
        self.memory.check(self.claim(stag, Access::REMOTE_READ), to, len).map_err(remote_protection)
    }

    /// Returns where the octets of a Write of the peer go.
    ///
    /// # Errors
    /// What the peer is to be told.
    pub fn lend_for_write(&self, stag: Stag, to: u64, len: usize) -> Result<Span<'a>, weft_rdmap::Error> {
        self.memory.check(self.claim(stag, Access::REMOTE_WRITE), to, len).map_err(tagged)
    }

    /// Returns where octets go that answer a Read of ours.
    ///
    /// # Errors
    /// As for [`Reach::place_response`].
    pub fn lend_for_response(&self, stag: Stag, to: u64, len: usize) -> Result<Span<'a>, weft_rdmap::Error> {
        self.memory.check(self.claim(stag, Access::LOCAL_WRITE), to, len).map_err(tagged)
    }
}

impl Reach<'_> {
    /// Places the octets of a Write of the peer.
    ///
    /// # Errors
    /// What the peer is to be told.
    #[inline]
    pub fn write(&self, stag: Stag, to: u64, payload: &[u8]) -> Result<(), weft_rdmap::Error> {
        self.place(self.claim(stag, Access::REMOTE_WRITE), to, payload).map_err(tagged)
    }

    /// Places octets that answer a Read of ours.
    ///
    /// # Errors
    /// What the peer is to be told, although our own request is at fault: its sink is not there any more.
    #[inline]
    pub fn place_response(&self, stag: Stag, to: u64, payload: &[u8]) -> Result<(), weft_rdmap::Error> {
        self.deliver(stag, to, payload).map_err(tagged)
    }

    /// Places octets in memory of our own, on our own behalf.
    ///
    /// # Errors
    /// [`Violation`] when the memory does not take them.
    #[inline(always)]
    pub fn deliver(&self, stag: Stag, to: u64, payload: &[u8]) -> Result<(), Violation> {
        self.place(self.claim(stag, Access::LOCAL_WRITE), to, payload)
    }

    /// Places the pieces of a message. Elements of a list that lie in the entries of the same send queue, with no other
    /// entries between them, ring its doorbell once: a ring for each of them would be most of what a short one costs.
    ///
    /// # Errors
    /// [`Violation`] when the memory does not take one of them. Those before it have been placed.
    #[inline]
    pub(crate) fn scatter(
        &self,
        mut pieces: impl Iterator<Item = Piece>,
        payload: &[u8],
    ) -> Result<(), Violation> {
        let mut changed: Option<&Entries> = None;
        let placed = pieces.try_for_each(|piece| {
            let octets = &payload[piece.range];
            let claim = self.claim(piece.sge.lkey, Access::LOCAL_WRITE);
            let span = self.memory.check(claim, piece.to, octets.len())?;
            let Some(entries) = span.region().entries() else { return span.copy_in(octets) };
            if let Some(before) = changed.filter(|before| !core::ptr::eq(*before, entries)) {
                before.ring();
            }
            changed = Some(entries);
            let is_done = entries.copy_in(span.offset(), octets);
            if is_done { Ok(()) } else { Err(span.region().violation(span.offset(), octets.len())) }
        });
        if let Some(entries) = changed {
            entries.ring();
        }
        placed
    }

    /// Places octets for a stream with the right that the claim names.
    ///
    /// # Errors
    /// [`Violation`] when the memory does not take them.
    #[inline(always)]
    pub fn place(&self, claim: Claim, to: u64, payload: &[u8]) -> Result<(), Violation> {
        if payload.is_empty() {
            return Ok(());
        }
        self.memory.check(claim, to, payload.len())?.copy_in(payload)
    }

    /// Puts `len` octets of memory of our own, read on our own behalf, into a segment's payload.
    ///
    /// # Errors
    /// [`Violation`] when they cannot be read, or there is no place for them.
    #[inline]
    pub fn fetch(&self, stag: Stag, to: u64, len: usize, payload: &mut Payload<'_>) -> Result<(), Violation> {
        if len == 0 {
            return Ok(());
        }
        self.memory.check(self.claim(stag, Access::LOCAL_READ), to, len)?.put_into(len, payload)
    }

    /// Checks whether the peer may read the memory that it asks for.
    ///
    /// # Errors
    /// What the peer is to be told.
    pub fn check_read(&self, request: &ReadRequest) -> Result<(), weft_rdmap::Error> {
        if request.size == 0 {
            return Ok(());
        }
        let claim = self.claim(request.source_stag, Access::REMOTE_READ);
        let checked = self.memory.check(claim, request.source_to, request.size as usize);
        checked.map(|_| ()).map_err(remote_protection)
    }

    /// Fills all that is left of a payload with the next octets of a Read Response.
    ///
    /// # Errors
    /// What the peer is to be told when the memory is not there any more.
    #[inline]
    pub fn answer_read(
        &self,
        stag: Stag,
        to: u64,
        payload: &mut Payload<'_>,
    ) -> Result<(), weft_rdmap::Error> {
        let len = payload.left();
        if len == 0 {
            return Ok(());
        }
        let span = self.memory.check(self.claim(stag, Access::REMOTE_READ), to, len);
        span.and_then(|span| span.put_into(len, payload)).map_err(remote_protection)
    }

    /// Checks whether the peer may do the Atomic that it asks for, on 64 bits that are aligned.
    ///
    /// # Errors
    /// What the peer is to be told.
    pub fn check_atomic(&self, request: &AtomicRequest) -> Result<(), weft_rdmap::Error> {
        let claim = self.claim(request.stag, Access::REMOTE_ATOMIC);
        let span = self.memory.check(claim, request.to, size_of::<u64>());
        span.and_then(|span| span.check_aligned()).map_err(remote_protection)
    }

    /// Does an Atomic of the peer, and returns the response.
    ///
    /// # Errors
    /// What the peer is to be told when the memory is not there any more.
    pub fn answer_atomic(&self, request: &AtomicRequest) -> Result<AtomicResponse, weft_rdmap::Error> {
        let AtomicRequest { op, id, stag, to } = *request;
        let span = self.memory.check(self.claim(stag, Access::REMOTE_ATOMIC), to, size_of::<u64>());
        let original = span.and_then(|span| span.update(|value| op.apply(value)));
        original.map(|original| AtomicResponse { id, original }).map_err(remote_protection)
    }

    /// Returns a claim of this stream on the memory of an STag.
    pub const fn claim(&self, stag: Stag, right: Access) -> Claim {
        Claim { stag, right, pd: self.pd, stream: self.stream }
    }
}

/// Returns the error for a Write or Read Response that hit memory it may not touch: DDP's errors, but access rights are
/// RDMAP's (doubt D10).
const fn tagged(violation: Violation) -> weft_rdmap::Error {
    weft_rdmap::Error::Ddp(match violation {
        Violation::InvalidStag => weft_ddp::Error::InvalidStag,
        Violation::WrongPd | Violation::WrongStream => weft_ddp::Error::WrongStream,
        Violation::Wrap => weft_ddp::Error::ToWrap,
        Violation::Bounds => weft_ddp::Error::BaseOrBounds,
        Violation::Access | Violation::Bound | Violation::Gone => return weft_rdmap::Error::AccessRights,
        Violation::Unaligned => return weft_rdmap::Error::StreamCatastrophic,
    })
}

/// Returns the error for a Read or Atomic Request that names memory it may not reach: RDMAP's remote protection errors.
/// An Atomic that is not aligned is an operation error (RFC 7306 section 8.2).
const fn remote_protection(violation: Violation) -> weft_rdmap::Error {
    match violation {
        Violation::InvalidStag => weft_rdmap::Error::InvalidStag,
        Violation::WrongPd | Violation::WrongStream => weft_rdmap::Error::WrongStream,
        Violation::Wrap => weft_rdmap::Error::ToWrap,
        Violation::Bounds => weft_rdmap::Error::BaseOrBounds,
        Violation::Access | Violation::Bound | Violation::Gone => weft_rdmap::Error::AccessRights,
        Violation::Unaligned => weft_rdmap::Error::StreamCatastrophic,
    }
}
