//! The sending half: messages in the order of their starts, and what is known of each.

use alloc::collections::VecDeque;
use core::time::Duration;

use weft_ddp::Stag;

use crate::action::Action;
use crate::fault::Fault;
use crate::message::{Ack, Extent, Msg, Source};
use crate::op::{Mode, Op, OpError, Outcome, SendRequest};
use crate::terms::Terms;

/// Messages that are to be sent, or wait for their acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sender {
    /// Messages sent before the first is acknowledged.
    credits: usize,
    /// The longest immediate data, in octets.
    immediate: u32,
    /// All that have not completed, in the order of their starts.
    queue: VecDeque<Sending>,
    /// The first of them are out: their MSG has been sent.
    out: usize,
    /// The first of those have been acknowledged.
    acknowledged: usize,
    /// Messages sent since the start.
    sent: u64,
    /// The connection has ended, and everything that is left ends so.
    ended: Option<OpError>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sending {
    request: SendRequest,
    window: Binding,
    /// Requests of the send queue that have not completed. They may still reach the memory.
    posted: u8,
    /// What the peer has acknowledged.
    extent: Option<Extent>,
}

/// The state of the window of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Binding {
    /// Not bound yet.
    Free,
    /// Bound, or about to be.
    Bound,
    /// Not needed, or not any more.
    Over,
}

impl Sender {
    pub(super) fn new(terms: &Terms) -> Self {
        Self {
            credits: terms.send_credits.into(),
            immediate: terms.immediate,
            queue: VecDeque::new(),
            out: 0,
            acknowledged: 0,
            sent: 0,
            ended: None,
        }
    }

    pub(super) fn start(&mut self, request: SendRequest) {
        let window = if self.is_immediate(request.len) { Binding::Over } else { Binding::Free };
        self.queue.push_back(Sending { request, window, posted: 0, extent: None });
    }

    /// Takes an acknowledgement, which came with this STag taken out of use.
    ///
    /// # Errors
    /// [`Fault::NotOut`].
    pub(super) fn handle_ack(
        &mut self,
        ack: Ack,
        invalidated: Option<Stag>,
        actions: &mut VecDeque<Action>,
    ) -> Result<(), Fault> {
        let first = self.sent - self.out as u64;
        let place = ack.id.wrapping_sub(Msg::id_of(first)) as usize;
        let Some(last) = self.queue.get_mut(place).filter(|_| (self.acknowledged..self.out).contains(&place))
        else {
            return Err(Fault::NotOut);
        };
        let is_longer = matches!(ack.extent, Extent::Placed(octets) if octets > last.request.len);
        let is_known = |stag| last.window == Binding::Bound && last.request.stag == stag;
        if is_longer || invalidated.is_some_and(|stag| !is_known(stag)) {
            return Err(Fault::NotOut);
        }
        last.extent = Some(ack.extent);
        if invalidated.is_some() {
            last.window = Binding::Over;
        }
        for sending in self.queue.range_mut(self.acknowledged..place) {
            sending.extent = Some(Extent::Full);
        }
        self.acknowledged = place + 1;
        self.complete(actions);
        Ok(())
    }

    /// Takes the completion of a Bind or a Send. Returns whether it was one of an operation here.
    pub(super) fn handle_done(&mut self, op: Op, actions: &mut VecDeque<Action>) -> bool {
        let Some(sending) = self.queue.iter_mut().find(|sending| sending.request.op == op) else {
            return false;
        };
        sending.posted = sending.posted.saturating_sub(1);
        self.complete(actions);
        true
    }

    /// Ends the operations that `is_chosen` and of which nothing has been posted. Returns how many.
    pub(super) fn cancel(
        &mut self,
        is_chosen: impl Fn(Op, Option<Duration>) -> bool,
        error: OpError,
        actions: &mut VecDeque<Action>,
    ) -> usize {
        let before = self.queue.len();
        let mut place = 0;
        let out = self.out;
        self.queue.retain(|sending| {
            let is_out = place < out || sending.window == Binding::Bound;
            place += 1;
            let is_canceled = !is_out && is_chosen(sending.request.op, sending.request.deadline);
            if is_canceled {
                actions.push_back(Action::Complete { op: sending.request.op, result: Err(error) });
            }
            !is_canceled
        });
        before - self.queue.len()
    }

    /// Ends all operations as soon as nothing posted can reach their memory.
    pub(super) fn end(&mut self, error: OpError, actions: &mut VecDeque<Action>) {
        self.ended = Some(error);
        self.complete(actions);
    }

    /// Returns the operation whose window is to be bound now. A place in the window of Sends is there.
    pub(super) fn poll_bind(&mut self) -> Option<Op> {
        let next = self.due().filter(|next| next.window == Binding::Free)?;
        next.window = Binding::Bound;
        next.posted += 1;
        Some(next.request.op)
    }

    /// Returns the next message, with its operation. The octets of the operation follow if it is immediate.
    pub(super) fn poll_msg(&mut self) -> Option<(Msg, Op)> {
        let id = Msg::id_of(self.sent);
        let next = self.due().filter(|next| next.window != Binding::Free)?;
        next.posted += 1;
        let SendRequest { op, len, stag, to, .. } = next.request;
        let source = if self.is_immediate(len) { Source::Inline } else { Source::Memory { stag, to } };
        self.out += 1;
        self.sent += 1;
        Some((Msg { id, len, source }, op))
    }

    /// Returns how many messages have been sent since the start.
    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns whether all messages that were started are out.
    pub(super) fn is_drained(&self) -> bool {
        self.out == self.queue.len()
    }

    /// Returns whether there is a credit for another message.
    pub(super) fn is_writable(&self) -> bool {
        self.is_drained() && !self.has_no_credit()
    }

    /// Returns how many messages are not acknowledged, and how many may be.
    pub(super) fn credits(&self) -> [u32; 2] {
        [self.out.saturating_sub(self.acknowledged), self.credits]
            .map(|all| u32::try_from(all).unwrap_or(u32::MAX))
    }

    /// Returns whether as many messages are out as may be.
    pub(super) const fn has_no_credit(&self) -> bool {
        self.out - self.acknowledged >= self.credits
    }

    /// Returns whether all operations have completed.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether the time of a message is over that cannot be canceled.
    pub(super) fn has_expired(&self, now: Duration) -> bool {
        self.queue.iter().any(|sending| sending.request.deadline.is_some_and(|deadline| deadline <= now))
    }

    pub(super) fn poll_at(&self) -> Option<Duration> {
        self.queue.iter().filter_map(|sending| sending.request.deadline).min()
    }

    const fn is_immediate(&self, len: u32) -> bool {
        len <= self.immediate || len == 0
    }

    /// Returns the next operation whose message is to be sent, if there is a credit for it.
    fn due(&mut self) -> Option<&mut Sending> {
        let is_free = !self.has_no_credit() && self.ended.is_none();
        self.queue.get_mut(self.out).filter(|_| is_free)
    }

    /// Completes the first operations as far as they are done.
    fn complete(&mut self, actions: &mut VecDeque<Action>) {
        while let Some(first) = self.queue.front() {
            let op = first.request.op;
            let len = first.request.len;
            let mode = if self.is_immediate(len) { Mode::Inline } else { Mode::Read };
            let outcome = |octets| Ok(Outcome { octets, message_len: len, mode });
            let result = match (first.extent, self.ended) {
                _ if first.posted > 0 => break,
                (Some(Extent::Full), _) => outcome(len),
                (Some(Extent::Placed(octets)), _) => outcome(octets),
                (Some(Extent::NotTaken), _) => Err(OpError::Shutdown),
                (None, Some(error)) => Err(error),
                (None, None) => break,
            };
            if first.window == Binding::Bound {
                actions.push_back(Action::Revoke { op });
            }
            actions.push_back(Action::Complete { op, result });
            self.queue.pop_front();
            self.out = self.out.saturating_sub(1);
            self.acknowledged = self.acknowledged.saturating_sub(1);
        }
    }
}
