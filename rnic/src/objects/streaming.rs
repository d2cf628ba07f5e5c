//! Streaming mode: a TCP connection of the device before MPA, and again after a rejection (RFC 5044 sections 7.1 and
//! 7.1.5).

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use weft_mpa::Responder;
use weft_netif::{ConnectionId, Listen, LlpState};
use weft_verbs::QpState;

use crate::connection::state::{Connection, Hold, Interest, Phase, Turn, Verdict};
use crate::engine::Engine;
use crate::error::{CmError, StreamError};
use crate::ids::StreamingId;
use crate::objects::device::Device;
use crate::objects::event_channel::EventChannel;
use crate::objects::listener::{ConnParam, Listener};
use crate::objects::qp::Qp;

/// A TCP connection of the device whose octets are the application's until it starts MPA on it.
///
/// The applications of both sides agree by octets of their own on the place where MPA begins. Then one of them calls
/// [`Self::start_initiator`], the other [`Self::start_responder`], and all further octets are MPA's, in both directions at
/// once. After a rejection they are the application's again.
///
/// Nothing here waits: [`crate::CmEvent::StreamReady`] tells when to try again. An application that does not receive holds its
/// peer by TCP's window. Dropping the handle in streaming mode closes the connection behind what was sent; once MPA has
/// been started it belongs to the request or the queue pair, and a rejection closes it when the handle is gone.
///
/// ```
/// use weft_rnic::{CmEvent, Config, Device};
///
/// let (left, right) = weft_netif::pair(1500);
/// let client = Device::open(left, Config::new("10.0.0.1/24".parse()?, 1))?;
/// let server = Device::open(right, Config::new("10.0.0.2/24".parse()?, 2))?;
/// let (client_events, server_events) = (client.create_event_channel()?, server.create_event_channel()?);
/// let _listener = server.listen_streaming(&server_events, 7)?;
/// let stream = client.open_stream(&client_events, server.address(7))?;
/// let accepted = loop {
///     client.progress();
///     if let Some(CmEvent::StreamRequest(request)) = server_events.next() {
///         break server.accept_stream(request.id)?;
///     }
/// };
/// while stream.send(b"RDMA?\n")? == 0 {}
/// let mut line = [0; 80];
/// let len = loop {
///     client.progress();
///     match accepted.receive_until(&mut line, b'\n')? {
///         0 => continue,
///         len => break len,
///     }
/// };
/// assert_eq!(&line[..len], b"RDMA?\n");
/// // From here on the server waits for the client's Request; the answer is the last thing that the client reads before.
/// accepted.start_responder(b"RDMA!\n")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StreamingConnection {
    id: StreamingId,
    peer: SocketAddr,
    device: Device,
}

/// How far a [`StreamingConnection`] has come.
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

impl Device {
    /// Opens a TCP connection to `remote` in streaming mode. [`crate::CmEvent::StreamReady`] or [`crate::CmEvent::StreamFailed`]
    /// follows.
    ///
    /// # Errors
    /// [`CmError`] when the address is not reachable at all.
    pub fn open_stream(
        &self,
        events: &EventChannel,
        remote: SocketAddr,
    ) -> Result<StreamingConnection, CmError> {
        if !self.is_same(&events.device) {
            return Err(CmError::ForeignObject);
        }
        self.check_open().map_err(|_| CmError::ShutDown)?;
        let now = self.now();
        let mut engine = self.engine_at(0);
        let llp = engine.stack.connect(remote, None, now).map_err(CmError::Connect)?;
        let serial = engine.new_serial();
        let connection = Connection {
            hold: Hold::Held,
            deadline: Some(now + engine.config.startup_timeout),
            events: Some(Arc::clone(&events.channel)),
            ..Connection::new(llp, serial, Phase::Opening, remote)
        };
        engine.insert(connection);
        drop(engine);
        self.kick();
        Ok(StreamingConnection { id: StreamingId(serial), peer: remote, device: self.clone() })
    }

    /// Listens on `port` for connections that begin in streaming mode; they come out of `events` as
    /// [`crate::CmEvent::StreamRequest`]. As many as the stack's backlog wait to be taken, each for the `answer_timeout` at most.
    ///
    /// # Errors
    /// As [`Device::listen`].
    pub fn listen_streaming(
        &self,
        events: &EventChannel,
        listen: impl Into<Listen>,
    ) -> Result<Listener, CmError> {
        self.listen_for(events, listen.into(), (true, 0))
    }

    /// Takes a connection that a peer has opened.
    ///
    /// # Errors
    /// [`CmError::RequestGone`] when it has been taken already, or ended.
    pub fn accept_stream(&self, id: StreamingId) -> Result<StreamingConnection, CmError> {
        let mut peer = None;
        let mut engine = self.engine_with(id.0);
        engine.with_stream(id, self, |connection, _| {
            if connection.hold == Hold::Untaken {
                connection.hold = Hold::Held;
                connection.deadline = None;
                peer = Some(connection.peer);
            }
            Verdict::Keep
        });
        drop(engine);
        self.kick();
        let peer = peer.ok_or(CmError::RequestGone)?;
        Ok(StreamingConnection { id, peer, device: self.clone() })
    }
}

impl StreamingConnection {
    /// Sends as many of `octets` as there is room for, and says how many. When that is less than all,
    /// [`crate::CmEvent::StreamReady`] tells when to go on.
    ///
    /// # Errors
    /// [`StreamError::MpaStarted`] or [`StreamError::Closed`].
    pub fn send(&self, octets: &[u8]) -> Result<usize, StreamError> {
        // With room that is awaited still there is none.
        let in_vain = |interest: &Interest| interest.room || octets.is_empty();
        self.in_streaming_mode(in_vain, |interest, turn| interest.send(turn, octets))
    }

    /// Takes received octets, as many as there are and `buffer` holds, and says how many. When that is none,
    /// [`crate::CmEvent::StreamReady`] tells when to try again.
    ///
    /// An application that is about to start MPA as Responder must not take more than its peer sent in streaming mode: what
    /// it leaves is the beginning of the Request.
    ///
    /// # Errors
    /// [`StreamError::Finished`] after the peer's last octet, [`StreamError::MpaStarted`] or [`StreamError::Closed`].
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        self.take_octets(buffer, None)
    }

    /// As [`Self::receive`], and takes no octet behind the first `last`, which may be the end of a line.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn receive_until(&self, buffer: &mut [u8], last: u8) -> Result<usize, StreamError> {
        self.take_octets(buffer, Some(last))
    }

    /// Starts MPA as Initiator (RFC 5044 section 7.1.2): the Request goes out behind what was sent. What comes of it is told
    /// as by [`Device::connect`]; after [`crate::CmEvent::Rejected`] the connection is in streaming mode again, and after
    /// [`crate::CmEvent::ConnectError`] it is closed.
    ///
    /// # Errors
    /// [`CmError`] as for [`Device::connect`], and [`StreamError::Unread`] when there are octets which would be taken for the
    /// Reply. Nothing has been started then.
    pub fn start_initiator(&self, qp: &Qp, param: ConnParam<'_>) -> Result<(), CmError> {
        if !self.device.is_same(&qp.device) {
            return Err(CmError::ForeignObject);
        }
        let may_come = |engine: &Engine, _| engine.streaming(self.id).is_ok() && qp.state() == QpState::Idle;
        let mut engine = self.device.engine_for(self.id.0, qp.engine, may_come);
        engine.check_free(qp)?;
        let initiator = engine.initiator(qp, &param.terms())?;
        let id = engine.streaming(self.id)?;
        if engine.stack.llp(id).is_some_and(|mut llp| !llp.readable().is_empty()) {
            return Err(StreamError::Unread.into());
        }
        let private_data = Bytes::copy_from_slice(param.private_data);
        engine.attach(qp, Some(id));
        engine.with_connection(id, self.device.now(), |connection, turn| {
            connection.cookie = param.id;
            connection.start_initiator(turn, initiator, private_data)
        });
        drop(engine);
        self.device.kick();
        Ok(())
    }

    /// Sends `last_message`, which may be empty, and starts MPA as Responder (RFC 5044 sections 7.1.2 and 7.1.5): what the
    /// peer has sent and nobody has received, and all that follows, is its Request. [`crate::CmEvent::ConnectRequest`] names this
    /// connection and is answered as any other; after [`Device::reject`] the connection is in streaming mode again.
    /// [`crate::CmEvent::StreamFailed`] tells that it was closed since no good Request came.
    ///
    /// # Errors
    /// [`CmError::Stream`], with [`StreamError::NoRoom`] when the message does not fit into the send buffer at once. Nothing
    /// has been sent then; [`crate::CmEvent::StreamReady`] tells when there is more room.
    pub fn start_responder(&self, last_message: &[u8]) -> Result<(), CmError> {
        let mut engine = self.device.engine_with(self.id.0);
        let responder = Responder::new(engine.config.mpa);
        let id = engine.streaming(self.id)?;
        let mut started = Ok(());
        engine.with_connection(id, self.device.now(), |connection, turn| {
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
        drop(engine);
        self.device.kick();
        started
    }

    /// How far the connection has come.
    pub fn state(&self) -> StreamState {
        match self.device.engine_with(self.id.0).streaming(self.id) {
            Ok(_) => StreamState::Streaming,
            Err(StreamError::NotOpen) => StreamState::Opening,
            Err(StreamError::MpaStarted) => StreamState::Mpa,
            Err(_) => StreamState::Closed,
        }
    }

    /// Names the connection in events.
    pub const fn id(&self) -> StreamingId {
        self.id
    }

    /// The peer.
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn take_octets(&self, buffer: &mut [u8], last: Option<u8>) -> Result<usize, StreamError> {
        // With octets that are awaited still there are none.
        let in_vain = |interest: &Interest| interest.octets;
        self.in_streaming_mode(in_vain, |interest, turn| interest.receive(turn, buffer, last))
    }

    /// Does `act` if the octets are the application's, and once more behind a round of the engine if that was in vain and
    /// nobody else drives it.
    fn in_streaming_mode(
        &self,
        in_vain: impl Fn(&Interest) -> bool,
        mut act: impl FnMut(&mut Interest, &mut Turn<'_>) -> Result<usize, StreamError>,
    ) -> Result<usize, StreamError> {
        let mut moved = self.try_in_streaming_mode(&in_vain, &mut act);
        if moved == Ok(0) && self.device.is_manual() {
            self.device.progress();
            moved = self.try_in_streaming_mode(&in_vain, &mut act);
        }
        // There may be octets to send, or a window to announce.
        self.device.kick();
        moved
    }

    /// As long as the connection is opening, there are no octets and no room. What is known to be in vain does not touch TCP,
    /// which would make work for each look of an application that asks all the time.
    fn try_in_streaming_mode(
        &self,
        in_vain: impl FnOnce(&Interest) -> bool,
        act: impl FnOnce(&mut Interest, &mut Turn<'_>) -> Result<usize, StreamError>,
    ) -> Result<usize, StreamError> {
        let mut engine = self.device.engine_with(self.id.0);
        if engine.interest(self.id).is_some_and(in_vain) {
            return Ok(0);
        }
        let mut result = Err(StreamError::Closed);
        engine.with_stream(self.id, &self.device, |connection, turn| {
            result = match &mut connection.phase {
                Phase::Streaming(interest) => act(interest, turn),
                Phase::Opening => Ok(0),
                phase => Err(used_by_mpa(phase)),
            };
            Verdict::Keep
        });
        result
    }
}

impl Drop for StreamingConnection {
    fn drop(&mut self) {
        self.device.engine_with(self.id.0).with_stream(self.id, &self.device, |connection, turn| {
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
        self.device.kick();
    }
}

impl Engine {
    fn with_stream(
        &mut self,
        id: StreamingId,
        device: &Device,
        act: impl FnOnce(&mut Connection, &mut Turn<'_>) -> Verdict,
    ) {
        if let Some(&id) = self.serials.get(&id.0) {
            self.with_connection(id, device.now(), act);
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

/// Why the application cannot use a connection in a phase that is none of streaming mode.
const fn used_by_mpa(phase: &Phase) -> StreamError {
    match phase {
        Phase::Ending(_) | Phase::Draining => StreamError::Closed,
        _ => StreamError::MpaStarted,
    }
}
