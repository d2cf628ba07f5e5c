//! From a request in the send queue to a message for RDMAP.

use weft_rdmap::{AtomicOp, Immediate, Kind, Message, Readiness, Token};

use super::{LocalFault, Pending, QueuePair};
use crate::{Access, MemoryTable, SendOpcode, Status};

impl QueuePair {
    /// Takes the next request out of the queue, and checks it.
    pub(super) fn load(&mut self, memory: &MemoryTable) -> Result<(), LocalFault> {
        let loaded = self.queues.send.load(self.started, &mut self.work);
        let len = self.work.len().unwrap_or(0);
        let fetches = self.work.opcode.fetches();
        let is_read = matches!(self.work.opcode, SendOpcode::Read { .. });
        let pending = Pending {
            wr_id: self.work.wr_id,
            opcode: self.work.opcode.completion(),
            signaled: self.work.signaled || self.signal_all,
            len: if fetches { len } else { 0 },
            parts: if is_read { self.work.sges.len().max(1) } else { 1 },
            sink: self.work.sges.first().copied().unwrap_or_default(),
            ..Pending::default()
        };
        *self.pending_mut(self.started) = pending;
        self.active = true;
        self.parts = 0;
        if loaded.is_err() {
            return Err(self.fault(Status::LocalQpOperation));
        }
        let right = if fetches { Access::LOCAL_WRITE } else { Access::LOCAL_READ };
        let good = self
            .work
            .sges
            .iter()
            .filter(|sge| sge.length > 0)
            .all(|sge| memory.check(self.claim(sge.lkey, right), sge.addr, sge.length as usize).is_ok());
        if good { Ok(()) } else { Err(self.fault(Status::LocalProtection)) }
    }

    /// The message of the request at hand, unless it has to wait for one of the ORD.
    pub(super) fn message(&mut self, readiness: Readiness) -> Result<Option<Message>, LocalFault> {
        if self.work.opcode.fetches() && readiness.requests_free == 0 {
            // With nothing outstanding there will never be room: the peer offered no IRD at all.
            if readiness.requests_outstanding == 0 {
                return Err(self.fault(Status::LocalQpOperation));
            }
            return Ok(None);
        }
        let solicited = self.work.solicited;
        let kind = match self.work.opcode {
            SendOpcode::Read { stag, to } => return Ok(Some(self.next_read(stag, to))),
            SendOpcode::Write { stag, to } => Kind::Write { stag, to },
            SendOpcode::Send => Kind::Send { solicited, invalidate: None },
            SendOpcode::SendInvalidate { stag } => Kind::Send { solicited, invalidate: Some(stag) },
            SendOpcode::Immediate { data } => Kind::Immediate { solicited, data: Immediate(data) },
            SendOpcode::FetchAdd { stag, to, add, mask } => {
                Kind::Atomic { op: AtomicOp::FetchAdd { add, mask }, stag, to }
            }
            SendOpcode::CompareSwap { stag, to, swap, swap_mask, compare, compare_mask } => Kind::Atomic {
                op: AtomicOp::CompareSwap { swap, swap_mask, compare, compare_mask },
                stag,
                to,
            },
        };
        let message = Message { token: Token(self.started), len: self.work.len().unwrap_or(0), kind };
        if self.work.opcode.fetches() {
            self.advance();
        }
        Ok(Some(message))
    }

    /// A Read Request has one sink, so a Read into several SGEs is several Read Requests and one completion.
    fn next_read(&mut self, source_stag: weft_ddp::Stag, to: u64) -> Message {
        let before: u64 = self.work.sges[..self.parts].iter().map(|sge| u64::from(sge.length)).sum();
        let sink = self.work.sges.get(self.parts).copied().unwrap_or_default();
        let source_to = to.wrapping_add(before);
        let kind = Kind::Read { sink_stag: sink.lkey, sink_to: sink.addr, source_stag, source_to };
        let message = Message { token: Token(self.started), len: sink.length, kind };
        self.parts += 1;
        if self.parts >= self.work.sges.len() {
            self.advance();
        }
        message
    }
}
