//! The half of a queue pair that the engine holds: the requests in progress, and how they end.
//!
//! Three kinds of methods, in the order in which an engine uses them: [`QueuePair::next_message`] and
//! [`QueuePair::fill`] feed transmit, [`QueuePair::apply`] takes what was received, [`QueuePair::handle_event`] ends
//! it.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_rdmap::{Message, Readiness, Token};

use crate::completion::{Completion, Status};
use crate::counters::QpCounters;
use crate::cq::{CompletionQueue, Frees, WorkQueue};
use crate::cq_table::CqTable;
use crate::entry::SendWork;
use crate::ids::PdId;
use crate::memory::MemoryTable;
use crate::notice::{QpNotice, QpNotices};
use crate::queues::QpQueues;
use crate::refusal::LocalFault;
use crate::srq::SharedRecvQueue;
use crate::state::{QpEvent, QpState};
use crate::syncing::SyncJob;
use crate::work::Sge;
pub use cyclic::CycleError;
use pending::{Aside, Pending};
use receiving::Receiving;
pub use short::Short;
use wait::Waits;

/// A queue pair at work.
#[derive(Debug)]
pub struct QueuePair {
    pub(crate) queues: Arc<QpQueues>,
    pub(crate) pd: PdId,
    pub(crate) work: SendWork,
    pub(crate) receiving: Receiving,
    send_cq: Arc<CompletionQueue>,
    recv_cq: Arc<CompletionQueue>,
    /// The send queue's number at its completion queue, whose polls free places; `None` where completing frees them.
    send_number: Option<u32>,
    signal_all: bool,
    rnr_wait: bool,
    notices: QpNotices,
    /// Nothing is started behind this request, and the stream is to be closed when it has retired.
    drain_until: Option<u64>,
    /// The request at `started` is in `work` and in progress; `current` is what is remembered of it.
    active: bool,
    current: Pending,
    /// SGEs of an active Read that were asked for so far.
    parts: usize,
    started: u64,
    retired: u64,
    /// Octets that the peer's Writes have placed since its last message with a number of its own: a Send, Immediate
    /// Data, or a Read or Atomic Request. An Atomic Response is none of them: it answers us, and may come inside of a
    /// Write.
    pub(crate) written: u32,
    /// A request for the send queue has completed without success.
    failed: bool,
    /// There is more to start, of which no doorbell tells.
    goes_on: bool,
    /// It is connected to itself, and so many octets of the request at hand were copied.
    alone: Option<usize>,
    /// It has tried to bind memory windows.
    binds: bool,
    aside: Aside,
    /// What the last SYNC was about, kept for the next one.
    sync: Option<Arc<SyncJob>>,
    /// The requests from `retired` up to `started`. It has room for as many as there were at most.
    pending: VecDeque<Pending>,
    waits: Waits,
    cq_table: Arc<CqTable>,
    now: u64,
    pub(crate) counters: QpCounters,
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
    /// Receive requests come from here instead of the own receive queue.
    pub srq: Option<Arc<SharedRecvQueue>>,
    /// A message that finds no receive request waits for one, and everything behind it, instead of ending the stream.
    pub rnr_wait: bool,
    /// The completion queues of the engine, which WAITs may name.
    pub cq_table: Arc<CqTable>,
}

impl QueuePair {
    /// Makes a queue pair in the state of its shared half.
    pub fn new(init: QpInit) -> Self {
        for queue in [&init.send_cq, &init.recv_cq] {
            init.cq_table.attach(queue, init.pd);
        }
        Self {
            pd: init.pd,
            work: SendWork::new(),
            receiving: Receiving::new(init.srq, &init.queues, &init.recv_cq),
            send_number: init.send_cq.attach(WorkQueue::Send(Arc::clone(&init.queues))),
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            signal_all: init.signal_all,
            rnr_wait: init.rnr_wait,
            notices: QpNotices::default(),
            drain_until: None,
            active: false,
            current: Pending::default(),
            parts: 0,
            started: 0,
            retired: 0,
            written: 0,
            failed: false,
            goes_on: false,
            alone: None,
            binds: false,
            aside: Aside::None,
            sync: None,
            pending: VecDeque::new(),
            waits: Waits::default(),
            cq_table: init.cq_table,
            now: 0,
            counters: QpCounters::default(),
            queues: init.queues,
        }
    }

    /// Returns whether there is a request that [`Self::next_message`] could begin, or go on with.
    #[inline]
    pub fn has_request(&self) -> bool {
        self.active || self.queues.send.posted() != self.started
    }

    /// Returns the next message for RDMAP, if a request is posted and may start now. Requests before it that need no
    /// message are carried out on the way.
    ///
    /// # Errors
    /// [`LocalFault`] when the request cannot be carried out; it has completed with that status.
    #[inline]
    pub fn next_message(
        &mut self,
        readiness: Readiness,
        memory: &MemoryTable,
    ) -> Result<Option<Message>, LocalFault> {
        if !readiness.idle || self.queues.state() != QpState::Rts {
            return Ok(None);
        }
        // Requests posted from now on ring the doorbell, so that no poster can keep the engine here, nor a cyclic queue.
        let end = self.drain_until.unwrap_or_else(|| self.sends_posted());
        loop {
            if self.started == end {
                self.goes_on = self.drain_until.is_none() && self.queues.send.is_cyclic();
                return Ok(None);
            }
            if !self.active && !self.load(memory)? {
                return Ok(None);
            }
            if self.work.fence && self.parts == 0 && readiness.requests_outstanding > 0 {
                return Ok(None);
            }
            if !self.work.opcode.is_local() {
                return self.message(readiness);
            }
            if !self.carry_out(memory)? {
                return Ok(None);
            }
        }
    }

    /// Ends a request with success. The last octet of a Send, Write or Immediate Data is in TCP, or the last one that a
    /// Read or Atomic fetches has been placed.
    #[inline]
    pub fn finish(&mut self, token: Token) {
        if token.0 != self.started || !self.pending.is_empty() {
            return self.finish_among_others(token.0);
        }
        // Nothing before it is outstanding, so that it need not be kept.
        if self.active && self.current.is_last_part() {
            let done = self.current;
            (self.started, self.active) = (self.started + 1, false);
            self.complete(&done);
        }
    }

    fn finish_among_others(&mut self, index: u64) {
        let Some(pending) = self.pending_mut(index) else { return };
        if !pending.is_last_part() {
            return;
        }
        pending.done = true;
        if index == self.started {
            self.advance();
        }
        self.retire();
    }

    /// Ends the request with this token without success: its completion says why. All others are flushed later.
    pub fn fail(&mut self, token: Token, status: Status, vendor_err: u32) {
        if self.pending_mut(token.0).is_some_and(|pending| !pending.done) {
            self.end(token.0, status, vendor_err);
        }
    }

    /// Ends the oldest request that is not done with `status`: the stream is lost, or never came about.
    pub fn fail_oldest(&mut self, status: Status) {
        let end = self.started + u64::from(self.active);
        if let Some(index) =
            (self.retired..end).find(|&index| self.pending_mut(index).is_some_and(|pending| !pending.done))
        {
            self.end(index, status, 0);
        } else if self.started < self.sends_posted() && !self.queues.send.is_cyclic() {
            self.end_unstarted(status);
            self.retire();
        }
    }

    /// Handles that the peer has closed its direction between two FPDUs. This ends the queue pair, unless it behaves as
    /// InfiniBand's: then the oldest request that is not done fails as if it were sent in vain. Without such a request
    /// nothing happens until a request needs the peer.
    pub fn handle_peer_left(&mut self) {
        if !self.queues.as_infiniband() {
            return self.handle_event(QpEvent::CloseStarted);
        }
        let is_quiet =
            self.started == self.sends_posted() && self.pending.is_empty() && !self.receiving.active;
        if is_quiet && !self.active && self.drain_until.is_none() {
            return self.handle_event(QpEvent::PeerLeft);
        }
        self.fail_oldest(Status::RetryExceeded);
        self.handle_event(QpEvent::CloseStarted);
    }

    /// Moves the state, and flushes everything posted where the new state says so.
    pub fn handle_event(&mut self, event: QpEvent) {
        self.queues.handle_event(event);
        self.flush_if_ended();
    }

    /// Flushes requests that were posted after the stream ended. The engine calls it when the doorbell rings.
    pub fn flush_if_ended(&mut self) {
        if self.queues.state().flushes() {
            self.waits.end(self.queues.number);
            self.aside = Aside::None;
            self.flush_sends();
            self.flush_recvs();
        }
    }

    /// Sets the time for the stamps of completions, in microseconds.
    pub const fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// Counts a segment with `octets` behind its header that is in TCP; `is_last` of its message.
    pub const fn count_sent(&mut self, octets: usize, is_last: bool) {
        self.counters.octets_sent += octets as u64;
        self.counters.messages_sent += is_last as u64;
    }

    /// Counts a segment with `octets` behind its header that has come; `is_last` of its message.
    pub const fn count_received(&mut self, octets: usize, is_last: bool) {
        self.counters.octets_received += octets as u64;
        self.counters.messages_received += is_last as u64;
    }

    /// Returns what it has done so far.
    pub const fn counters(&self) -> QpCounters {
        self.counters
    }

    /// Returns the shared half.
    pub const fn queues(&self) -> &Arc<QpQueues> {
        &self.queues
    }

    /// Returns the protection domain.
    pub const fn pd(&self) -> PdId {
        self.pd
    }

    /// Notes something to tell besides completions.
    pub const fn note(&mut self, notice: QpNotice) {
        self.notices.insert(notice);
    }

    /// Returns what there is to tell since the last call.
    pub fn take_notices(&mut self) -> QpNotices {
        core::mem::take(&mut self.notices)
    }

    /// Starts no request that is posted from now on; see [`Self::is_drained`]. A cyclic send queue stops at its next
    /// WAIT.
    pub fn drain(&mut self) {
        let end = if self.queues.send.is_cyclic() { self.next_wait() } else { self.sends_posted() };
        self.drain_until.get_or_insert(end);
    }

    /// Returns whether it was asked to drain and is not at its end.
    pub fn is_draining(&self) -> bool {
        self.drain_until.is_some() && self.queues.state() == QpState::Rts
    }

    /// Returns whether it was asked to drain and everything posted before has been done.
    pub fn is_drained(&self) -> bool {
        self.is_draining() && self.drain_until == Some(self.retired)
    }

    /// Returns whether every request makes a completion.
    pub const fn signal_all(&self) -> bool {
        self.signal_all
    }

    /// Returns whether a message that finds no receive request waits for one.
    pub const fn rnr_wait(&self) -> bool {
        self.rnr_wait
    }

    /// Sets whether such messages wait, or else end the stream.
    pub const fn set_rnr_wait(&mut self, wait: bool) {
        self.rnr_wait = wait;
    }

    /// Returns whether a completion queue has lost a completion, which is the end of this queue pair.
    pub fn is_overrun(&self) -> bool {
        self.send_cq.is_overrun() || self.recv_cq.is_overrun()
    }

    /// Has polls leave its completions out: the application has destroyed this queue pair. It may stay until its
    /// connection has ended, and makes no completion any more.
    pub fn leave_cqs(&mut self) {
        if let Some(number) = self.send_number.take() {
            self.send_cq.detach(Frees { number, end: self.retired });
        }
        self.receiving.leave(&self.recv_cq);
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
        let Some(pending) = self.pending_mut(index) else { return };
        pending.done = true;
        pending.status = status;
        pending.vendor_err = vendor_err;
        if index == self.started {
            self.advance();
        }
        self.retire();
    }

    fn advance(&mut self) {
        self.pending.push_back(self.current);
        self.started += 1;
        self.active = false;
    }

    /// Hands out completions in the order of posting, as far as everything before is done.
    fn retire(&mut self) {
        while let Some(pending) = self.pending.front().copied().filter(|pending| pending.done) {
            self.pending.pop_front();
            self.complete(&pending);
        }
    }

    /// Hands out the completion of the oldest request, if it makes one.
    fn complete(&mut self, pending: &Pending) {
        // Behind a failure no request succeeds any more, even if it was done before. A program that waits for the rest
        // of a queue after the first failure has to get all of it, also what was not signaled.
        let flushed = self.failed && pending.status == Status::Success;
        let status = if flushed { Status::WorkRequestFlushed } else { pending.status };
        let good = status == Status::Success;
        if !good {
            self.failed = true;
            // Its place is not posted again, and so each entry of a cyclic queue ends once.
            self.queues.send.end_cycle();
        }
        self.counters.count_completed(status);
        self.retire_one();
        if pending.signaled || !good {
            // It is unknown how much of a failed request was done (RFC 5040 section 3.1).
            let byte_len = if good { pending.len } else { 0 };
            let completion = Completion {
                wr_id: pending.wr_id,
                status,
                opcode: pending.opcode,
                byte_len,
                invalidated: None,
                immediate: None,
                qp_num: self.queues.number,
                vendor_err: pending.vendor_err,
                solicited: false,
                timestamp: self.now,
            };
            let frees = Frees::of(self.send_number, self.retired);
            if !self.send_cq.push(&completion, frees) {
                self.send_cq.abandon(frees.number);
                self.queues.send.release(self.retired);
            }
        }
    }

    /// Counts the oldest request as completed. The poll of this completion, or of the next one if it makes none, frees
    /// its place. If the completion queue need not be polled this call does, before a poll can see the completion.
    #[inline]
    fn retire_one(&mut self) {
        self.retired += 1;
        if self.send_number.is_none() {
            self.queues.send.release(self.retired);
        }
    }

    fn flush_sends(&mut self) {
        if self.active {
            self.fault(Status::WorkRequestFlushed);
        }
        for pending in self.pending.iter_mut().filter(|pending| !pending.done) {
            pending.done = true;
            pending.status = Status::WorkRequestFlushed;
        }
        self.retire();
        self.queues.send.end_cycle();
        while self.started < self.sends_posted() {
            self.end_unstarted(Status::WorkRequestFlushed);
            self.retire();
        }
    }

    /// Ends the next request without having started it.
    fn end_unstarted(&mut self, status: Status) {
        // Only the wr_id of the entry matters now.
        let _ended_anyway = self.queues.send.load(self.started, &mut self.work);
        self.pending.push_back(Pending { wr_id: self.work.wr_id, done: true, status, ..Pending::default() });
        self.started += 1;
        self.counters.sends_started += 1;
    }

    #[inline]
    fn sends_posted(&self) -> u64 {
        self.queues.send.posted()
    }

    /// Returns whether a request of the send queue is not done.
    pub fn has_sends(&self) -> bool {
        self.retired != self.sends_posted()
    }

    /// Returns where the original value of an Atomic in progress goes.
    pub(crate) fn sink(&mut self, token: Token) -> Sge {
        self.pending_mut(token.0).map(|pending| pending.sink).unwrap_or_default()
    }

    /// Returns a request that has been started and not completed.
    fn pending_mut(&mut self, index: u64) -> Option<&mut Pending> {
        if index == self.started {
            return self.active.then_some(&mut self.current);
        }
        let place = usize::try_from(index.checked_sub(self.retired)?).ok()?;
        self.pending.get_mut(place)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.waits.end(self.queues.number);
        self.leave_cqs();
        self.receiving.end();
        for queue in [&self.send_cq, &self.recv_cq] {
            self.cq_table.detach(queue, self.pd);
        }
    }
}

mod alone;
mod cyclic;
mod local;
mod pending;
mod receive;
mod receiving;
mod short;
mod start;
mod syncing;
mod wait;

#[cfg(test)]
mod alone_tests;
#[cfg(test)]
mod cyclic_tests;
#[cfg(test)]
mod held_tests;
#[cfg(test)]
mod place_tests;
#[cfg(test)]
mod syncing_tests;
#[cfg(test)]
mod tests;
