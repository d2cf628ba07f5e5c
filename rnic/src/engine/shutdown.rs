//! The end of an engine: in good order, or at once.

use weft_netif::Instant;
use weft_verbs::QpState;

use crate::connection::state::{Connection, Phase};
use crate::engine::tables::Engine;
use crate::events::asynchronous::AsyncEvent;

impl Engine {
    /// Listens no more, gives up what has not become a connection yet, and closes queue pairs behind what is posted.
    pub(crate) fn begin_shutdown(&mut self, now: Instant) {
        let listeners: Vec<_> = self.listeners.keys().copied().collect();
        for local in listeners {
            self.unlisten(local);
        }
        for slot in 0..self.qps.len() {
            let Some(Some(held)) = self.qps.get(slot) else { continue };
            match (held.qp.queues().state(), held.connection) {
                (QpState::Rts, _) => self.go_to(slot, QpState::Closing, now),
                (QpState::Idle, Some(id)) => self.with_connection(id, now, Connection::give_up),
                (QpState::Idle, None) => self.go_to(slot, QpState::Error, now),
                (QpState::Closing | QpState::Terminate | QpState::Error, _) => {}
            }
        }
        for id in self.ids_in_order() {
            let Some(connection) = self.connections.get(id) else { continue };
            let is_streaming = matches!(connection.phase, Phase::Streaming(_));
            // A connection that is being closed already ends by itself.
            if connection.qp.is_some() || connection.phase.is_ending() {
                continue;
            }
            connection.leave_streaming();
            // TCP still sends what was sent in streaming mode, and FIN behind it.
            if !is_streaming {
                self.reset(id);
            }
            self.remove(id);
        }
        self.stack.egress(now);
    }

    /// Whether there is no connection, and TCP is at rest.
    pub(crate) fn is_idle(&self) -> bool {
        self.serials.is_empty() && self.stack.is_settled()
    }

    /// Ends everything of a device that can do nothing any more, and tells the application.
    pub(crate) fn lose(&mut self, now: Instant) {
        self.begin_shutdown(now);
        self.reset_all(now);
        self.async_events.push(AsyncEvent::DeviceFatal);
    }

    /// Resets all that is left.
    pub(crate) fn reset_all(&mut self, now: Instant) {
        for slot in 0..self.qps.len() {
            if self.qps.get(slot).is_some_and(Option::is_some) {
                self.go_to(slot, QpState::Error, now);
            }
        }
        for id in self.ids_in_order() {
            self.reset(id);
            self.remove(id);
        }
        self.stack.reset_all();
        self.stack.egress(now);
    }
}
