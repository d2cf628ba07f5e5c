//! Listeners, and their connections that the application has not answered: without a Request yet, or waiting for the
//! answer.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_mpa::Responder;
use weft_netif::{ConnectionId, Instant, Listen, ListenError};

use crate::connection::state::{Connection, Hold, Interest, Phase, Standing};
use crate::engine::tables::{Engine, ListenerSlot};
use crate::events::channel::Channel;
use crate::events::connection::{CmEvent, ConnectFailure, Notice, StreamRequest};
use crate::ids::StreamingId;

/// What a listener is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listening<'a> {
    pub(crate) events: &'a Arc<Channel<Notice>>,
    /// What the application calls it in events.
    pub(crate) cookie: u64,
    /// Its connections begin in streaming mode.
    pub(crate) streaming: bool,
}

impl Engine {
    /// Keeps a port, for 0 a free one. Returns the one that was chosen.
    pub(crate) fn bind(&mut self, local: SocketAddr) -> Result<SocketAddr, ListenError> {
        self.stack.bind(local)
    }

    /// Gives a port back.
    pub(crate) fn unbind(&mut self, local: SocketAddr) {
        self.stack.unbind(local);
    }

    /// Listens. Returns the address and port that were chosen.
    pub(crate) fn listen(
        &mut self,
        listen: Listen,
        listening: Listening<'_>,
    ) -> Result<SocketAddr, ListenError> {
        let Listening { events, cookie, streaming } = listening;
        let local = self.stack.listen(listen)?;
        let slot = ListenerSlot {
            events: Some(Arc::clone(events)),
            cookie,
            asking: 0,
            backlog: listen.backlog.unwrap_or(self.config.stack.backlog).max(1),
            silent: 0,
            startups: VecDeque::new(),
            streaming,
        };
        self.listeners.insert(local, slot);
        Ok(local)
    }

    /// Listens no more, and ends what the application has not heard of.
    pub(crate) fn unlisten(&mut self, local: SocketAddr) {
        self.abandon_unheard(local);
        // Another listener may have the port by now.
        if self.listeners.remove(&local).is_some() {
            self.stack.unlisten(local);
        }
    }

    /// Takes a connection in that a peer has opened to a listener.
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

    /// Corrects the counts of a listener after a connection has come to count against its backlog in another way.
    pub(crate) fn recount(
        &mut self,
        before: Option<(SocketAddr, Standing)>,
        after: Option<(SocketAddr, Standing)>,
    ) {
        // A new listener on the same port starts at 0, whatever the old one has left behind.
        if let Some(count) = before.and_then(|standing| self.count(standing)) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = after.and_then(|standing| self.count(standing)) {
            *count += 1;
        }
    }

    /// Ends the connections of a listener that the application has not heard of.
    pub(crate) fn abandon_unheard(&mut self, listener: SocketAddr) {
        let is_unheard = |connection: &&Connection| match connection.standing() {
            Some((by, Standing::Silent)) => by == listener,
            Some((by, Standing::Asking)) => by == listener && connection.withdraw_request(),
            None => false,
        };
        let unheard = self.connections.values().filter(is_unheard);
        let mut unheard: Vec<_> = unheard.map(|connection| (connection.serial, connection.llp)).collect();
        // The table has no order, and the same seed must give the same run.
        unheard.sort_unstable_by_key(|&(serial, _)| serial);
        for (_, id) in unheard {
            self.reset(id);
            self.remove(id);
        }
    }

    /// Leads the events of a listener elsewhere, and those of its connections that the application has not answered.
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

    /// Makes room for a connection among those without a Request: the one that has been silent for the longest time
    /// is reset. Peers that connect and send nothing must not keep others out; a real initiator sends its Request at
    /// once.
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
