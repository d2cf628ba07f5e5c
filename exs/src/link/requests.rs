//! The requests of a link: made, posted together, and in the send queue until they are known to be done.
//!
//! Only a request of which the session has to hear soon makes a completion. It tells of those before it as well.

use core::ops::Range;
use std::collections::VecDeque;

use weft_exs_core::Op;
use weft_rnic::{Data, Qp, SendOpcode, SendWr, Sge};

/// The requests of a link.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The elements of requests that are not posted, and of the one that is made.
    elements: Vec<Sge>,
    /// Where those of the one that is made begin.
    begun: usize,
    /// Requests that are not posted.
    waiting: Vec<Request>,
    /// Requests in the send queue, oldest first: their numbers, and the operations of which the session hears.
    posted: VecDeque<(u64, Option<Op>)>,
    /// Operations whose requests the queue pair has refused, since the connection has ended.
    refused: VecDeque<Op>,
    last_number: u64,
    /// Requests without a completion since the last one with it.
    unsignaled: usize,
}

#[derive(Debug)]
struct Request {
    number: u64,
    opcode: SendOpcode,
    elements: Range<usize>,
    is_signaled: bool,
    told: Option<Op>,
}

impl Requests {
    /// Adds elements to the request that is made.
    pub(super) fn gather(&mut self, elements: impl Iterator<Item = Sge>) {
        self.elements.extend(elements);
    }

    /// Puts an element in front of the request that is made.
    pub(super) fn gather_first(&mut self, element: Sge) {
        self.elements.insert(self.begun, element);
    }

    /// Ends the request that is made. The session hears of it by `told`: soon if it `is_signaled`, else with a later
    /// one.
    pub(super) fn end(&mut self, opcode: SendOpcode, told: Option<Op>, is_signaled: bool) {
        self.last_number += 1;
        let is_signaled = is_signaled || self.unsignaled >= MAX_UNSIGNALED;
        self.unsignaled = if is_signaled { 0 } else { self.unsignaled + 1 };
        let elements = self.begun..self.elements.len();
        self.begun = self.elements.len();
        self.waiting.push(Request { number: self.last_number, opcode, elements, is_signaled, told });
    }

    /// Notes an operation whose request could not be made.
    pub(super) fn refuse(&mut self, told: Option<Op>) {
        self.refused.extend(told);
    }

    /// Posts all requests, with one doorbell for several.
    pub(super) fn post(&mut self, qp: &Qp) {
        let mut is_taken = true;
        for chunk in self.waiting.chunks(AT_A_TIME) {
            let mut requests = [SendWr::new(SendOpcode::Nop); AT_A_TIME];
            for (request, Request { number, opcode, elements, is_signaled, .. }) in
                requests.iter_mut().zip(chunk)
            {
                let data = Data::Sges(self.elements.get(elements.clone()).unwrap_or_default());
                *request = SendWr { wr_id: *number, data, signaled: *is_signaled, ..SendWr::new(*opcode) };
            }
            let posted = match requests.get(..chunk.len()) {
                Some(requests) if is_taken => {
                    qp.post_sends(requests).map_or_else(|(posted, _)| posted, |()| chunk.len())
                }
                _ => 0,
            };
            is_taken = posted == chunk.len();
            let (posted, refused) = chunk.split_at_checked(posted).unwrap_or((chunk, &[]));
            self.posted.extend(posted.iter().map(|request| (request.number, request.told)));
            self.refused.extend(refused.iter().filter_map(|request| request.told));
        }
        self.waiting.clear();
        self.elements.clear();
        self.begun = 0;
    }

    /// Has the last request that was posted be known when it is done.
    pub(super) fn seal(&mut self) {
        if self.unsignaled > 0 && !self.posted.is_empty() {
            self.end(SendOpcode::Nop, None, true);
        }
    }

    /// Takes a completion. Calls `tell` with each operation that it tells of, and whether its request was carried out.
    pub(super) fn complete(&mut self, number: u64, is_good: bool, mut tell: impl FnMut(Op, bool)) {
        // One that fails makes a completion in any case. So those before are good.
        while let Some(&(posted, told)) = self.posted.front().filter(|(posted, _)| *posted <= number) {
            self.posted.pop_front();
            told.into_iter().for_each(|op| tell(op, is_good || posted < number));
        }
    }

    /// Takes an operation whose request was refused.
    pub(super) fn take_refused(&mut self) -> Option<Op> {
        self.refused.pop_front()
    }

    /// Takes the operations of all that was posted. The connection is gone.
    pub(super) fn abandon(&mut self) -> impl Iterator<Item = Op> {
        core::mem::take(&mut self.posted).into_iter().filter_map(|(_, told)| told)
    }

    /// Returns how many requests are not known to be done.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.posted.len()
    }
}

/// Requests in a row without a completion. A send queue has at least twice as many entries.
const MAX_UNSIGNALED: usize = 15;
/// Requests that are posted with one doorbell.
const AT_A_TIME: usize = 8;
