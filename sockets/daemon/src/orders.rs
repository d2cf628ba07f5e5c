//! The orders of an operator's commands.

use core::time::Duration;
use std::os::fd::BorrowedFd;

use weft_sockets::{Answer, Denial, Order};

use crate::pending::Succession;
use crate::state::State;

impl State {
    /// Obeys a command, or tells it why not.
    pub(crate) fn obey(&mut self, id: u64, order: Order, now: Duration) {
        let done = match order {
            Order::HasLanes {} => {
                self.answer(id, Answer::Lanes { has: u8::from(self.hosts.is_some()) }, None);
                Ok(())
            }
            Order::Drain { pid } => self.drain(id, pid, now),
            Order::Replace {} => self.begin_succession(id),
            Order::Replaced {} if self.succession == Succession::Given(id) => {
                self.succession = Succession::Taken;
                self.drain_hosts(now);
                Ok(())
            }
            Order::Replaced {} => Err(Denial::Busy),
        };
        if let Err(why) = done {
            self.answer(id, Answer::Denied { why }, None);
        }
    }

    /// Answers a command. One that does not hear it is of no use any more.
    pub(crate) fn answer(&mut self, id: u64, answer: Answer, descriptor: Option<BorrowedFd<'_>>) {
        let Some(port) = self.ports.get(&id) else { return };
        if !port.answer(answer, descriptor) {
            self.disconnect(id);
        }
    }

    /// Forgets a successor that has gone before it served.
    pub(crate) fn end_succession(&mut self, id: u64) {
        if matches!(self.succession, Succession::Asked(other) | Succession::Given(other) if other == id) {
            self.succession = Succession::None;
        }
    }

    fn begin_succession(&mut self, id: u64) -> Result<(), Denial> {
        let uid = self.ports.get(&id).map(|port| port.uid).ok_or(Denial::Ended)?;
        if uid != 0 && uid != self.uid {
            return Err(Denial::User);
        }
        if self.succession != Succession::None {
            return Err(Denial::Busy);
        }
        self.succession = Succession::Asked(id);
        Ok(())
    }
}
