//! Connection management: listening, connecting, answering.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use weft_mpa::Initiator;
use weft_netif::{ConnectError, ConnectionId, Instant, Listen, ListenError, LlpState};
use weft_verbs::QpState;

use crate::connection::state::{Connection, Phase, Turn, Verdict};
use crate::connection::terms::Terms;
use crate::engine::{Engine, ListenerSlot};
use crate::error::{CmError, StreamError};
use crate::ids::RequestId;
use crate::objects::device::Device;
use crate::objects::event_channel::EventChannel;
use crate::objects::qp::Qp;

/// An address and port that are listened on; dropping it stops that.
#[derive(Debug)]
pub struct Listener {
    pub(crate) local: SocketAddr,
    pub(crate) device: Device,
}

/// What an answer to a connect request, or the request itself, carries.
#[derive(Clone, Copy, Debug)]
pub struct ConnParam<'a> {
    /// Private data, at most 512 octets, 508 with RFC 6581 startup.
    pub private_data: &'a [u8],
    /// Reads and Atomics held at a time (IRD), at most the device's `max_reads`; the queue pair's (see [`crate::QpModify`]) or
    /// the device's setting if not given. 0x3FFF leaves
    /// it to the ULPs of both sides (RFC 6581 section 9.1).
    pub ird: Option<u16>,
    /// Reads and Atomics outstanding (ORD), likewise; the device's setting if not given.
    pub ord: Option<u16>,
    /// Connecting side only: ask for the peer-to-peer start of RFC 6581; the device's setting if not given.
    pub peer_to_peer: Option<bool>,
    /// Connecting side only: the own end; where its address is unspecified or its port 0, or without it, the device chooses.
    pub local: Option<SocketAddr>,
    /// What the application calls the connection in [`crate::Notice`]s.
    pub id: u64,
    /// Accepting side only: where the connection's events go; where the listener's go if not given.
    pub events: Option<&'a EventChannel>,
}

impl ConnParam<'_> {
    /// Nothing given.
    pub const NONE: Self = Self {
        private_data: &[],
        ird: None,
        ord: None,
        peer_to_peer: None,
        local: None,
        id: 0,
        events: None,
    };

    /// What startup reads of it.
    pub(crate) fn terms(&self) -> Terms<'_> {
        let Self { private_data, ird, ord, peer_to_peer, id, events, local: _ } = *self;
        let events = events.map(|events| &events.channel);
        Terms { private_data, ird, ord, peer_to_peer, cookie: id, events }
    }
}

impl Default for ConnParam<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

/// A port of a device that is kept for who has bound it; dropping it gives it back.
#[derive(Debug)]
pub struct BoundPort {
    local: SocketAddr,
    device: Device,
}

impl Device {
    /// Listens on a port, or what else [`Listen`] says; connect requests come out of `events`.
    ///
    /// # Errors
    /// [`CmError::Listen`] when the port is in use or the address none of the device's.
    pub fn listen(&self, events: &EventChannel, listen: impl Into<Listen>) -> Result<Listener, CmError> {
        self.listen_for(events, listen.into(), (false, 0))
    }

    /// As [`Device::listen`]; the connect requests come as [`crate::Notice`]s with this `id`.
    ///
    /// # Errors
    /// As [`Device::listen`].
    pub fn listen_as(&self, id: u64, events: &EventChannel, listen: Listen) -> Result<Listener, CmError> {
        self.listen_for(events, listen, (false, id))
    }

    /// Keeps a port, for 0 a free one, from others that bind, and from being chosen for a connection. Whoever names
    /// [`BoundPort::local_addr`] may listen on it and connect from it.
    ///
    /// # Errors
    /// [`CmError::Listen`] when the port is bound or listened on already, or the address none of the device's.
    pub fn bind(&self, local: SocketAddr) -> Result<BoundPort, CmError> {
        self.check_open().map_err(|_| CmError::ShutDown)?;
        let mut engines = self.engines();
        let mut bound: Option<SocketAddr> = None;
        for index in 0..self.listening(&engines) {
            let wanted = bound.unwrap_or(local);
            match engines[index].stack.bind(wanted) {
                Ok(chosen) => bound = Some(chosen),
                Err(error) => {
                    engines[..index].iter_mut().for_each(|engine| engine.stack.unbind(wanted));
                    return Err(CmError::Listen(error));
                }
            }
        }
        drop(engines);
        let local = bound.ok_or(CmError::Listen(ListenError::AddrInUse))?;
        Ok(BoundPort { local, device: self.clone() })
    }

    /// Connects `qp` to `remote`. What comes of it comes out of `events`: [`crate::CmEvent::Established`],
    /// [`crate::CmEvent::Rejected`] or [`crate::CmEvent::ConnectError`].
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
        self.connect_from(events, qp, remote, param).map(|_| ())
    }

    /// As [`Device::connect`], and answers the own end of the connection.
    ///
    /// # Errors
    /// As [`Device::connect`].
    pub fn connect_from(
        &self,
        events: &EventChannel,
        qp: &Qp,
        remote: SocketAddr,
        param: ConnParam<'_>,
    ) -> Result<SocketAddr, CmError> {
        if !self.is_same(&qp.device) || !self.is_same(&events.device) {
            return Err(CmError::ForeignObject);
        }
        self.check_open().map_err(|_| CmError::ShutDown)?;
        let now = self.now();
        let mut engine = self.engine_at(qp.engine);
        engine.check_free(qp)?;
        let initiator = engine.initiator(qp, &param.terms())?;
        let llp = match engine.stack.connect(remote, param.local, now) {
            Err(ConnectError::AddrInUse) if self.num_comp_vectors() > 1 => {
                drop(engine);
                let found = self.connect_elsewhere(qp.engine, remote, param.local);
                let (target, llp) = found.ok_or(CmError::Connect(ConnectError::AddrInUse))?;
                engine = target;
                llp
            }
            llp => llp.map_err(CmError::Connect)?,
        };
        let phase = Phase::Connecting(initiator, Bytes::copy_from_slice(param.private_data));
        let serial = engine.new_serial();
        let connection = Connection {
            qp: Some(qp.slot),
            cookie: param.id,
            deadline: Some(now + engine.config.startup_timeout),
            events: Some(Arc::clone(&events.channel)),
            ..Connection::new(llp, serial, phase, remote)
        };
        engine.insert(connection);
        engine.attach(qp, Some(llp));
        let local = engine.stack.local_addr(llp).unwrap_or_else(|| self.address(0));
        drop(engine);
        self.kick();
        Ok(local)
    }

    /// Accepts a connect request on `qp`.
    ///
    /// # Errors
    /// [`CmError`] when the queue pair is not free, the private data too long, more Reads are wanted than the device allows,
    /// or the peer has gone meanwhile. In all cases but the last the request can be answered again.
    /// [`StreamError::NoRoom`] meets a peer that sends its Request without reading what it was sent in streaming mode.
    pub fn accept(&self, request: RequestId, qp: &Qp, param: ConnParam<'_>) -> Result<(), CmError> {
        if !self.is_same(&qp.device) || param.events.is_some_and(|events| !self.is_same(&events.device)) {
            return Err(CmError::ForeignObject);
        }
        let may_come = |engine: &Engine, _| engine.offered(request).is_ok() && qp.state() == QpState::Idle;
        let mut engine = self.engine_for(request.0, qp.engine, may_come);
        engine.check_free(qp)?;
        let id = engine.offered(request)?;
        let mpa = &engine.config.mpa;
        let [ird, ord] = engine.depths_of(qp);
        let depths = [param.ird.or(ird).unwrap_or(mpa.ird), param.ord.or(ord).unwrap_or(mpa.ord)];
        check_reads(depths, engine.config.max_reads)?;
        engine.attach(qp, Some(id));
        let outcome =
            engine.answer(id, self.now(), |connection, turn| connection.accept(turn, &param.terms(), depths));
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
        let mut engine = self.engine_with(request.0);
        let id = engine.offered(request)?;
        let outcome = engine.answer(id, self.now(), |connection, turn| connection.reject(turn, private_data));
        drop(engine);
        self.kick();
        outcome
    }

    pub(crate) fn listen_for(
        &self,
        events: &EventChannel,
        listen: Listen,
        (streaming, cookie): (bool, u64),
    ) -> Result<Listener, CmError> {
        if !self.is_same(&events.device) {
            return Err(CmError::ForeignObject);
        }
        self.check_open().map_err(|_| CmError::ShutDown)?;
        let backlog = listen.backlog.unwrap_or_else(|| self.config().stack.backlog).max(1);
        let mut engines = self.engines();
        // The first engine chooses, and what it has chosen is free in all of them: they have the same listeners.
        let mut local = None;
        let count = self.listening(&engines);
        for engine in engines.iter_mut().take(count) {
            let wanted =
                Listen { port: local.map_or(listen.port, |local: SocketAddr| local.port()), ..listen };
            match engine.stack.listen(wanted) {
                Ok(chosen) => {
                    let slot = ListenerSlot {
                        events: Some(Arc::clone(&events.channel)),
                        cookie,
                        asking: 0,
                        backlog,
                        silent: 0,
                        startups: VecDeque::new(),
                        streaming,
                    };
                    engine.listeners.insert(chosen, slot);
                    local = Some(chosen);
                }
                Err(error) => {
                    if let Some(local) = local {
                        engines.iter_mut().for_each(|engine| engine.unlisten(local));
                    }
                    return Err(CmError::Listen(error));
                }
            }
        }
        drop(engines);
        let local = local.ok_or(CmError::Listen(ListenError::AddrInUse))?;
        Ok(Listener { local, device: self.clone() })
    }

    pub(crate) fn disconnect(&self, qp: &Qp) -> Result<(), CmError> {
        let mut engine = self.engine_at(qp.engine);
        let id = engine.connection_of(qp.slot).ok_or(CmError::NotConnected)?;
        engine.with_connection(id, self.now(), Connection::disconnect);
        drop(engine);
        self.kick();
        Ok(())
    }
}

impl Engine {
    pub(crate) fn unlisten(&mut self, local: SocketAddr) {
        self.abandon_unheard(local);
        // What another one listens on is not this listener's.
        if self.listeners.remove(&local).is_some() {
            self.stack.unlisten(local);
        }
    }

    pub(crate) fn connection_of(&self, slot: usize) -> Option<ConnectionId> {
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

    /// The side that will ask, as `terms` want it, and whose Request takes the private data.
    pub(crate) fn initiator(&self, qp: &Qp, terms: &Terms<'_>) -> Result<Initiator, CmError> {
        let mut mpa = self.config.mpa;
        let [ird, ord] = self.depths_of(qp);
        mpa.ird = terms.ird.or(ird).unwrap_or(mpa.ird);
        mpa.ord = terms.ord.or(ord).unwrap_or(mpa.ord);
        mpa.peer_to_peer = terms.peer_to_peer.unwrap_or(mpa.peer_to_peer);
        check_reads([mpa.ird, mpa.ord], self.config.max_reads)?;
        let initiator = Initiator::new(mpa);
        initiator.request(terms.private_data).map_err(startup_error)?;
        Ok(initiator)
    }

    /// IRD and ORD that the queue pair was given for its connection.
    fn depths_of(&self, qp: &Qp) -> [Option<u16>; 2] {
        self.qps.get(qp.slot).and_then(Option::as_ref).map_or([None; 2], |slot| slot.depths)
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
        if let Some(connection) = id.and_then(|id| self.connections.get_mut(id)) {
            connection.qp = Some(qp.slot);
        }
    }

    fn detach(&mut self, qp: &Qp, id: ConnectionId) {
        self.attach(qp, None);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.qp = None;
        }
    }

    /// The connection of a request that still waits for an answer.
    fn offered(&self, request: RequestId) -> Result<ConnectionId, CmError> {
        let RequestId(serial, attempt) = request;
        let id = *self.serials.get(&serial).ok_or(CmError::RequestGone)?;
        let is_offered = self.connections.get(id).is_some_and(|connection| {
            matches!(connection.phase, Phase::Offered(_)) && connection.attempt == attempt
        });
        let takes_an_answer = self.stack.state(id) == Some(LlpState::Established);
        if is_offered && takes_an_answer { Ok(id) } else { Err(CmError::RequestGone) }
    }
}

impl Listener {
    /// The address and port that are listened on; the port that was chosen where 0 was asked for.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for engine in &mut self.device.engines() {
            engine.unlisten(self.local);
        }
        self.device.kick();
    }
}

impl BoundPort {
    /// The address and the port; the port that was chosen where 0 was asked for.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for BoundPort {
    fn drop(&mut self) {
        for engine in &mut self.device.engines() {
            engine.stack.unbind(self.local);
        }
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
