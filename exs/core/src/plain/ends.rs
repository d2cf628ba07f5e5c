//! How the operations of a socket over TCP alone end.

use super::{Close, Incoming, Plain, PlainAction, Transfer};
use crate::action::Cause;
use crate::op::{Mode, OpError, Outcome};

impl Plain {
    /// Ends the connection, and all operations.
    pub(super) fn end(&mut self, cause: Cause) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(cause);
        self.close_error.0 = match cause {
            _ if self.close == Close::Open => None,
            Cause::Closed => None,
            Cause::Abandoned if self.sends.is_empty() => None,
            _ => Some(cause.error()),
        };
        self.actions.push_back(PlainAction::End { is_done: cause == Cause::Closed });
        let error = cause.error();
        self.cancel_receives(error, |_| true);
        let sends = self.sends.drain(..);
        self.actions.extend(sends.map(|send| PlainAction::Complete { op: send.op, result: Err(error) }));
    }

    /// Completes the first sends, as far as TCP has all of them.
    pub(super) fn finish_sends(&mut self) {
        while self.sends.front().is_some_and(|send| send.rest() == 0)
            && let Some(send) = self.sends.pop_front()
        {
            let outcome = Outcome { octets: send.len, message_len: send.len, mode: Mode::Plain };
            self.actions.push_back(PlainAction::Complete { op: send.op, result: Ok(outcome) });
        }
    }

    /// Completes the first receives that are full, or for which nothing more comes.
    pub(super) fn finish_receives(&mut self) {
        let is_over = self.is_shut || self.incoming == Incoming::Ended;
        while self.receives.front().is_some_and(|receive| is_over || receive.rest() == 0)
            && let Some(receive) = self.receives.pop_front()
        {
            self.end_receive(&receive, None);
        }
    }

    /// Takes sends back of which TCP has nothing.
    pub(super) fn cancel_sends(&mut self, error: OpError, is_chosen: impl Fn(&Transfer) -> bool) -> usize {
        let before = self.sends.len();
        let actions = &mut self.actions;
        self.sends.retain(|send| {
            let is_canceled = send.done == 0 && is_chosen(send);
            if is_canceled {
                actions.push_back(PlainAction::Complete { op: send.op, result: Err(error) });
            }
            !is_canceled
        });
        let canceled = before - self.sends.len();
        // Sends of no octets may have their turn now.
        self.finish_sends();
        canceled
    }

    /// Ends receives, in their order.
    pub(super) fn cancel_receives(&mut self, error: OpError, is_chosen: impl Fn(&Transfer) -> bool) -> usize {
        let before = self.receives.len();
        for _ in 0..before {
            let Some(receive) = self.receives.pop_front() else { break };
            if is_chosen(&receive) {
                self.end_receive(&receive, Some(error));
            } else {
                self.receives.push_back(receive);
            }
        }
        let canceled = before - self.receives.len();
        self.finish_receives();
        canceled
    }

    /// Completes a receive: with the octets that it holds, else with the error if there is one.
    pub(super) fn end_receive(&mut self, receive: &Transfer, error: Option<OpError>) {
        let octets = receive.done;
        let result = match error {
            Some(error) if octets == 0 => Err(error),
            None if octets == 0 && receive.len > 0 => Ok(Outcome::END),
            _ => Ok(Outcome { octets, message_len: octets, mode: Mode::Plain }),
        };
        self.actions.push_back(PlainAction::Complete { op: receive.op, result });
    }
}
