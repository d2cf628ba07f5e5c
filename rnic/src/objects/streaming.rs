//! Streaming mode: a TCP connection of the device before MPA, and again after a rejection (RFC 5044 sections 7.1 and
//! 7.1.5).

use std::net::SocketAddr;

use weft_netif::{CloseCause, ConnectError, Instant, Listen};
use weft_verbs::QpState;

use crate::engine::streaming::StreamState;
use crate::engine::tables::Engine;
use crate::error::{CmError, StreamError};
use crate::ids::StreamingId;
use crate::objects::device::Device;
use crate::objects::event_channel::EventChannel;
use crate::objects::listener::{ConnParam, Listener};
use crate::objects::qp::Qp;

/// A TCP connection of the device whose octets are the application's until it starts MPA on it.
///
/// The applications of both sides agree by octets of their own on the place where MPA begins. Then one of them calls
/// [`Self::start_initiator`], the other [`Self::start_responder`], and all further octets are MPA's, in both
/// directions at once. After a rejection they are the application's again.
///
/// Nothing here waits: [`crate::CmEvent::StreamReady`] tells when to try again. An application that does not receive
/// holds its peer by TCP's window. Dropping the handle in streaming mode closes the connection behind what was sent;
/// once MPA has been started it belongs to the request or the queue pair, and a rejection closes it when the handle
/// is gone.
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

impl Device {
    /// Opens a TCP connection to `remote` in streaming mode. [`crate::CmEvent::StreamReady`] or
    /// [`crate::CmEvent::StreamFailed`] follows. The engines of the device take turns.
    ///
    /// # Errors
    /// [`CmError`] when the address is not reachable at all.
    pub fn open_stream(
        &self,
        events: &EventChannel,
        remote: SocketAddr,
    ) -> Result<StreamingConnection, CmError> {
        self.open_stream_as(0, events, (None, remote))
    }

    /// As [`Device::open_stream`], from the own end if it is given; the device chooses a port of 0, and an unspecified
    /// address. Its events come as [`crate::Notice`]s with this `id`.
    ///
    /// # Errors
    /// As [`Device::open_stream`].
    pub fn open_stream_as(
        &self,
        id: u64,
        events: &EventChannel,
        (local, remote): (Option<SocketAddr>, SocketAddr),
    ) -> Result<StreamingConnection, CmError> {
        if !self.is_same(&events.device) {
            return Err(CmError::ForeignObject);
        }
        self.engines.check_open().map_err(|_| CmError::ShutDown)?;
        let now = self.engines.now();
        let mut opened = Err(CmError::Connect(ConnectError::AddrInUse));
        for index in self.engines.in_turn() {
            opened = self.engines.at(index).open_stream((local, remote), id, &events.channel, now);
            // On a wire the ports are shared out: another engine may have the one of the own end.
            if !matches!(opened, Err(CmError::Connect(ConnectError::AddrInUse))) {
                break;
            }
        }
        self.engines.kick();
        Ok(StreamingConnection { id: opened?, peer: remote, device: self.clone() })
    }

    /// Listens on `port` for connections that begin in streaming mode; they come out of `events` as
    /// [`crate::CmEvent::StreamRequest`]. As many as the stack's backlog wait to be taken, each for the
    /// `answer_timeout` at most.
    ///
    /// # Errors
    /// As [`Device::listen`].
    pub fn listen_streaming(
        &self,
        events: &EventChannel,
        listen: impl Into<Listen>,
    ) -> Result<Listener, CmError> {
        self.listen_streaming_as(0, events, listen.into())
    }

    /// As [`Device::listen_streaming`]; the requests come as [`crate::Notice`]s with this `id`.
    ///
    /// # Errors
    /// As [`Device::listen`].
    pub fn listen_streaming_as(
        &self,
        id: u64,
        events: &EventChannel,
        listen: Listen,
    ) -> Result<Listener, CmError> {
        self.listen_for(events, listen, (true, id))
    }

    /// Takes a connection that a peer has opened.
    ///
    /// # Errors
    /// [`CmError::RequestGone`] when it has been taken already, or ended.
    pub fn accept_stream(&self, id: StreamingId) -> Result<StreamingConnection, CmError> {
        self.take_stream(id, None)
    }

    /// As [`Device::accept_stream`]. From now on its events come as [`crate::Notice`]s with this `name`, those of MPA
    /// included.
    ///
    /// # Errors
    /// As [`Device::accept_stream`].
    pub fn accept_stream_as(&self, name: u64, id: StreamingId) -> Result<StreamingConnection, CmError> {
        self.take_stream(id, Some(name))
    }

    fn take_stream(&self, id: StreamingId, name: Option<u64>) -> Result<StreamingConnection, CmError> {
        // The kernel's listener is one engine's, which would have all of them.
        let is_shared_out = self.engines.len() > 1 && self.engines.at(0).listens_for_all();
        let next = self.engines.in_turn().next().filter(|_| is_shared_out);
        let mut engine = match next {
            Some(next) => self.engines.bring(id.0, next, |engine| engine.is_streaming(id)),
            None => self.engines.with(id.0),
        };
        let peer = engine.take_stream(id, name, self.engines.now());
        drop(engine);
        self.engines.kick();
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
        self.in_streaming_mode(1, |engine, now| engine.send(self.id, octets, now))
    }

    /// Takes received octets, as many as there are and `buffer` holds, and says how many. When that is none,
    /// [`crate::CmEvent::StreamReady`] tells when to try again.
    ///
    /// An application that is about to start MPA as Responder must not take more than its peer sent in streaming
    /// mode: what it leaves is the beginning of the Request.
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

    /// Copies received octets, as many as there are and `buffer` holds, and says how many. They stay to be received, or
    /// are the beginning of the Request after [`Self::start_responder`]. When there are fewer than `buffer` holds,
    /// [`crate::CmEvent::StreamReady`] tells when more have come. It never comes for more octets than TCP's buffer
    /// holds, nor for more than the peer has sent before it closed its direction.
    ///
    /// # Errors
    /// As [`Self::receive`], when there are no octets.
    pub fn peek(&self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        self.in_streaming_mode(buffer.len(), |engine, now| engine.peek(self.id, buffer, now))
    }

    /// Starts MPA as Initiator (RFC 5044 section 7.1.2): the Request goes out behind what was sent. What comes of it
    /// is told as by [`Device::connect`]; after [`crate::CmEvent::Rejected`] the connection is in streaming mode
    /// again, and after [`crate::CmEvent::ConnectError`] it is closed.
    ///
    /// # Errors
    /// [`CmError`] as for [`Device::connect`], and [`StreamError::Unread`] when there are octets which would be taken
    /// for the Reply. Nothing has been started then.
    pub fn start_initiator(&self, qp: &Qp, param: ConnParam<'_>) -> Result<(), CmError> {
        if !self.device.is_same(&qp.device) {
            return Err(CmError::ForeignObject);
        }
        let engines = &self.device.engines;
        let may_come = |engine: &Engine| engine.is_streaming(self.id) && qp.state() == QpState::Idle;
        let mut engine = engines.bring(self.id.0, qp.engine, may_come);
        engine.start_initiator(self.id, qp.slot, &param.terms(), engines.now())?;
        drop(engine);
        engines.kick();
        Ok(())
    }

    /// Sends `last_message`, which may be empty, and starts MPA as Responder (RFC 5044 sections 7.1.2 and 7.1.5):
    /// what the peer has sent and nobody has received, and all that follows, is its Request.
    /// [`crate::CmEvent::ConnectRequest`] names this connection and is answered as any other; after
    /// [`Device::reject`] the connection is in streaming mode again. [`crate::CmEvent::StreamFailed`] tells that it
    /// was closed since no good Request came.
    ///
    /// # Errors
    /// [`CmError::Stream`], with [`StreamError::NoRoom`] when the message does not fit into the send buffer at once.
    /// Nothing has been sent then; [`crate::CmEvent::StreamReady`] tells when there is more room.
    pub fn start_responder(&self, last_message: &[u8]) -> Result<(), CmError> {
        let engines = &self.device.engines;
        let started = engines.with(self.id.0).start_responder(self.id, last_message, engines.now());
        engines.kick();
        started
    }

    /// Closes the sending direction: FIN goes out behind what was sent. Octets of the peer may still come.
    ///
    /// # Errors
    /// [`StreamError::MpaStarted`] or [`StreamError::Closed`].
    pub fn shutdown(&self) -> Result<(), StreamError> {
        let engines = &self.device.engines;
        let shut = engines.with(self.id.0).shut_stream(self.id, engines.now());
        engines.kick();
        shut
    }

    /// Returns how many octets that were sent the peer has not acknowledged. When there are some,
    /// [`crate::CmEvent::StreamReady`] tells when there are none.
    ///
    /// # Errors
    /// [`StreamError::MpaStarted`] or [`StreamError::Closed`].
    pub fn unsent(&self) -> Result<usize, StreamError> {
        let engines = &self.device.engines;
        engines.with(self.id.0).unsent(self.id, engines.now())
    }

    /// Ends the connection by RST, unless MPA has been started. What was sent and is not there yet is lost.
    pub fn abort(&self) {
        let engines = &self.device.engines;
        engines.with(self.id.0).abort_stream(self.id, engines.now());
        engines.kick();
    }

    /// Returns how TCP has ended, or `None` while it has not, or the device is shut down.
    pub fn cause(&self) -> Option<CloseCause> {
        self.device.engines.with(self.id.0).stream_end(self.id)?.0
    }

    /// The own end, or `None` when the device is shut down.
    pub fn local(&self) -> Option<SocketAddr> {
        self.device.engines.with(self.id.0).stream_end(self.id).map(|(_, local)| local)
    }

    /// How far the connection has come.
    pub fn state(&self) -> StreamState {
        self.device.engines.with(self.id.0).stream_state(self.id)
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
        self.in_streaming_mode(1, |engine, now| engine.receive(self.id, buffer, last, now))
    }

    /// Does `act`. If that found less than `wanted` and no other thread drives the engine, drives it and does `act`
    /// once more.
    fn in_streaming_mode(
        &self,
        wanted: usize,
        mut act: impl FnMut(&mut Engine, Instant) -> Result<usize, StreamError>,
    ) -> Result<usize, StreamError> {
        let engines = &self.device.engines;
        let mut found = act(&mut engines.with(self.id.0), engines.now());
        if found.is_ok_and(|found| found < wanted) && engines.is_manual() {
            engines.progress();
            found = act(&mut engines.with(self.id.0), engines.now());
        }
        // There may be octets to send, or a window to announce.
        engines.kick();
        found
    }
}

impl Drop for StreamingConnection {
    fn drop(&mut self) {
        let engines = &self.device.engines;
        engines.with(self.id.0).release_stream(self.id, engines.now());
        engines.kick();
    }
}
