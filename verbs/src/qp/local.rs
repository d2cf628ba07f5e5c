//! Requests that the engine carries out by itself when they come to the head of the send queue, without a message.
//!
//! They complete in their order with all others. All data of earlier Sends and Writes is in TCP by then; earlier Reads
//! and Atomics may be outstanding, unless the request has a fence.

use weft_rdmap::Token;

use super::QueuePair;
use super::pending::Aside;
use super::wait::Taken;
use crate::completion::Status;
use crate::entry::{Operation, make_nop, peek, peek_remote};
use crate::memory::{KeyedStag, MemoryTable};
use crate::refusal::LocalFault;
use crate::state::QpState;
use crate::work::SendOpcode;

impl QueuePair {
    /// Carries out requests at the head of the send queue that need no message, while nothing may be sent yet. A
    /// request that needs a message is checked only when it may start, so that the peer can be told if it is bad.
    ///
    /// # Errors
    /// As [`Self::next_message`].
    pub fn carry_out_local(&mut self, memory: &MemoryTable) -> Result<(), LocalFault> {
        if self.queues.state() != QpState::Rts {
            return Ok(());
        }
        let end = self.sends_posted();
        loop {
            if !self.active {
                self.goes_on = self.started == end && self.queues.send.is_cyclic();
                let is_next = self.started < end
                    && self.queues.send.load(self.started, &mut self.work).is_ok()
                    && self.work.opcode.is_local();
                if !is_next || !self.load(memory)? {
                    return Ok(());
                }
            }
            // A WAIT has been started before it is done.
            if !self.work.opcode.is_local() || !self.carry_out(memory)? {
                return Ok(());
            }
        }
    }

    /// Carries out the request at hand, and completes it; `false` says that it has to wait.
    pub(super) fn carry_out(&mut self, memory: &MemoryTable) -> Result<bool, LocalFault> {
        match self.aside {
            Aside::None => {}
            Aside::Revoking | Aside::ToSync => return Ok(false),
            Aside::Revoked => {
                self.aside = Aside::None;
                self.finish(Token(self.started));
                return Ok(true);
            }
            Aside::Syncing => return self.end_sync(),
        }
        if matches!(self.work.opcode, SendOpcode::Sync | SendOpcode::SyncLater) {
            return self.begin_sync(memory);
        }
        let (pd, stream) = (self.pd, self.queues.stream);
        let before = memory.revocations();
        let done = match self.work.opcode {
            SendOpcode::BindWindow(bind) => {
                self.binds = true;
                memory.bind(&bind, pd, stream)
            }
            SendOpcode::FastRegister(request) => memory.fast_register(&request, pd, stream),
            SendOpcode::LocalInvalidate { stag } => memory.invalidate_locally(stag, pd, stream),
            SendOpcode::Nop => Ok(()),
            SendOpcode::Wait { cq, count, strict } => {
                let queue = self.waits.waiting().or_else(|| self.cq_table.find(cq, pd));
                let Some(queue) = queue else { return Err(self.fault(Status::LocalQpOperation)) };
                match self.waits.take(&queue, (count, strict), self.queues.number, &self.cq_table) {
                    Taken::Done => Ok(()),
                    Taken::NotYet => return Ok(false),
                    Taken::Failed => return Err(self.fault(Status::WorkRequestFlushed)),
                }
            }
            // The others make messages (`SendOpcode::is_local`), and a held entry is not started.
            _ => return Err(self.fault(Status::General)),
        };
        if done.is_err() {
            return Err(self.fault(Status::MemoryWindowBind));
        }
        if memory.revocations() != before {
            self.aside = Aside::Revoking;
            return Ok(false);
        }
        self.finish(Token(self.started));
        Ok(true)
    }

    /// Returns whether the request at hand has taken memory out of use that other engines may still be copying from or
    /// to. It completes after [`Self::end_revocation`], which the engine calls when none of them is in a turn that
    /// began before.
    pub const fn is_revoking(&self) -> bool {
        matches!(self.aside, Aside::Revoking)
    }

    /// Goes on with the request at hand: no engine uses any more what it has taken out of use.
    pub const fn end_revocation(&mut self) {
        if self.is_revoking() {
            self.aside = Aside::Revoked;
        }
    }

    /// Has requests that are posted and not carried out bind `window` no more: each of them becomes a NOP. A cyclic
    /// queue posts its requests again by itself, and stays as it is.
    pub fn forget_binds(&mut self, window: &KeyedStag) {
        if self.queues.send.is_cyclic() {
            return;
        }
        let is_meant = |opcode| matches!(opcode, SendOpcode::BindWindow(bind) if window.owns(bind.window));
        // One with a fence was read and waits.
        if self.active && is_meant(self.work.opcode) {
            self.work.opcode = SendOpcode::Nop;
            self.current.opcode = self.work.opcode.completion();
        }
        for index in self.started + u64::from(self.active)..self.sends_posted() {
            let entry = self.queues.send.entry(index);
            let is_bind = peek(entry).operation == Some(Operation::BindWindow);
            if is_bind && window.owns(peek_remote(entry).0) {
                make_nop(entry);
            }
        }
    }

    /// Takes the windows that are bound for this queue pair's stream out of use. The engine calls it when it destroys
    /// the queue pair.
    pub fn unbind_windows(&self, memory: &MemoryTable) {
        if self.binds {
            memory.unbind_stream(self.queues.stream);
        }
    }
}
