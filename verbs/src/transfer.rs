//! Where octets move between registered memory and segments: gather for transmit, placement for receive.

use weft_rdmap::{AtomicRequest, AtomicResponse, Body, Inbound, ReadRequest, SendEnd, Terminate};

use crate::qp::LocalFault;
use crate::{Access, Claim, Completion, MemoryTable, QueuePair, Sge, Status, Violation};

/// What a received segment asks for beyond placement.
#[derive(Debug)]
pub enum Effect {
    /// Nothing.
    None,
    /// The peer ends the stream.
    Terminated(Terminate),
}

/// Why a received segment or a segment to send ends the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The peer broke a rule: it gets a Terminate.
    Peer(weft_rdmap::Error),
    /// Our own side cannot go on; the peer is not to blame.
    Local(Status),
}

impl From<LocalFault> for Refusal {
    fn from(fault: LocalFault) -> Self {
        Self::Local(fault.0)
    }
}

impl QueuePair {
    /// Places a received segment, and completes what it finishes.
    ///
    /// # Errors
    /// [`Refusal`]; nothing of the segment was placed when the peer is to blame.
    pub fn apply(&mut self, inbound: Inbound<'_>, memory: &MemoryTable) -> Result<Effect, Refusal> {
        match inbound {
            Inbound::Send { offset, payload, last } => self.place_send(offset, payload, last, memory)?,
            Inbound::Write { stag, to, payload, .. } => {
                place(memory, self.claim(stag, Access::REMOTE_WRITE), to, payload)
                    .map_err(|violation| Refusal::Peer(tagged(violation)))?;
            }
            Inbound::ReadRequest(request) => {
                check_read(memory, self.claim(request.source_stag, Access::REMOTE_READ), &request)
                    .map_err(|violation| Refusal::Peer(remote_protection(violation)))?;
            }
            Inbound::ReadResponse { token, stag, to, payload, finished } => {
                if let Err(violation) = place(memory, self.claim(stag, Access::LOCAL_WRITE), to, payload) {
                    // RDMAP has seen to it that the peer answers into the sink that was asked for: that this is not there
                    // any more is our own request's fault, although DDP's error is what the peer has to be told.
                    self.fail(token, Status::LocalProtection, 0);
                    return Err(Refusal::Peer(tagged(violation)));
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
                    immediate: Some(data.0),
                    solicited,
                    ..self.recv_completion(self.receiving.work.wr_id, Status::Success)
                };
                self.complete_recv(completion);
            }
            Inbound::AtomicRequest(AtomicRequest { stag, to, .. }) => {
                memory
                    .check(self.claim(stag, Access::REMOTE_ATOMIC), to, size_of::<u64>())
                    .and_then(|span| span.check_aligned())
                    .map_err(|violation| Refusal::Peer(remote_protection(violation)))?;
            }
            Inbound::AtomicResponse { token, original } => {
                let sink = self.sink(token);
                let claim = self.claim(sink.lkey, Access::LOCAL_WRITE);
                if place(memory, claim, sink.addr, &original.to_ne_bytes()).is_err() {
                    self.fail(token, Status::LocalProtection, 0);
                    return Err(Refusal::Local(Status::LocalProtection));
                }
                self.finish(token);
            }
            Inbound::Terminate(terminate) => return Ok(Effect::Terminated(terminate)),
        }
        Ok(Effect::None)
    }

    /// Fills `out` with what a segment carries after its DDP header.
    ///
    /// # Errors
    /// [`Refusal`] when the memory it comes from is not there (any more).
    pub fn fill(&mut self, body: &Body, memory: &MemoryTable, out: &mut [u8]) -> Result<(), Refusal> {
        match body {
            Body::Inline(octets) => out.copy_from_slice(octets),
            Body::ReadResponse { stag, to } => {
                if !out.is_empty() {
                    memory
                        .check(self.claim(*stag, Access::REMOTE_READ), *to, out.len())
                        .and_then(|span| span.copy_out(out))
                        .map_err(|violation| Refusal::Peer(remote_protection(violation)))?;
                }
            }
            Body::AtomicResponse(AtomicRequest { op, id, stag, to }) => {
                let original = memory
                    .check(self.claim(*stag, Access::REMOTE_ATOMIC), *to, size_of::<u64>())
                    .and_then(|span| span.update(|value| op.apply(value)))
                    .map_err(|violation| Refusal::Peer(remote_protection(violation)))?;
                out.copy_from_slice(&AtomicResponse { id: *id, original }.emit());
            }
            Body::Message { offset, .. } => {
                if self.gather(*offset as usize, memory, out).is_err() {
                    return Err(self.fault(Status::LocalProtection).into());
                }
            }
        }
        Ok(())
    }

    fn gather(&self, offset: usize, memory: &MemoryTable, out: &mut [u8]) -> Result<(), Violation> {
        if self.work.sges.is_empty() {
            let octets = self.work.inline.get(offset..offset + out.len()).ok_or(Violation::Bounds)?;
            out.copy_from_slice(octets);
            return Ok(());
        }
        let mut filled = 0;
        for piece in pieces(&self.work.sges, offset, out.len()) {
            let Piece { sge, to, range } = piece;
            let out = &mut out[range];
            memory.check(self.claim(sge.lkey, Access::LOCAL_READ), to, out.len())?.copy_out(out)?;
            filled += out.len();
        }
        // What the SGEs do not cover would go out as whatever stood in the buffer before.
        if filled == out.len() { Ok(()) } else { Err(Violation::Bounds) }
    }

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
        let placed =
            pieces(&self.receiving.work.sges, offset as usize, payload.len()).try_for_each(|piece| {
                let claim = self.claim(piece.sge.lkey, Access::LOCAL_WRITE);
                place(memory, claim, piece.to, &payload[piece.range])
            });
        if placed.is_err() {
            self.fail_recv(Status::LocalProtection);
            return Err(Refusal::Local(Status::LocalProtection));
        }
        let Some(end) = last else { return Ok(()) };
        // Only now, since the receive buffer may be of the memory in question.
        if let Some(stag) = invalidate
            && memory.invalidate(stag, self.pd, self.queues.stream).is_err()
        {
            return Err(Refusal::Peer(weft_rdmap::Error::CannotInvalidate));
        }
        let completion = Completion {
            byte_len: end.len,
            invalidated: end.invalidate.map(|stag| stag.0),
            solicited: end.solicited,
            ..self.recv_completion(self.receiving.work.wr_id, Status::Success)
        };
        self.complete_recv(completion);
        Ok(())
    }

    /// Takes the oldest posted receive request for the message that begins.
    fn take_recv(&mut self) -> Result<(), Refusal> {
        if self.receiving.next == self.recvs_posted() {
            return Err(Refusal::Peer(weft_rdmap::Error::Ddp(weft_ddp::Error::NoBuffer)));
        }
        let loaded = self.queues.recv.load(self.receiving.next, &mut self.receiving.work);
        self.receiving.next += 1;
        self.receiving.active = true;
        if loaded.is_err() {
            self.fail_recv(Status::LocalQpOperation);
            return Err(Refusal::Local(Status::LocalQpOperation));
        }
        Ok(())
    }

    pub(crate) fn claim(&self, stag: weft_ddp::Stag, right: Access) -> Claim {
        Claim { stag, right, pd: self.pd, stream: self.queues.stream }
    }

    fn fail_recv(&mut self, status: Status) {
        let completion = self.recv_completion(self.receiving.work.wr_id, status);
        self.complete_recv(completion);
    }
}

/// A part of a message that lies in one SGE.
struct Piece {
    sge: Sge,
    to: u64,
    range: core::ops::Range<usize>,
}

/// Cuts `len` octets at `offset` of a message along the SGEs that hold it.
fn pieces(sges: &[Sge], offset: usize, len: usize) -> impl Iterator<Item = Piece> + '_ {
    let mut start = 0_usize;
    sges.iter().filter_map(move |&sge| {
        let (first, size) = (start, sge.length as usize);
        start += size;
        let begin = offset.max(first);
        let end = (offset + len).min(first + size);
        (begin < end).then(|| Piece {
            sge,
            to: sge.addr.wrapping_add((begin - first) as u64),
            range: begin - offset..end - offset,
        })
    })
}

/// Places octets in memory; nothing is checked for none of them (RFC 5041 section 5.2).
fn place(memory: &MemoryTable, claim: Claim, to: u64, payload: &[u8]) -> Result<(), Violation> {
    if payload.is_empty() {
        return Ok(());
    }
    memory.check(claim, to, payload.len())?.copy_in(payload)
}

fn check_read(memory: &MemoryTable, claim: Claim, request: &ReadRequest) -> Result<(), Violation> {
    if request.size == 0 {
        return Ok(());
    }
    memory.check(claim, request.source_to, request.size as usize).map(|_| ())
}

/// The peer's Write or Read Response hit memory it may not touch: DDP's errors, but access rights are RDMAP's (doubt D10).
const fn tagged(violation: Violation) -> weft_rdmap::Error {
    weft_rdmap::Error::Ddp(match violation {
        Violation::InvalidStag => weft_ddp::Error::InvalidStag,
        Violation::WrongPd | Violation::WrongStream => weft_ddp::Error::WrongStream,
        Violation::Wrap => weft_ddp::Error::ToWrap,
        Violation::Bounds => weft_ddp::Error::BaseOrBounds,
        Violation::Access => return weft_rdmap::Error::AccessRights,
        Violation::Unaligned => return weft_rdmap::Error::StreamCatastrophic,
    })
}

/// The peer's Read or Atomic Request names memory it may not reach: RDMAP's remote protection errors. An Atomic that is not
/// aligned is an operation error (RFC 7306 section 8.2).
const fn remote_protection(violation: Violation) -> weft_rdmap::Error {
    match violation {
        Violation::InvalidStag => weft_rdmap::Error::InvalidStag,
        Violation::WrongPd | Violation::WrongStream => weft_rdmap::Error::WrongStream,
        Violation::Wrap => weft_rdmap::Error::ToWrap,
        Violation::Bounds => weft_rdmap::Error::BaseOrBounds,
        Violation::Access => weft_rdmap::Error::AccessRights,
        Violation::Unaligned => weft_rdmap::Error::StreamCatastrophic,
    }
}

#[cfg(test)]
mod tests;
