//! Connection management: listening, connecting, answering.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weft_mpa::Initiator;
use weft_netif::{ConnectionId, Instant, LlpState};
use weft_verbs::QpState;

use crate::channel::Channel;
use crate::cm::{CmEvent, RequestId};
use crate::connection::{Connection, Phase, Turn, Verdict};
use crate::device::Device;
use crate::engine::ListenerSlot;
use crate::error::{CmError, StreamError};
use crate::qp::Qp;

/// A queue of connection events with a file descriptor that poll and epoll understand.
#[derive(Clone, Debug)]
pub struct EventChannel {
    pub(crate) channel: Arc<Channel<CmEvent>>,
    pub(crate) device: Device,
}

/// A port that is listened on; dropping it stops that.
#[derive(Debug)]
pub struct Listener {
    port: u16,
    device: Device,
}

/// What an answer to a connect request, or the request itself, carries.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnParam<'a> {
    /// Private data, at most 512 octets, 508 with RFC 6581 startup.
    pub private_data: &'a [u8],
    /// Reads and Atomics held at a time (IRD), at most the device's `max_reads`; the device's setting if not given. 0x3FFF leaves
    /// it to the ULPs of both sides (RFC 6581 section 9.1).
    pub ird: Option<u16>,
    /// Reads and Atomics outstanding (ORD), likewise; the device's setting if not given.
    pub ord: Option<u16>,
    /// Connecting side only: ask for the peer-to-peer start of RFC 6581; the device's setting if not given.
    pub peer_to_peer: Option<bool>,
}

impl Device {
    /// Listens on `port`; connect requests come out of `events`.
    ///
    /// # Errors
    /// [`CmError::Listen`] when the port is 0 or in use.
    pub fn listen(&self, events: &EventChannel, port: u16) -> Result<Listener, CmError> {
        self.listen_for(events, port, false)
    }

    /// Connects `qp` to `remote`. What comes of it comes out of `events`: [`CmEvent::Established`],
    /// [`CmEvent::Rejected`] or [`CmEvent::ConnectError`].
    ///
    /// # Errors
    /// [`CmError`] when the queue pair is not free, the private data too long, more Reads are wanted than the device allows,
    /// or the address is not reachable at all.
    pub fn connect(
        &self,
        events: &EventChannel,
        qp: &Qp,
        remote: SocketAddr,
        param: ConnParam<'_>,
    ) -> Result<(), CmError> {
        if !self.is_same(&qp.device) || !self.is_same(&events.device) {
            return Err(CmError::ForeignObject);
        }
        let now = self.now();
        let mut engine = self.engine();
        engine.check_free(qp)?;
        let initiator = engine.initiator(&param)?;
        let llp = engine.stack.connect(remote, None, now).map_err(CmError::Connect)?;
        let phase = Phase::Connecting(initiator, Bytes::copy_from_slice(param.private_data));
        let serial = engine.new_serial();
        let connection = Connection {
            qp: Some(qp.slot),
            deadline: Some(now + engine.config.startup_timeout),
            ..Connection::new(llp, serial, phase, Arc::clone(&events.channel), remote)
        };
        engine.insert(connection);
        engine.attach(qp, Some(llp));
        drop(engine);
        self.kick();
        Ok(())
    }

    /// Accepts a connect request on `qp`.
    ///
    /// # Errors
    /// [`CmError`] when the queue pair is not free, the private data too long, more Reads are wanted than the device allows,
    /// or the peer has gone meanwhile. In all cases but the last the request can be answered again.
    /// [`StreamError::NoRoom`] meets a peer that sends its Request without reading what it was sent in streaming mode.
    pub fn accept(&self, request: RequestId, qp: &Qp, param: ConnParam<'_>) -> Result<(), CmError> {
        if !self.is_same(&qp.device) {
            return Err(CmError::ForeignObject);
        }
        let mut engine = self.engine();
        engine.check_free(qp)?;
        let id = engine.offered(request)?;
        let mpa = &engine.config.mpa;
        let depths = [param.ird.unwrap_or(mpa.ird), param.ord.unwrap_or(mpa.ord)];
        check_reads(depths, engine.config.max_reads)?;
        engine.attach(qp, Some(id));
        let outcome = engine
            .answer(id, self.now(), |connection, turn| connection.accept(turn, param.private_data, depths));
        if outcome.is_err() {
            engine.detach(qp, id);
        }
        drop(engine);
        self.kick();
        outcome
    }

    /// Rejects a connect request. A connection that came from streaming mode returns to it; any other is closed.
    ///
    /// # Errors
    /// [`CmError`] as for [`Device::accept`].
    pub fn reject(&self, request: RequestId, private_data: &[u8]) -> Result<(), CmError> {
        let mut engine = self.engine();
        let id = engine.offered(request)?;
        let outcome = engine.answer(id, self.now(), |connection, turn| connection.reject(turn, private_data));
        drop(engine);
        self.kick();
        outcome
    }

    pub(crate) fn listen_for(
        &self,
        events: &EventChannel,
        port: u16,
        streaming: bool,
    ) -> Result<Listener, CmError> {
        if !self.is_same(&events.device) {
            return Err(CmError::ForeignObject);
        }
        let mut engine = self.engine();
        engine.stack.listen(port).map_err(CmError::Listen)?;
        let slot = ListenerSlot { events: Arc::clone(&events.channel), unanswered: 0, streaming };
        engine.listeners.insert(port, slot);
        Ok(Listener { port, device: self.clone() })
    }

    pub(crate) fn disconnect(&self, qp: &Qp) -> Result<(), CmError> {
        let mut engine = self.engine();
        let id = engine.connection_of(qp.slot).ok_or(CmError::NotConnected)?;
        engine.with_connection(id, self.now(), Connection::disconnect);
        drop(engine);
        self.kick();
        Ok(())
    }
}

impl crate::engine::Engine {
    fn connection_of(&self, slot: usize) -> Option<ConnectionId> {
        self.qps.get(slot)?.as_ref()?.connection
    }

    /// Answers a connect request; a refused answer leaves the connection as it was.
    fn answer(
        &mut self,
        id: ConnectionId,
        now: Instant,
        act: impl FnOnce(&mut Connection, &mut Turn<'_>) -> Result<Verdict, weft_mpa::StartupError>,
    ) -> Result<(), CmError> {
        let mut outcome = Ok(());
        self.with_connection(id, now, |connection, turn| {
            act(connection, turn).unwrap_or_else(|error| {
                outcome = Err(startup_error(error));
                Verdict::Keep
            })
        });
        outcome
    }

    /// The side that will ask, as `param` wants it, and whose Request takes the private data.
    pub(crate) fn initiator(&self, param: &ConnParam<'_>) -> Result<Initiator, CmError> {
        let mut mpa = self.config.mpa;
        mpa.ird = param.ird.unwrap_or(mpa.ird);
        mpa.ord = param.ord.unwrap_or(mpa.ord);
        mpa.peer_to_peer = param.peer_to_peer.unwrap_or(mpa.peer_to_peer);
        check_reads([mpa.ird, mpa.ord], self.config.max_reads)?;
        let initiator = Initiator::new(mpa);
        initiator.request(param.private_data).map_err(startup_error)?;
        Ok(initiator)
    }

    pub(crate) fn check_free(&self, qp: &Qp) -> Result<(), CmError> {
        if qp.state() != QpState::Idle || self.connection_of(qp.slot).is_some() {
            return Err(CmError::QpBusy);
        }
        if self.qps.get(qp.slot).and_then(Option::as_ref).is_some_and(|slot| slot.qp.is_overrun()) {
            return Err(CmError::CompletionQueueOverrun);
        }
        Ok(())
    }

    pub(crate) fn attach(&mut self, qp: &Qp, id: Option<ConnectionId>) {
        if let Some(Some(slot)) = self.qps.get_mut(qp.slot) {
            slot.connection = id;
        }
        if let Some(connection) = id.and_then(|id| self.connections.get_mut(&id)) {
            connection.qp = Some(qp.slot);
        }
    }

    fn detach(&mut self, qp: &Qp, id: ConnectionId) {
        self.attach(qp, None);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.qp = None;
        }
    }

    /// The connection of a request that still waits for an answer.
    fn offered(&self, request: RequestId) -> Result<ConnectionId, CmError> {
        let RequestId(serial, attempt) = request;
        let id = *self.serials.get(&serial).ok_or(CmError::RequestGone)?;
        let is_offered = self.connections.get(&id).is_some_and(|connection| {
            matches!(connection.phase, Phase::Offered(_)) && connection.attempt == attempt
        });
        let takes_an_answer = self.stack.state(id) == Some(LlpState::Established);
        if is_offered && takes_an_answer { Ok(id) } else { Err(CmError::RequestGone) }
    }
}

impl EventChannel {
    /// The next event, without waiting.
    pub fn next(&self) -> Option<CmEvent> {
        if let Some(event) = self.channel.pop() {
            return Some(event);
        }
        if self.device.is_manual() {
            self.device.progress();
        }
        self.channel.pop()
    }

    /// The next event; waits for it, with `timeout` at most so long.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<CmEvent> {
        self.device.wait_for(self.channel.as_fd(), timeout, || self.channel.pop())
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut engine = self.device.engine();
        engine.stack.unlisten(self.port);
        engine.listeners.remove(&self.port);
    }
}

/// What is left to the ULPs is as many as the device has.
fn check_reads(depths: [u16; 2], max: u16) -> Result<(), CmError> {
    let wanted = depths.into_iter().find(|&depth| depth > max && depth < weft_mpa::NOT_NEGOTIATED);
    wanted.map_or(Ok(()), |wanted| Err(CmError::TooManyReads { wanted, max }))
}

const fn startup_error(error: weft_mpa::StartupError) -> CmError {
    match error {
        weft_mpa::StartupError::PrivateDataTooLong { len, max } => CmError::PrivateDataTooLong { len, max },
        weft_mpa::StartupError::BufferTooSmall { needed } => CmError::Stream(StreamError::NoRoom { needed }),
        // The frame itself is ours and right; what is left is that TCP no longer takes it.
        _ => CmError::RequestGone,
    }
}
