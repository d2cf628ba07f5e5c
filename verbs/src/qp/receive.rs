//! The receive side: where a message takes its request from, and how the request ends.

use super::QueuePair;
use crate::completion::{Completion, CompletionOpcode, Status};
use crate::cq::Frees;
use crate::entry::BadEntry;
use crate::memory::MemoryTable;
use crate::notice::QpNotice;
use crate::refusal::Refusal;
use crate::sync::atomic::{Ordering, fence};

impl QueuePair {
    /// Returns whether a message that begins now has to wait for a receive request: there is none, and this queue pair
    /// waits instead of ending the stream. Then posting a request asks for its doorbell.
    #[inline]
    pub fn lacks_receive(&mut self) -> bool {
        self.rnr_wait && !self.receiving.active && self.waits_for_receive()
    }

    fn waits_for_receive(&mut self) -> bool {
        let lacks = match &mut self.receiving.shared {
            Some(shared) => shared.srq.wait(&shared.ring, self.queues.number, &mut shared.ticket),
            None => self.await_own_recv(),
        };
        if !lacks {
            self.stop_waiting();
        } else if !self.receiving.waits {
            self.counters.rnr += 1;
        }
        self.receiving.waits = lacks;
        lacks
    }

    /// Places a whole Send and completes it, if the next receive request is in the own queue, has one element and has
    /// room. Else it changes nothing and returns `false`; then [`Self::apply`] handles the Send.
    #[inline]
    pub fn place_whole(&mut self, payload: &[u8], solicited: bool, memory: &MemoryTable) -> bool {
        let next = self.receiving.next;
        if self.receiving.active || self.receiving.shared.is_some() || next == self.recvs_posted() {
            return false;
        }
        let Some((wr_id, sge)) = self.queues.recv.load_single(next) else { return false };
        if payload.len() > sge.length as usize
            || self.reach(memory).deliver(sge.lkey, sge.addr, payload).is_err()
        {
            return false;
        }
        self.receiving.next += 1;
        self.counters.receives_started += 1;
        self.written = 0;
        // It is no longer than the SGE, whose length has 32 bits.
        let byte_len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let plain = self.recv_completion(wr_id, Status::Success);
        self.complete_recv(Completion { byte_len, solicited, ..plain });
        true
    }

    /// Goes on with the ring that the shared receive queue has now, after a change of its size.
    pub fn follow_srq(&mut self) {
        if let Some(shared) = &mut self.receiving.shared {
            shared.ring = shared.srq.ring();
        }
    }

    /// Takes the oldest posted receive request for the message that begins.
    #[inline]
    pub(crate) fn take_recv(&mut self) -> Result<(), Refusal> {
        match self.next_recv() {
            None => {
                self.counters.rnr += 1;
                Err(Refusal::Peer(weft_rdmap::Error::Ddp(weft_ddp::Error::NoBuffer)))
            }
            Some(loaded) => {
                self.counters.receives_started += 1;
                self.receiving.active = true;
                loaded.map_err(|BadEntry| {
                    self.fail_recv(Status::LocalQpOperation);
                    Refusal::Local(Status::LocalQpOperation)
                })
            }
        }
    }

    /// Ends the receive request in progress, and makes its completion.
    #[inline(always)]
    pub(crate) fn complete_recv(&mut self, completion: Completion) {
        self.receiving.active = false;
        self.counters.count_completed(completion.status);
        let number = self.receiving.number;
        if number.is_none() {
            // Before a poll can see the completion.
            self.free_recv();
        }
        let frees = Frees::of(number, self.receiving.next);
        if !self.recv_cq.push(&completion, frees) {
            self.recv_cq.abandon(frees.number);
            self.free_recv();
        }
    }

    fn free_recv(&mut self) {
        match &self.receiving.shared {
            Some(shared) => {
                shared.srq.release(1);
                self.receiving.next -= 1;
            }
            None => self.queues.recv.release(self.receiving.next),
        }
    }

    pub(crate) fn fail_recv(&mut self, status: Status) {
        // Its place is not posted again, and so each entry of a cyclic queue ends once.
        self.queues.recv.end_cycle();
        let completion = self.recv_completion(self.receiving.work.wr_id, status);
        self.complete_recv(completion);
    }

    /// Returns a receive completion without what only some messages have.
    #[inline(always)]
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

    pub(super) fn flush_recvs(&mut self) {
        if self.receiving.active {
            self.fail_recv(Status::WorkRequestFlushed);
        }
        self.leave_srq();
        self.queues.recv.end_cycle();
        while self.receiving.next < self.recvs_posted() {
            let _flushed_anyway = self.queues.recv.load(self.receiving.next, &mut self.receiving.work);
            self.receiving.next += 1;
            self.counters.receives_started += 1;
            self.fail_recv(Status::WorkRequestFlushed);
        }
    }

    /// Takes no more requests off the shared receive queue. The requests in it are left for the other queue pairs.
    pub fn leave_srq(&mut self) {
        self.stop_waiting();
        if let Some(shared) = &mut self.receiving.shared
            && !core::mem::replace(&mut shared.is_left, true)
        {
            self.notices.insert(QpNotice::LastWqeReached);
        }
    }

    /// Returns whether the own receive queue is empty. If so, posting asks for the doorbell from now on.
    fn await_own_recv(&self) -> bool {
        let is_empty = || self.receiving.next == self.recvs_posted();
        if !is_empty() {
            return false;
        }
        self.queues.await_recv(true);
        // The counterpart of the one in `post_recv`: either the poster sees that it is awaited, or this sees the
        // request.
        fence(Ordering::SeqCst);
        let lacks = is_empty();
        if !lacks {
            self.queues.await_recv(false);
        }
        lacks
    }

    fn stop_waiting(&mut self) {
        if core::mem::take(&mut self.receiving.waits) {
            match &self.receiving.shared {
                Some(shared) => shared.srq.leave(shared.ticket),
                None => self.queues.await_recv(false),
            }
        }
    }

    #[inline]
    fn next_recv(&mut self) -> Option<Result<(), BadEntry>> {
        if let Some(shared) = &self.receiving.shared {
            let taken = shared.srq.take(&shared.ring, &mut self.receiving.work);
            self.receiving.next += u64::from(taken.is_some());
            return taken;
        }
        if self.receiving.next == self.recvs_posted() {
            return None;
        }
        let loaded = self.queues.recv.load(self.receiving.next, &mut self.receiving.work);
        self.receiving.next += 1;
        Some(loaded)
    }

    /// Returns the receive requests posted so far to the own queue.
    #[inline]
    fn recvs_posted(&self) -> u64 {
        self.queues.recv.posted()
    }
}
