//! Connections in streaming mode.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use weft_mpa::Responder;
use weft_netif::{CloseCause, ConnectionId, Instant, LlpState};

use crate::connection::state::{Connection, Hold, Interest, Phase, Turn, Verdict};
use crate::connection::terms::Terms;
use crate::engine::tables::Engine;
use crate::error::{CmError, StreamError};
use crate::events::channel::Channel;
use crate::events::connection::Notice;
use crate::ids::StreamingId;

/// How far a [`crate::StreamingConnection`] has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// TCP's handshake is under way.
    Opening,
    /// The octets are the application's.
    Streaming,
    /// MPA has been started.
    Mpa,
    /// The connection is over. If it ended in streaming mode, what had come before can still be received.
    Closed,
}

impl Engine {
    /// Opens a connection in streaming mode. Its events have the name `cookie`.
    pub(crate) fn open_stream(
        &mut self,
        (local, remote): (Option<SocketAddr>, SocketAddr),
        cookie: u64,
        events: &Arc<Channel<Notice>>,
        now: Instant,
    ) -> Result<StreamingId, CmError> {
        let llp = self.stack.connect(remote, local, now).map_err(CmError::Connect)?;
        let serial = self.new_serial();
        let connection = Connection {
            hold: Hold::Held,
            cookie,
            deadline: Some(now + self.config.startup_timeout),
            events: Some(Arc::clone(events)),
            ..Connection::new(llp, serial, Phase::Opening, remote)
        };
        self.insert(connection);
        Ok(StreamingId(serial))
    }

    /// Takes a connection that a peer has opened for the application, and gives its events another name if there is
    /// one. Returns the peer's address.
    pub(crate) fn take_stream(
        &mut self,
        id: StreamingId,
        cookie: Option<u64>,
        now: Instant,
    ) -> Option<SocketAddr> {
        let mut peer = None;
        self.with_stream(id, now, |connection, _| {
            if connection.hold == Hold::Untaken {
                connection.hold = Hold::Held;
                connection.deadline = None;
                connection.cookie = cookie.unwrap_or(connection.cookie);
                peer = Some(connection.peer);
            }
            Verdict::Keep
        });
        peer
    }

    /// Starts MPA as Initiator on the queue pair in `slot`.
    pub(crate) fn start_initiator(
        &mut self,
        id: StreamingId,
        slot: usize,
        terms: &Terms<'_>,
        now: Instant,
    ) -> Result<(), CmError> {
        let initiator = self.initiator(slot, terms)?;
        let id = self.streaming(id)?;
        if self.stack.llp(id).is_some_and(|mut llp| !llp.readable().is_empty()) {
            return Err(StreamError::Unread.into());
        }
        let private_data = Bytes::copy_from_slice(terms.private_data);
        self.attach(slot, Some(id));
        self.with_connection(id, now, |connection, turn| {
            connection.cookie = terms.cookie;
            connection.start_initiator(turn, initiator, private_data)
        });
        Ok(())
    }

    /// Sends the last octets of streaming mode and starts MPA as Responder.
    pub(crate) fn start_responder(
        &mut self,
        id: StreamingId,
        last_message: &[u8],
        now: Instant,
    ) -> Result<(), CmError> {
        let responder = Responder::new(self.config.mpa);
        let id = self.streaming(id)?;
        let mut started = Ok(());
        self.with_connection(id, now, |connection, turn| {
            if !turn.llp.has_room(last_message.len()) {
                if let Phase::Streaming(interest) = &mut connection.phase {
                    interest.more_room = true;
                }
                started = Err(StreamError::NoRoom { needed: last_message.len() }.into());
                return Verdict::Keep;
            }
            turn.llp.send_slice(last_message);
            connection.start_responder(turn, responder)
        });
        started
    }

    /// Gives TCP as many octets as there is room for.
    pub(crate) fn send(
        &mut self,
        id: StreamingId,
        octets: &[u8],
        now: Instant,
    ) -> Result<usize, StreamError> {
        // As long as room is awaited there is none.
        let in_vain = |interest: &Interest| interest.room || octets.is_empty();
        self.in_streaming_mode(id, now, in_vain, |interest, turn| interest.send(turn, octets))
    }

    /// Takes octets off TCP, none behind the first `last`.
    pub(crate) fn receive(
        &mut self,
        id: StreamingId,
        buffer: &mut [u8],
        last: Option<u8>,
        now: Instant,
    ) -> Result<usize, StreamError> {
        // As long as the first octet is awaited there are none.
        let in_vain = |interest: &Interest| interest.octets == Some(0);
        self.in_streaming_mode(id, now, in_vain, |interest, turn| interest.receive(turn, buffer, last))
    }

    /// Copies octets and leaves them in TCP.
    pub(crate) fn peek(
        &mut self,
        id: StreamingId,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<usize, StreamError> {
        let in_vain = |interest: &Interest| interest.octets == Some(0);
        self.in_streaming_mode(id, now, in_vain, |interest, turn| interest.peek(turn, buffer))
    }

    /// Counts the octets that the peer has not acknowledged.
    pub(crate) fn unsent(&mut self, id: StreamingId, now: Instant) -> Result<usize, StreamError> {
        self.in_streaming_mode(id, now, |_| false, Interest::unsent)
    }

    /// Closes the sending direction of a connection in streaming mode.
    pub(crate) fn shut_stream(&mut self, id: StreamingId, now: Instant) -> Result<(), StreamError> {
        let shut = |_: &mut Interest, turn: &mut Turn<'_>| {
            turn.llp.shutdown();
            Ok(0)
        };
        self.in_streaming_mode(id, now, |_| false, shut).map(|_| ())
    }

    /// Ends a connection in streaming mode by RST.
    pub(crate) fn abort_stream(&mut self, id: StreamingId, now: Instant) {
        self.with_stream(id, now, |connection, turn| {
            if matches!(connection.phase, Phase::Opening | Phase::Streaming(_)) {
                turn.llp.abort();
            }
            Verdict::Keep
        });
    }

    /// How TCP has ended, and the own end.
    pub(crate) fn stream_end(&mut self, id: StreamingId) -> Option<(Option<CloseCause>, SocketAddr)> {
        let id = *self.serials.get(&id.0)?;
        let local = self.connections.get(id)?.local;
        Some((self.stack.llp(id)?.cause(), local))
    }

    /// Whether the connection is in streaming mode and TCP is alive.
    pub(crate) fn is_streaming(&self, id: StreamingId) -> bool {
        self.streaming(id).is_ok()
    }

    /// How far the connection has come.
    pub(crate) fn stream_state(&self, id: StreamingId) -> StreamState {
        match self.streaming(id) {
            Ok(_) => StreamState::Streaming,
            Err(StreamError::NotOpen) => StreamState::Opening,
            Err(StreamError::MpaStarted) => StreamState::Mpa,
            Err(_) => StreamState::Closed,
        }
    }

    /// The application has dropped its handle: in streaming mode the connection is closed.
    pub(crate) fn release_stream(&mut self, id: StreamingId, now: Instant) {
        self.with_stream(id, now, |connection, turn| {
            connection.hold = Hold::Dropped;
            match connection.phase {
                Phase::Opening => {
                    turn.llp.abort();
                    Verdict::Remove
                }
                Phase::Streaming(_) => Verdict::Remove,
                _ => Verdict::Keep,
            }
        });
    }

    /// Does `act` with a connection in streaming mode. Returns 0 while it is opening, and without a look at TCP if
    /// `in_vain`: that would make work for each call of an application that asks all the time.
    fn in_streaming_mode(
        &mut self,
        id: StreamingId,
        now: Instant,
        in_vain: impl FnOnce(&Interest) -> bool,
        act: impl FnOnce(&mut Interest, &mut Turn<'_>) -> Result<usize, StreamError>,
    ) -> Result<usize, StreamError> {
        if self.interest(id).is_some_and(in_vain) {
            return Ok(0);
        }
        let mut result = Err(StreamError::Closed);
        self.with_stream(id, now, |connection, turn| {
            result = match &mut connection.phase {
                Phase::Streaming(interest) => act(interest, turn),
                Phase::Opening => Ok(0),
                phase => Err(used_by_mpa(phase)),
            };
            Verdict::Keep
        });
        result
    }

    fn with_stream(
        &mut self,
        id: StreamingId,
        now: Instant,
        act: impl FnOnce(&mut Connection, &mut Turn<'_>) -> Verdict,
    ) {
        if let Some(&id) = self.serials.get(&id.0) {
            self.with_connection(id, now, act);
        }
    }

    fn interest(&self, id: StreamingId) -> Option<&Interest> {
        match &self.connections.get(*self.serials.get(&id.0)?)?.phase {
            Phase::Streaming(interest) => Some(interest),
            _ => None,
        }
    }

    /// The connection, if it is in streaming mode and TCP is alive.
    fn streaming(&self, id: StreamingId) -> Result<ConnectionId, StreamError> {
        let id = *self.serials.get(&id.0).ok_or(StreamError::Closed)?;
        let connection = self.connections.get(id).ok_or(StreamError::Closed)?;
        match &connection.phase {
            Phase::Opening => return Err(StreamError::NotOpen),
            Phase::Streaming(_) => {}
            phase => return Err(used_by_mpa(phase)),
        }
        match self.stack.state(id) {
            Some(LlpState::Established | LlpState::PeerClosed) => Ok(id),
            _ => Err(StreamError::Closed),
        }
    }
}

/// Why the application cannot use a connection in a phase other than streaming mode.
const fn used_by_mpa(phase: &Phase) -> StreamError {
    if phase.is_ending() { StreamError::Closed } else { StreamError::MpaStarted }
}
