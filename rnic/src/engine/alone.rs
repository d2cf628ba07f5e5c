//! Queue pairs that are connected to themselves.

use weft_netif::Instant;
use weft_verbs::{QpEvent, QpNotice, QpState};

use crate::engine::tables::Engine;
use crate::error::CmError;

impl Engine {
    /// Connects the queue pair in `slot` to itself.
    ///
    /// # Errors
    /// As for a connection to a peer.
    pub(crate) fn connect_self(&mut self, slot: usize, now: Instant) -> Result<(), CmError> {
        self.check_free(slot)?;
        let Some(Some(own)) = self.qps.get_mut(slot) else { return Err(CmError::QpBusy) };
        own.qp.set_now(now.total_micros().unsigned_abs());
        if own.qp.connect_self() { Ok(()) } else { Err(CmError::QpBusy) }
    }

    /// Ends the queue pair in `slot` if it is connected to itself, and returns whether it was. Everything posted is
    /// flushed.
    pub(crate) fn disconnect_self(&mut self, slot: usize, now: Instant) -> bool {
        let Some(Some(own)) = self.qps.get_mut(slot) else { return false };
        if !own.qp.is_alone() || own.qp.queues().state() != QpState::Rts {
            return false;
        }
        own.qp.set_now(now.total_micros().unsigned_abs());
        own.qp.handle_event(QpEvent::CloseStarted);
        own.qp.handle_event(QpEvent::LlpClosed);
        self.announce(Some(slot), now);
        true
    }

    /// Gives the queue pair in `index` its turn if it is connected to itself.
    pub(super) fn run_alone(&mut self, index: usize, now: Instant) {
        let Some(Some(slot)) = self.qps.get_mut(index) else { return };
        if !slot.qp.is_alone() {
            return;
        }
        let is_failed = {
            let memory = self.memory.read();
            slot.qp.run_alone(&memory).is_err()
        };
        if is_failed || slot.qp.is_overrun() {
            slot.qp.note(QpNotice::Fatal);
            slot.qp.handle_event(QpEvent::Failed);
        } else if slot.qp.is_drained() {
            slot.qp.note(QpNotice::SqDrained);
            slot.qp.handle_event(QpEvent::CloseStarted);
            slot.qp.handle_event(QpEvent::LlpClosed);
        }
        if self.memory.is_shared() {
            self.end_revocation(Some(index));
        }
        self.begin_sync(Some(index), now);
        self.announce(Some(index), now);
    }
}
