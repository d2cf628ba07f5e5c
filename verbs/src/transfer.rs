//! Where octets move between registered memory and segments: gather for transmit, placement for receive.

use weft_rdmap::{Body, Inbound, SendEnd, Token};

use crate::access::Access;
use crate::completion::{Completion, CompletionOpcode, Status};
use crate::lending::Lending;
use crate::memory::{Claim, MemoryTable, Violation};
use crate::payload::Payload;
use crate::pieces::{Piece, pieces};
use crate::qp::QueuePair;
use crate::reach::Reach;
use crate::refusal::Refusal;

impl QueuePair {
    /// Places a received segment, and completes what it finishes. A Terminate asks for neither.
    ///
    /// # Errors
    /// [`Refusal`]. If the peer is to blame, nothing of the segment was placed, unless memory ended in the middle of
    /// it.
    #[inline]
    pub fn apply(&mut self, inbound: Inbound<'_>, memory: &MemoryTable) -> Result<(), Refusal> {
        match inbound {
            Inbound::Send { offset, payload, last } => {
                self.place_send(offset, payload, last, memory)?;
                if last.is_some() {
                    self.written = 0;
                }
                Ok(())
            }
            Inbound::Write { stag, to, payload, .. } => {
                self.reach(memory).write(stag, to, payload).map_err(Refusal::Peer)?;
                let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
                self.written = self.written.saturating_add(len);
                Ok(())
            }
            other => self.apply_other(other, memory),
        }
    }

    fn apply_other(&mut self, inbound: Inbound<'_>, memory: &MemoryTable) -> Result<(), Refusal> {
        match inbound {
            Inbound::ReadRequest(request) => {
                self.written = 0;
                self.reach(memory).check_read(&request).map_err(Refusal::Peer)?;
            }
            Inbound::ReadResponse { token, stag, to, payload, finished } => {
                if let Err(error) = self.reach(memory).place_response(stag, to, payload) {
                    // RDMAP has checked that the peer answers into the sink of our request. If that is not there any
                    // more our own request is at fault, although the peer has to be told DDP's error.
                    self.fail(token, Status::LocalProtection, 0);
                    return Err(Refusal::Peer(error));
                }
                if finished {
                    self.finish(token);
                }
            }
            Inbound::Immediate { data, solicited } => {
                if !self.receiving.active {
                    self.take_recv()?;
                }
                let completion = Completion {
                    opcode: CompletionOpcode::RecvWithImmediate,
                    byte_len: core::mem::take(&mut self.written),
                    immediate: Some(data.0),
                    solicited,
                    ..self.recv_completion(self.receiving.work.wr_id, Status::Success)
                };
                self.complete_recv(completion);
            }
            Inbound::AtomicRequest(request) => {
                self.written = 0;
                self.reach(memory).check_atomic(&request).map_err(Refusal::Peer)?;
            }
            Inbound::AtomicResponse { token, original } => {
                let sink = self.sink(token);
                if self.reach(memory).deliver(sink.lkey, sink.addr, &original.to_ne_bytes()).is_err() {
                    self.fail(token, Status::LocalProtection, 0);
                    return Err(Refusal::Local(Status::LocalProtection));
                }
                self.finish(token);
            }
            Inbound::Send { .. } | Inbound::Write { .. } | Inbound::Terminate(_) => {}
        }
        Ok(())
    }

    /// Fills `payload` with what a segment carries after its DDP header.
    ///
    /// # Errors
    /// [`Refusal`] when the memory it comes from is not there (any more).
    #[inline]
    pub fn fill(
        &mut self,
        body: &Body,
        memory: &MemoryTable,
        payload: &mut Payload<'_>,
    ) -> Result<(), Refusal> {
        match body {
            Body::Message { offset, .. } => {
                if self.gather(*offset as usize, memory, payload).is_err() {
                    return Err(self.fault(Status::LocalProtection).into());
                }
                Ok(())
            }
            other => self.reach(memory).fill_own(other, payload),
        }
    }

    /// Lends the `len` octets that a segment carries after its DDP header, instead of copying them. Returns `false` if
    /// they have to be copied ([`Self::fill`]): they are few, not in registered memory or in too many places.
    ///
    /// # Errors
    /// As for [`Self::fill`].
    pub fn lend<'a>(
        &mut self,
        body: &Body,
        len: usize,
        memory: &'a MemoryTable,
        lending: &mut Lending<'a>,
    ) -> Result<bool, Refusal> {
        if len < Lending::MIN_LEN {
            return Ok(false);
        }
        match body {
            Body::Inline(_) | Body::AtomicResponse(_) => Ok(false),
            Body::ReadResponse { stag, to } => {
                let span = self.reach(memory).lend_answer(*stag, *to, len).map_err(Refusal::Peer)?;
                Ok(lending.push(span, len).is_ok())
            }
            Body::Message { offset, .. } => {
                let offset = *offset as usize;
                let count = pieces(&self.work.sges, offset, len).count();
                if count == 0 || count > Lending::MAX {
                    return Ok(false);
                }
                if self.lend_message(offset, len, memory, lending).is_err() {
                    lending.retract();
                    return Err(self.fault(Status::LocalProtection).into());
                }
                Ok(true)
            }
        }
    }

    /// Ends a message whose lent memory is not there any more, when some of its FPDU was in TCP already. `finished` is
    /// the message that the plan finishes ([`Lending::take_finished`]); without one the message in progress is to
    /// blame.
    pub fn lent_gone(&mut self, finished: Option<Token>) -> Refusal {
        match finished {
            Some(token) => {
                self.fail(token, Status::LocalProtection, 0);
                Refusal::Local(Status::LocalProtection)
            }
            None => self.fault(Status::LocalProtection).into(),
        }
    }

    fn lend_message<'a>(
        &self,
        offset: usize,
        len: usize,
        memory: &'a MemoryTable,
        lending: &mut Lending<'a>,
    ) -> Result<(), Violation> {
        let before = lending.len();
        for Piece { sge, to, range } in pieces(&self.work.sges, offset, len) {
            lending.push(self.reach(memory).lend(sge.lkey, to, range.len())?, range.len())?;
        }
        if lending.len() - before == len { Ok(()) } else { Err(Violation::Bounds) }
    }

    #[inline]
    fn gather(
        &self,
        offset: usize,
        memory: &MemoryTable,
        payload: &mut Payload<'_>,
    ) -> Result<(), Violation> {
        let len = payload.left();
        if self.work.sges.is_empty() {
            return payload.put(self.work.inline.get(offset..offset + len).ok_or(Violation::Bounds)?);
        }
        for Piece { sge, to, range } in pieces(&self.work.sges, offset, len) {
            self.reach(memory).fetch(sge.lkey, to, range.len(), payload)?;
        }
        // Octets that the SGEs do not cover would go out as they stood in the buffer before.
        if payload.left() == 0 { Ok(()) } else { Err(Violation::Bounds) }
    }

    #[inline]
    fn place_send(
        &mut self,
        offset: u32,
        payload: &[u8],
        last: Option<SendEnd>,
        memory: &MemoryTable,
    ) -> Result<(), Refusal> {
        if !self.receiving.active {
            self.take_recv()?;
        }
        let end = u64::from(offset) + payload.len() as u64;
        if end > u64::from(self.receiving.work.capacity) {
            self.fail_recv(Status::LocalLength);
            return Err(Refusal::Peer(weft_rdmap::Error::Ddp(weft_ddp::Error::TooLong)));
        }
        let invalidate = last.and_then(|end| end.invalidate);
        if invalidate.is_some_and(|stag| memory.check_invalidate(stag, self.pd, self.queues.stream).is_err())
        {
            return Err(Refusal::Peer(weft_rdmap::Error::CannotInvalidate));
        }
        let pieces = pieces(&self.receiving.work.sges, offset as usize, payload.len());
        let placed = self.reach(memory).scatter(pieces, payload);
        if placed.is_err() {
            self.fail_recv(Status::LocalProtection);
            return Err(Refusal::Local(Status::LocalProtection));
        }
        let Some(end) = last else { return Ok(()) };
        // Only now, since the receive buffer may lie in that memory.
        if let Some(stag) = invalidate
            && memory.invalidate(stag, self.pd, self.queues.stream).is_err()
        {
            return Err(Refusal::Peer(weft_rdmap::Error::CannotInvalidate));
        }
        let completion = Completion {
            opcode: CompletionOpcode::received(end.opcode),
            byte_len: end.len,
            invalidated: end.invalidate.map(|stag| stag.0),
            solicited: end.opcode.is_solicited(),
            ..self.recv_completion(self.receiving.work.wr_id, Status::Success)
        };
        self.complete_recv(completion);
        Ok(())
    }

    pub(crate) fn claim(&self, stag: weft_ddp::Stag, right: Access) -> Claim {
        Claim { stag, right, pd: self.pd, stream: self.queues.stream }
    }

    /// Returns what this queue pair and its peer can do to memory.
    pub(crate) fn reach<'m>(&self, memory: &'m MemoryTable) -> Reach<'m> {
        Reach { memory, pd: self.pd, stream: self.queues.stream }
    }
}

impl Reach<'_> {
    /// Fills `payload` with what a segment carries that is no message of the user: a header of RDMAP's or an answer to
    /// the peer.
    ///
    /// # Errors
    /// [`Refusal`] when the memory that answers is not there any more.
    pub fn fill_own(&self, body: &Body, payload: &mut Payload<'_>) -> Result<(), Refusal> {
        match body {
            Body::Message { .. } => Ok(()),
            Body::Inline(octets) => payload.put(octets).map_err(no_place),
            Body::ReadResponse { stag, to } => self.answer_read(*stag, *to, payload).map_err(Refusal::Peer),
            Body::AtomicResponse(request) => {
                let response = self.answer_atomic(request).map_err(Refusal::Peer)?;
                payload.put(&response.emit()).map_err(no_place)
            }
        }
    }
}

/// Returns the refusal for a body without room in its segment. Both have the same length, so that it is a fault of our
/// own.
const fn no_place(_: Violation) -> Refusal {
    Refusal::Local(Status::General)
}

#[cfg(test)]
mod short_tests;
#[cfg(test)]
mod tests;
