//! Connection management for applications: `Listener`, `BoundPort`, `ConnParam`, and the calls of `Device` that use them.

use std::net::SocketAddr;

use weft_netif::{ConnectError, Listen, ListenError};
use weft_verbs::QpState;

use crate::connection::terms::Terms;
use crate::engine::connecting::Opening;
use crate::engine::listeners::Listening;
use crate::engine::tables::Engine;
use crate::error::CmError;
use crate::ids::RequestId;
use crate::objects::device::Device;
use crate::objects::event_channel::EventChannel;
use crate::objects::qp::Qp;

/// An address and port that are listened on. Dropping it stops that.
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
    /// Reads and Atomics held at a time (IRD), at most the device's `max_reads`; the queue pair's (see
    /// [`crate::QpModify`]) or the device's setting if not given. 0x3FFF leaves it to the ULPs of both sides (RFC
    /// 6581 section 9.1).
    pub ird: Option<u16>,
    /// Reads and Atomics outstanding (ORD), likewise; the device's setting if not given.
    pub ord: Option<u16>,
    /// Connecting side only: ask for the peer-to-peer start of RFC 6581; the device's setting if not given.
    pub peer_to_peer: Option<bool>,
    /// Connecting side only: the own end. The device chooses it if it is not given, an unspecified address, and a
    /// port of 0.
    pub local: Option<SocketAddr>,
    /// What the application calls the connection in [`crate::Notice`]s.
    pub id: u64,
    /// Accepting side only: where the connection's events go. If not given they go where those of the listener go.
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

/// A port of a device that is kept for its owner. Dropping it gives the port back.
#[derive(Debug)]
pub struct BoundPort {
    local: SocketAddr,
    device: Device,
}

impl Device {
    /// Listens on a port, or as [`Listen`] says. Connect requests come out of `events`.
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

    /// Keeps a port, for 0 a free one, from others that bind, and from being chosen for a connection. The application
    /// may listen on [`BoundPort::local_addr`] and connect from it.
    ///
    /// # Errors
    /// [`CmError::Listen`] when the port is bound or listened on already, or the address none of the device's.
    pub fn bind(&self, local: SocketAddr) -> Result<BoundPort, CmError> {
        self.engines.check_open().map_err(|_| CmError::ShutDown)?;
        let mut engines = self.engines.listening();
        let mut bound: Option<SocketAddr> = None;
        for index in 0..engines.len() {
            let wanted = bound.unwrap_or(local);
            match engines[index].bind(wanted) {
                Ok(chosen) => bound = Some(chosen),
                Err(error) => {
                    engines[..index].iter_mut().for_each(|engine| engine.unbind(wanted));
                    return Err(CmError::Listen(error));
                }
            }
        }
        drop(engines);
        let local = bound.ok_or(CmError::Listen(ListenError::AddrInUse))?;
        Ok(BoundPort { local, device: self.clone() })
    }

    /// Connects `qp` to `remote`. The outcome comes out of `events`: [`crate::CmEvent::Established`],
    /// [`crate::CmEvent::Rejected`] or [`crate::CmEvent::ConnectError`].
    ///
    /// # Errors
    /// [`CmError`] when the queue pair is not free, the private data too long, more Reads are wanted than the device
    /// allows, or the address is not reachable at all.
    pub fn connect(
        &self,
        events: &EventChannel,
        qp: &Qp,
        remote: SocketAddr,
        param: ConnParam<'_>,
    ) -> Result<(), CmError> {
        self.connect_from(events, qp, remote, param).map(|_| ())
    }

    /// As [`Device::connect`]. Returns the own end of the connection.
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
        self.engines.check_open().map_err(|_| CmError::ShutDown)?;
        let now = self.engines.now();
        let terms = Terms { events: Some(&events.channel), ..param.terms() };
        let mut engine = self.engines.at(qp.engine);
        let initiator = engine.initiator(qp.slot, &terms)?;
        let llp = match engine.open(remote, param.local, now) {
            Err(ConnectError::AddrInUse) if self.engines.len() > 1 => {
                drop(engine);
                let found = self.engines.open_elsewhere(qp.engine, remote, param.local);
                let (target, llp) = found.ok_or(CmError::Connect(ConnectError::AddrInUse))?;
                engine = target;
                llp
            }
            llp => llp.map_err(CmError::Connect)?,
        };
        let local = engine.connect(qp.slot, Opening { llp, remote, initiator, terms }, now);
        drop(engine);
        self.engines.kick();
        Ok(local.unwrap_or_else(|| self.address(0)))
    }

    /// Accepts a connect request on `qp`.
    ///
    /// # Errors
    /// [`CmError`] when the queue pair is not free, the private data too long, more Reads are wanted than the device
    /// allows, or the peer has gone meanwhile. In all cases but the last the request can be answered again.
    /// [`crate::StreamError::NoRoom`] meets a peer that sends its Request without reading what it was sent in streaming
    /// mode.
    pub fn accept(&self, request: RequestId, qp: &Qp, param: ConnParam<'_>) -> Result<(), CmError> {
        if !self.is_same(&qp.device) || param.events.is_some_and(|events| !self.is_same(&events.device)) {
            return Err(CmError::ForeignObject);
        }
        let may_come = |engine: &Engine| engine.may_answer(request) && qp.state() == QpState::Idle;
        let mut engine = self.engines.bring(request.0, qp.engine, may_come);
        let outcome = engine.accept(request, qp.slot, &param.terms(), self.engines.now());
        drop(engine);
        self.engines.kick();
        outcome
    }

    /// Rejects a connect request. A connection that came from streaming mode returns to it; any other is closed.
    ///
    /// # Errors
    /// [`CmError`] as for [`Device::accept`].
    pub fn reject(&self, request: RequestId, private_data: &[u8]) -> Result<(), CmError> {
        let outcome = self.engines.with(request.0).reject(request, private_data, self.engines.now());
        self.engines.kick();
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
        self.engines.check_open().map_err(|_| CmError::ShutDown)?;
        let listening = Listening { events: &events.channel, cookie, streaming };
        let mut engines = self.engines.listening();
        // The first engine chooses, and what it has chosen is free in all of them: they have the same listeners.
        let mut local: Option<SocketAddr> = None;
        for index in 0..engines.len() {
            let wanted = Listen { port: local.map_or(listen.port, |local| local.port()), ..listen };
            match engines[index].listen(wanted, listening) {
                Ok(chosen) => local = Some(chosen),
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
}

impl Listener {
    /// The address and port that are listened on, with the port that was chosen if 0 was asked for.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.device.engines.all().iter_mut().for_each(|engine| engine.unlisten(self.local));
        self.device.engines.kick();
    }
}

impl BoundPort {
    /// The address and the port, with the port that was chosen if 0 was asked for.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for BoundPort {
    fn drop(&mut self) {
        self.device.engines.all().iter_mut().for_each(|engine| engine.unbind(self.local));
    }
}
