//! The half of a queue pair that the engine holds: which requests are in progress, and what became of them.
//!
//! Three kinds of methods, in the order in which an engine uses them: [`QueuePair::next_message`] and
//! [`QueuePair::fill`] feed transmit, [`QueuePair::apply`] takes what was received, [`QueuePair::handle_event`] ends it.

use std::sync::Arc;

use weft_rdmap::{Message, Readiness, Token};

use crate::{
    Completion, CompletionOpcode, CompletionQueue, MemoryTable, PdId, QpEvent, QpQueues, QpState, RecvWork,
    SendWork, Sge, Status,
};

/// A queue pair at work.
#[derive(Debug)]
pub struct QueuePair {
    pub(crate) queues: Arc<QpQueues>,
    pub(crate) pd: PdId,
    pub(crate) work: SendWork,
    pub(crate) receiving: Receiving,
    send_cq: Arc<CompletionQueue>,
    recv_cq: Arc<CompletionQueue>,
    signal_all: bool,
    /// The request at `started` is in `work` and on its way.
    active: bool,
    /// SGEs of an active Read that were asked for so far.
    parts: usize,
    started: u64,
    retired: u64,
    /// A request for the send queue has completed without success.
    failed: bool,
    pending: Box<[Pending]>,
    now: u64,
}

/// What a queue pair is made with.
#[derive(Debug)]
pub struct QpInit {
    /// The shared half.
    pub queues: Arc<QpQueues>,
    /// The protection domain.
    pub pd: PdId,
    /// Completions of the send queue go here.
    pub send_cq: Arc<CompletionQueue>,
    /// Completions of the receive queue go here; may be the same.
    pub recv_cq: Arc<CompletionQueue>,
    /// Every request makes a completion, as with `sq_sig_all`.
    pub signal_all: bool,
}

/// Something in the queue pair's own requests is wrong: the request has completed with its status, and the stream must
/// end without blame on the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalFault(pub Status);

impl QueuePair {
    /// A queue pair in the state of its shared half.
    pub fn new(init: QpInit) -> Self {
        let capacity = usize::try_from(init.queues.send.capacity()).unwrap_or(0);
        Self {
            pd: init.pd,
            work: SendWork::new(),
            receiving: Receiving { work: RecvWork::new(), active: false, next: 0 },
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            signal_all: init.signal_all,
            active: false,
            parts: 0,
            started: 0,
            retired: 0,
            failed: false,
            pending: vec![Pending::default(); capacity].into_boxed_slice(),
            now: 0,
            queues: init.queues,
        }
    }

    /// The next message for RDMAP, if a request is posted and may start now.
    ///
    /// # Errors
    /// [`LocalFault`] when the request cannot be carried out; it has completed with that status.
    pub fn next_message(
        &mut self,
        readiness: Readiness,
        memory: &MemoryTable,
    ) -> Result<Option<Message>, LocalFault> {
        if !readiness.idle || self.queues.state() != QpState::Rts {
            return Ok(None);
        }
        if !self.active {
            if self.started == self.sends_posted() {
                return Ok(None);
            }
            self.load(memory)?;
        }
        if self.work.fence && self.parts == 0 && readiness.requests_outstanding > 0 {
            return Ok(None);
        }
        self.message(readiness)
    }

    /// The last octet of a Send, Write or Immediate Data is in TCP, or the last one that a Read or Atomic fetches has been placed.
    pub fn finish(&mut self, token: Token) {
        let index = token.0;
        if index < self.retired || index > self.started || (index == self.started && !self.active) {
            return;
        }
        let pending = self.pending_mut(index);
        pending.parts = pending.parts.saturating_sub(1);
        if pending.parts > 0 {
            return;
        }
        pending.done = true;
        if index == self.started {
            self.advance();
        }
        self.retire();
    }

    /// The request with this token cannot be completed: its completion says why. All others are flushed later.
    pub fn fail(&mut self, token: Token, status: Status, vendor_err: u32) {
        let end = self.started + u64::from(self.active);
        if (self.retired..end).contains(&token.0) && !self.pending_mut(token.0).done {
            self.end(token.0, status, vendor_err);
        }
    }

    /// Moves the state, and flushes everything posted where the new state says so.
    pub fn handle_event(&mut self, event: QpEvent) {
        self.queues.handle_event(event);
        self.flush_if_ended();
    }

    /// Flushes what was posted after the stream ended; for the engine to call when the doorbell rings.
    pub fn flush_if_ended(&mut self) {
        if self.queues.state().flushes() {
            self.flush_sends();
            self.flush_recvs();
        }
    }

    /// Tells the time that completions are stamped with, in microseconds.
    pub const fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// The shared half.
    pub const fn queues(&self) -> &Arc<QpQueues> {
        &self.queues
    }

    /// The protection domain.
    pub const fn pd(&self) -> PdId {
        self.pd
    }

    /// Whether a completion queue has lost a completion, which is the end of this queue pair.
    pub fn is_overrun(&self) -> bool {
        self.send_cq.is_overrun() || self.recv_cq.is_overrun()
    }

    /// Ends the request in progress with `status`.
    pub(crate) fn fault(&mut self, status: Status) -> LocalFault {
        if self.active {
            self.end(self.started, status, 0);
        }
        LocalFault(status)
    }

    /// Ends a request that is in progress or outstanding.
    fn end(&mut self, index: u64, status: Status, vendor_err: u32) {
        let pending = self.pending_mut(index);
        pending.done = true;
        pending.status = status;
        pending.vendor_err = vendor_err;
        if index == self.started {
            self.advance();
        }
        self.retire();
    }

    /// Ends the receive request in progress, and makes its completion.
    pub(crate) fn complete_recv(&mut self, completion: Completion) {
        self.receiving.active = false;
        self.queues.recv.release(self.receiving.next);
        self.recv_cq.push(&completion);
    }

    /// The receive requests posted so far, as far as the ring can hold them.
    pub(crate) fn recvs_posted(&self) -> u64 {
        let next = self.receiving.next;
        let released = next - u64::from(self.receiving.active);
        self.queues.recv.posted().clamp(next, released + self.queues.recv.capacity())
    }

    /// A receive completion without the particulars.
    pub(crate) fn recv_completion(&self, wr_id: u64, status: Status) -> Completion {
        Completion {
            wr_id,
            status,
            opcode: CompletionOpcode::Recv,
            byte_len: 0,
            invalidated: None,
            immediate: None,
            qp_num: self.queues.number,
            vendor_err: 0,
            solicited: false,
            timestamp: self.now,
        }
    }

    const fn advance(&mut self) {
        self.started += 1;
        self.active = false;
    }

    /// Hands out completions in the order of posting, as far as everything before is done.
    fn retire(&mut self) {
        while self.retired < self.started {
            let number = self.queues.number;
            let now = self.now;
            let pending = *self.pending_mut(self.retired);
            if !pending.done {
                break;
            }
            // Behind a failure nothing succeeds any more, be it that it was done before: whoever waits for the rest of a
            // queue after the first failure has to get all of it, also what was not signaled.
            let flushed = self.failed && pending.status == Status::Success;
            let status = if flushed { Status::WorkRequestFlushed } else { pending.status };
            let good = status == Status::Success;
            self.failed |= !good;
            if pending.signaled || !good {
                // How much of a request was done that did not end well, nobody knows (RFC 5040 section 3.1).
                let byte_len = if good { pending.len } else { 0 };
                self.send_cq.push(&Completion {
                    wr_id: pending.wr_id,
                    status,
                    opcode: pending.opcode,
                    byte_len,
                    invalidated: None,
                    immediate: None,
                    qp_num: number,
                    vendor_err: pending.vendor_err,
                    solicited: false,
                    timestamp: now,
                });
            }
            self.retired += 1;
        }
        self.queues.send.release(self.retired);
    }

    fn flush_sends(&mut self) {
        if self.active {
            self.fault(Status::WorkRequestFlushed);
        }
        for index in self.retired..self.started {
            let pending = self.pending_mut(index);
            if !pending.done {
                pending.done = true;
                pending.status = Status::WorkRequestFlushed;
            }
        }
        self.retire();
        while self.started < self.sends_posted() {
            // What the entry says does not matter any more; its wr_id does.
            let _flushed_anyway = self.queues.send.load(self.started, &mut self.work);
            *self.pending_mut(self.started) = Pending {
                wr_id: self.work.wr_id,
                done: true,
                status: Status::WorkRequestFlushed,
                ..Pending::default()
            };
            self.started += 1;
            self.retire();
        }
    }

    fn flush_recvs(&mut self) {
        if self.receiving.active {
            let completion = self.recv_completion(self.receiving.work.wr_id, Status::WorkRequestFlushed);
            self.complete_recv(completion);
        }
        while self.receiving.next < self.recvs_posted() {
            let _flushed_anyway = self.queues.recv.load(self.receiving.next, &mut self.receiving.work);
            self.receiving.next += 1;
            let completion = self.recv_completion(self.receiving.work.wr_id, Status::WorkRequestFlushed);
            self.complete_recv(completion);
        }
    }

    /// The requests posted so far; the ring may say more than it can hold, since others may write it.
    fn sends_posted(&self) -> u64 {
        self.queues.send.posted().clamp(self.started, self.retired + self.queues.send.capacity())
    }

    /// Where the original value of an Atomic in progress goes.
    pub(crate) fn sink(&mut self, token: Token) -> Sge {
        self.pending_mut(token.0).sink
    }

    fn pending_mut(&mut self, index: u64) -> &mut Pending {
        let capacity = self.pending.len() as u64;
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is below a length in memory")]
        let slot = (index % capacity) as usize;
        &mut self.pending[slot]
    }
}

/// The receive request that a message is being placed into.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) work: RecvWork,
    pub(crate) active: bool,
    pub(crate) next: u64,
}

/// A request of the send queue between start and completion.
#[derive(Clone, Copy, Debug)]
struct Pending {
    wr_id: u64,
    opcode: CompletionOpcode,
    status: Status,
    vendor_err: u32,
    len: u32,
    parts: usize,
    /// Where the original value of an Atomic goes.
    sink: Sge,
    signaled: bool,
    done: bool,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            wr_id: 0,
            opcode: CompletionOpcode::Send,
            status: Status::Success,
            vendor_err: 0,
            len: 0,
            parts: 0,
            sink: Sge::default(),
            signaled: false,
            done: false,
        }
    }
}

mod start;

#[cfg(test)]
mod tests;
