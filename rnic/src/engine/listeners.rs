//! What a listener holds for the application: connections that have not said what they want, and requests without an answer.

use std::net::SocketAddr;
use std::sync::Arc;

use weft_mpa::Responder;
use weft_netif::{ConnectionId, Instant};

use crate::connection::state::{Connection, Hold, Interest, Phase, Standing};
use crate::engine::tables::Engine;
use crate::events::channel::Channel;
use crate::events::connection::{CmEvent, ConnectFailure, Notice, StreamRequest};
use crate::ids::StreamingId;

impl Engine {
    /// A peer has connected to a port that is listened on.
    pub(crate) fn handle_accepted(&mut self, id: ConnectionId, by: SocketAddr, now: Instant) {
        let listener = self.listeners.get_mut(&by).filter(|listener| listener.asking < listener.backlog);
        let (Some(listener), Some(peer)) = (listener, self.stack.peer_addr(id)) else {
            self.reset(id);
            self.stack.remove(id);
            return;
        };
        let events = listener.events.clone();
        let (cookie, streaming) = (listener.cookie, listener.streaming);
        let serial = self.new_serial();
        let (phase, hold, patience) = if streaming {
            (Phase::Streaming(Interest::default()), Hold::Untaken, self.config.answer_timeout)
        } else {
            self.make_room_for_startup(by, serial);
            let responder = Responder::new(self.config.mpa);
            (Phase::AwaitingRequest(responder), Hold::Never, self.config.startup_timeout)
        };
        let connection = Connection {
            listener: Some(by),
            cookie,
            hold,
            deadline: Some(now + patience),
            events,
            ..Connection::new(id, serial, phase, peer)
        };
        if streaming {
            let request = StreamRequest { id: StreamingId(serial), port: by.port(), peer };
            connection.tell(CmEvent::StreamRequest(request));
        }
        self.insert(connection);
        self.turn(id, now);
    }

    /// A connection counts against the backlog of its listener in another way than before.
    pub(crate) fn recount(
        &mut self,
        before: Option<(SocketAddr, Standing)>,
        after: Option<(SocketAddr, Standing)>,
    ) {
        // A port that was listened on anew starts at none, whatever its predecessor left behind.
        if let Some(count) = before.and_then(|standing| self.count(standing)) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = after.and_then(|standing| self.count(standing)) {
            *count += 1;
        }
    }

    /// Ends what a listener leaves behind that the application has not heard of.
    pub(crate) fn abandon_unheard(&mut self, listener: SocketAddr) {
        let is_unheard = |connection: &&Connection| match connection.standing() {
            Some((by, Standing::Silent)) => by == listener,
            Some((by, Standing::Asking)) => by == listener && connection.withdraw_request(),
            None => false,
        };
        let unheard = self.connections.values().filter(is_unheard);
        let mut unheard: Vec<_> = unheard.map(|connection| (connection.serial, connection.llp)).collect();
        // The table has no order of its own, and the same seeds are to give the same run.
        unheard.sort_unstable_by_key(|&(serial, _)| serial);
        for (_, id) in unheard {
            self.reset(id);
            self.remove(id);
        }
    }

    /// Leads the events of a listener, and of its connections that the application has not answered, elsewhere.
    pub(crate) fn redirect_listener(&mut self, listener: SocketAddr, events: Option<&Arc<Channel<Notice>>>) {
        if let Some(slot) = self.listeners.get_mut(&listener) {
            slot.events = events.map(Arc::clone);
        }
        for connection in self.connections.values_mut() {
            if connection.standing().is_some_and(|(by, _)| by == listener) {
                connection.events = events.map(Arc::clone);
            }
        }
    }

    /// Peers that connect and say nothing must not keep out those that mean it: the one that has been silent for the longest
    /// time gives way. Who means it sends its Request at once.
    fn make_room_for_startup(&mut self, by: SocketAddr, serial: u64) {
        let usual = self.config.stack.backlog;
        let Some(listener) = self.listeners.get_mut(&by) else { return };
        let limit = listener.backlog.max(usual);
        let is_full = listener.silent >= limit;
        listener.startups.push_back(serial);
        if !is_full && listener.startups.len() <= 2 * limit {
            return;
        }
        let mut startups = core::mem::take(&mut listener.startups);
        let is_silent = |connection: &Connection| matches!(connection.phase, Phase::AwaitingRequest(_));
        startups.retain(|&startup| {
            let id = self.serials.get(&startup);
            startup == serial || id.and_then(|&id| self.connections.get(id)).is_some_and(is_silent)
        });
        let oldest = if is_full { startups.pop_front() } else { None };
        let oldest = oldest.and_then(|oldest| self.serials.get(&oldest).copied());
        if let Some(listener) = self.listeners.get_mut(&by) {
            listener.startups = startups;
        }
        if let Some(oldest) = oldest {
            self.counters.startup_failures += 1;
            self.counters.mpa.count_startup(&ConnectFailure::TimedOut);
            self.reset(oldest);
            self.remove(oldest);
        }
    }

    fn count(&mut self, (listener, standing): (SocketAddr, Standing)) -> Option<&mut usize> {
        let listener = self.listeners.get_mut(&listener)?;
        Some(match standing {
            Standing::Silent => &mut listener.silent,
            Standing::Asking => &mut listener.asking,
        })
    }
}
