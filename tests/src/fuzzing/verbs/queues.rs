//! Queue pairs and completion queues, and their models.

use std::collections::VecDeque;

use weft_rnic::{Completion, CompletionOpcode, Cq, Qp, QpCapacity, QpState, SendOpcode, Sge, Status};

use super::memory::{Asker, End};

/// A queue pair with its model.
#[derive(Debug)]
pub(super) struct Pair {
    /// `None` after it is destroyed.
    pub(super) qp: Option<Qp>,
    pub(super) name: End,
    pub(super) number: u32,
    pub(super) pd: usize,
    pub(super) cqs: [usize; 2],
    pub(super) capacity: QpCapacity,
    pub(super) signal_all: bool,
    pub(super) state: QpState,
    pub(super) link: Link,
    pub(super) sends: VecDeque<Send>,
    pub(super) recvs: VecDeque<Recv>,
    /// The requests of both queues that are done. They keep their places until their completion, or a later one, is
    /// polled.
    pub(super) done: [VecDeque<u64>; 2],
    /// The octets that the peer has written since its last message of another kind.
    pub(super) written: usize,
}

/// The state of a queue pair's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    None,
    /// The Request is on its way, or unanswered.
    Asking,
    Up(End),
}

/// A request of the send queue.
#[derive(Clone, Debug)]
pub(super) struct Send {
    pub(super) wr_id: u64,
    pub(super) opcode: SendOpcode,
    pub(super) data: Octets,
    pub(super) signaled: bool,
    pub(super) solicited: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Octets {
    Sges(Vec<Sge>),
    Inline(Vec<u8>),
}

/// A request of the receive queue.
#[derive(Clone, Debug)]
pub(super) struct Recv {
    pub(super) wr_id: u64,
    pub(super) sges: Vec<Sge>,
}

/// A completion queue and its expected content: an ordered lane for each queue that completes to it.
#[derive(Debug)]
pub(super) struct Completions {
    pub(super) cq: Option<Cq>,
    pub(super) lanes: Vec<((End, usize), VecDeque<Completion>)>,
}

impl Pair {
    pub(super) const fn asker(&self) -> Asker {
        Asker { end: self.name, pd: self.pd }
    }

    /// Returns the completion of a request, without the fields of its kind.
    pub(super) const fn completion(
        &self,
        wr_id: u64,
        opcode: CompletionOpcode,
        status: Status,
    ) -> Completion {
        Completion {
            wr_id,
            status,
            opcode,
            byte_len: 0,
            invalidated: None,
            immediate: None,
            qp_num: self.number,
            vendor_err: 0,
            solicited: false,
            timestamp: 0,
        }
    }
}

impl Completions {
    pub(super) fn expect(&mut self, end: End, queue: usize, completion: Completion) {
        if self.cq.is_none() {
            return;
        }
        let key = (end, queue);
        match self.lanes.iter_mut().find(|(lane, _)| *lane == key) {
            Some((_, lane)) => lane.push_back(completion),
            None => self.lanes.push((key, VecDeque::from([completion]))),
        }
    }

    /// Takes up to `count` completions and compares them. Returns the completions, and the queues that they are of.
    pub(super) fn poll(&mut self, count: usize) -> Vec<((End, usize), Completion)> {
        let Some(cq) = &self.cq else { return Vec::new() };
        let expected: usize = self.lanes.iter().map(|(_, lane)| lane.len()).sum();
        let mut taken = Vec::new();
        while taken.len() < count {
            let Some(found) = cq.poll_one() else { break };
            let mut lanes = self.lanes.iter_mut();
            let lane = lanes.find(|(_, lane)| lane.front().is_some_and(|next| next.wr_id == found.wr_id));
            let next = lane.and_then(|(queue, lane)| Some((*queue, lane.pop_front()?)));
            let (queue, next) = next.unwrap_or_else(|| panic!("{found:?} is not expected now"));
            let found = Completion { timestamp: 0, ..found };
            if next.status == Status::Success {
                assert_eq!(found, next);
            } else {
                let told = |completion: &Completion| (completion.status, completion.qp_num);
                assert_eq!(told(&found), told(&next), "{found:?}");
                // The code of a Terminate has more detail than the model.
                assert_eq!(found.vendor_err != 0, is_remote(found.status), "{found:?}");
            }
            taken.push((queue, next));
        }
        assert_eq!(taken.len(), count.min(expected), "completions are missing");
        taken
    }
}

const fn is_remote(status: Status) -> bool {
    matches!(
        status,
        Status::RemoteAccess
            | Status::RemoteOperation
            | Status::RemoteInvalidRequest
            | Status::RnrRetryExceeded
    )
}
