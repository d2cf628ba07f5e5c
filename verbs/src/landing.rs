//! Payload that is placed as it arrives, where no CRC has to be checked first: straight from TCP's socket, or piece by
//! piece. Each step checks the memory anew, as each segment does.

use std::io;
use std::os::fd::BorrowedFd;

use weft_rdmap::{Place, Token};

use crate::completion::Status;
use crate::memory::{MemoryTable, Span, Violation};
use crate::qp::QueuePair;
use crate::refusal::Refusal;
use crate::region::receive_scattered;

/// The missing part of the payload of one segment, and its place.
#[derive(Debug, Clone, Copy)]
pub struct Landing<'a> {
    span: Span<'a>,
    len: usize,
}

impl QueuePair {
    /// Returns whether a payload of `len` octets can be placed as it comes: its place is plain memory, and in order so
    /// far.
    pub fn may_land(&self, place: &Place, len: usize, memory: &MemoryTable) -> bool {
        self.span_of(place, len, memory).is_ok_and(|span| span.region().is_plain())
    }

    /// Returns the place of a payload of `len` octets, of which only the first `done` octets have come.
    ///
    /// # Errors
    /// [`Refusal`] when the memory does not take it (any more), as [`QueuePair::apply`] would answer for the whole
    /// segment.
    pub fn land<'m>(
        &mut self,
        place: &Place,
        len: usize,
        done: usize,
        memory: &'m MemoryTable,
    ) -> Result<Landing<'m>, Refusal> {
        let span = self.span_of(place, len, memory).map_err(|error| self.refuse_landing(place, error))?;
        Ok(Landing { span: span.skip(done), len: len.saturating_sub(done) })
    }

    /// Places a payload of `len` octets, in pieces, ahead of its turn. Returns the generation of its memory for
    /// [`QueuePair::check_ahead`]. `None` if its place is no plain memory, or not in order now: nothing is decided then,
    /// and some of the octets may have been placed.
    pub fn place_ahead<'o>(
        &self,
        place: &Place,
        len: usize,
        pieces: impl Iterator<Item = &'o [u8]>,
        memory: &MemoryTable,
    ) -> Option<u64> {
        let span = self.span_of(place, len, memory).ok().filter(|span| span.region().is_plain())?;
        let generation = memory.generation(place.stag)?;
        let mut done = 0;
        for piece in pieces {
            span.skip(done).copy_in(piece).ok()?;
            done += piece.len();
        }
        (done == len).then_some(generation)
    }

    /// Checks a payload in its turn that was placed ahead of it: its place is in order now, and still the same memory.
    ///
    /// # Errors
    /// [`Refusal`], as [`QueuePair::apply`] would answer for the whole segment. Memory that was registered or bound anew
    /// under the same STag counts as memory without rights, since the payload is not in it.
    pub fn check_ahead(
        &mut self,
        place: &Place,
        len: usize,
        generation: u64,
        memory: &MemoryTable,
    ) -> Result<(), Refusal> {
        self.land(place, len, 0, memory)?;
        if memory.generation(place.stag) == Some(generation) { Ok(()) } else { Err(self.landing_gone(place)) }
    }

    /// Ends the request that a payload answers, when the place of the payload is not there any more.
    pub fn landing_gone(&mut self, place: &Place) -> Refusal {
        self.refuse_landing(place, weft_rdmap::Error::AccessRights)
    }

    fn refuse_landing(&mut self, place: &Place, error: weft_rdmap::Error) -> Refusal {
        if let Some(token) = place.answers {
            self.fail(token, Status::LocalProtection, 0);
        }
        Refusal::Peer(error)
    }

    /// Notes that all of a payload of `len` octets has been placed. The request that it answers in full is done.
    pub fn landed(&mut self, place: &Place, len: usize, finished: Option<Token>) {
        if place.answers.is_none() {
            self.written = self.written.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
        }
        if let Some(token) = finished {
            self.finish(token);
        }
    }

    fn span_of<'m>(
        &self,
        place: &Place,
        len: usize,
        memory: &'m MemoryTable,
    ) -> Result<Span<'m>, weft_rdmap::Error> {
        let reach = self.reach(memory);
        match place.answers {
            None => reach.lend_for_write(place.stag, place.to, len),
            Some(_) => reach.lend_for_response(place.stag, place.to, len),
        }
    }
}

impl Landing<'_> {
    /// Receives from a socket, without waiting: first the missing octets, then into `spare`. Returns the octets in all.
    ///
    /// # Errors
    /// What the kernel says: EFAULT when the place is not there any more. It has taken nothing off the socket then.
    pub fn receive(&self, socket: BorrowedFd<'_>, spare: &mut [u8]) -> io::Result<usize> {
        receive_scattered(socket, (self.span.region(), self.span.offset(), self.len), spare)
    }

    /// Places as many of the octets as are missing, and returns how many.
    ///
    /// # Errors
    /// [`Violation::Gone`] when the place is not there any more.
    pub fn place(&self, octets: &[u8]) -> Result<usize, Violation> {
        let taken = octets.len().min(self.len);
        self.span.copy_in(&octets[..taken]).map(|()| taken)
    }

    /// Returns the number of octets that are missing.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether nothing is missing.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A shorter payload is cheaper to copy, together with others, than to receive by a call of its own.
    pub const MIN_LEN: usize = 4096;
}
