//! From a request in the send queue to a message for RDMAP.

use weft_rdmap::{Kind, Message, Readiness, Token};

use super::{Pending, QueuePair};
use crate::access::Access;
use crate::completion::Status;
use crate::memory::MemoryTable;
use crate::refusal::LocalFault;
use crate::work::SendOpcode;

impl QueuePair {
    /// Takes the next request out of the queue, and checks it. Returns `false` if it is held: then it is not started,
    /// and is read anew when the doorbell rings.
    #[inline]
    pub(super) fn load(&mut self, memory: &MemoryTable) -> Result<bool, LocalFault> {
        let loaded = self.queues.send.load(self.started, &mut self.work);
        if loaded.is_ok() && matches!(self.work.opcode, SendOpcode::Hold) {
            return Ok(false);
        }
        let fetches = self.work.opcode.fetches();
        let is_read = matches!(self.work.opcode, SendOpcode::Read { .. });
        self.current = Pending {
            wr_id: self.work.wr_id,
            opcode: self.work.opcode.completion(),
            signaled: self.work.signaled || self.signal_all,
            len: if fetches { self.work.len } else { 0 },
            parts: if is_read { self.work.sges.len().max(1) } else { 1 + usize::from(self.is_confirmed()) },
            sink: self.work.sges.first().copied().unwrap_or_default(),
            ..Pending::default()
        };
        self.active = true;
        self.counters.sends_started += 1;
        self.parts = 0;
        let is_unknown = self.work.opcode.is_extension() && !self.queues.extensions;
        if loaded.is_err() || is_unknown {
            return Err(self.fault(Status::LocalQpOperation));
        }
        if self.work.opcode.is_local() {
            return Ok(true);
        }
        let right = if fetches { Access::LOCAL_WRITE } else { Access::LOCAL_READ };
        let good = self
            .work
            .sges
            .iter()
            .filter(|sge| sge.length > 0)
            .all(|sge| memory.check(self.claim(sge.lkey, right), sge.addr, sge.length as usize).is_ok());
        if good { Ok(true) } else { Err(self.fault(Status::LocalProtection)) }
    }

    /// Returns the message of the request at hand, unless it has to wait because of the ORD.
    #[inline]
    pub(super) fn message(&mut self, readiness: Readiness) -> Result<Option<Message>, LocalFault> {
        let confirms = self.parts == 1 && self.is_confirmed();
        if (self.work.opcode.fetches() || confirms) && readiness.requests_free == 0 {
            // With nothing outstanding there will never be room: the peer offered no IRD at all.
            if readiness.requests_outstanding == 0 {
                return Err(self.fault(Status::LocalQpOperation));
            }
            return Ok(None);
        }
        let kind = match self.work.opcode {
            SendOpcode::Read { stag, to } => return Ok(Some(self.next_read(stag, to))),
            SendOpcode::Write { stag, to } if confirms => return Ok(Some(self.confirmation(stag, to))),
            // What is carried out without a message has not come here.
            other => other.kind(self.work.solicited).ok_or_else(|| self.fault(Status::General))?,
        };
        let message = Message { token: Token(self.started), len: self.work.len, kind };
        if self.work.opcode.fetches() {
            self.advance();
        }
        match self.is_confirmed() {
            // A peer that answers no Reads at all confirms nothing.
            true if readiness.requests_free + readiness.requests_outstanding == 0 => self.current.parts = 1,
            confirmed => self.parts += usize::from(confirmed),
        }
        Ok(Some(message))
    }

    /// Returns whether the request at hand is a Write whose completion says that the peer has it. InfiniBand's
    /// completions say so. Here a Read of no octets behind the Write asks for it.
    fn is_confirmed(&self) -> bool {
        let is_write = matches!(self.work.opcode, SendOpcode::Write { .. });
        is_write && self.queues.as_infiniband() && (self.work.signaled || self.signal_all)
    }

    /// Returns a Read of no octets, for which neither side needs memory, and which is answered behind the Write.
    fn confirmation(&mut self, source_stag: weft_ddp::Stag, source_to: u64) -> Message {
        let kind = Kind::Read { sink_stag: source_stag, sink_to: 0, source_stag, source_to };
        let message = Message { token: Token(self.started), len: 0, kind };
        self.advance();
        message
    }

    /// Returns the next message of a Read. A Read Request has one sink, so that a Read into several SGEs is several
    /// Read Requests and one completion.
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
