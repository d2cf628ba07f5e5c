//! Connection management in the engine: connecting, answering requests, disconnecting. Listening is in `listeners.rs`.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use weft_mpa::Initiator;
use weft_netif::{ConnectError, ConnectionId, Instant, LlpState};
use weft_verbs::QpState;

use crate::connection::state::{Connection, Phase, Turn, Verdict};
use crate::connection::terms::Terms;
use crate::engine::tables::Engine;
use crate::error::{CmError, StreamError};
use crate::events::channel::Channel;
use crate::events::connection::Notice;
use crate::ids::RequestId;

/// A connection that TCP opens for a queue pair.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) llp: ConnectionId,
    pub(crate) remote: SocketAddr,
    pub(crate) initiator: Initiator,
    pub(crate) terms: Terms<'a>,
}

impl Engine {
    /// The initiator of a connection of the queue pair in `slot`, as `terms` want it. Its Request takes the private
    /// data.
    pub(crate) fn initiator(&self, slot: usize, terms: &Terms<'_>) -> Result<Initiator, CmError> {
        self.check_free(slot)?;
        let mut mpa = self.config.mpa;
        let [ird, ord] = self.depths_of(slot);
        mpa.ird = terms.ird.or(ird).unwrap_or(mpa.ird);
        mpa.ord = terms.ord.or(ord).unwrap_or(mpa.ord);
        mpa.peer_to_peer = terms.peer_to_peer.unwrap_or(mpa.peer_to_peer);
        check_reads([mpa.ird, mpa.ord], self.config.max_reads)?;
        let initiator = Initiator::new(mpa);
        initiator.request(terms.private_data).map_err(startup_error)?;
        Ok(initiator)
    }

    /// Has TCP open a connection.
    pub(crate) fn open(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        now: Instant,
    ) -> Result<ConnectionId, ConnectError> {
        self.stack.connect(remote, local, now)
    }

    /// Connects the queue pair in `slot`. Returns the own end, if TCP knows it.
    pub(crate) fn connect(&mut self, slot: usize, opening: Opening<'_>, now: Instant) -> Option<SocketAddr> {
        let Opening { llp, remote, initiator, terms } = opening;
        let phase = Phase::Connecting(initiator, Bytes::copy_from_slice(terms.private_data));
        let serial = self.new_serial();
        let connection = Connection {
            qp: Some(slot),
            cookie: terms.cookie,
            deadline: Some(now + self.config.startup_timeout),
            events: terms.events.map(Arc::clone),
            ..Connection::new(llp, serial, phase, remote)
        };
        self.insert(connection);
        self.attach(slot, Some(llp));
        self.stack.local_addr(llp)
    }

    /// Whether a connect request waits for an answer.
    pub(crate) fn may_answer(&self, request: RequestId) -> bool {
        self.offered(request).is_ok()
    }

    /// Accepts a connect request on the queue pair in `slot`.
    pub(crate) fn accept(
        &mut self,
        request: RequestId,
        slot: usize,
        terms: &Terms<'_>,
        now: Instant,
    ) -> Result<(), CmError> {
        self.check_free(slot)?;
        let id = self.offered(request)?;
        let mpa = &self.config.mpa;
        let [ird, ord] = self.depths_of(slot);
        let depths = [terms.ird.or(ird).unwrap_or(mpa.ird), terms.ord.or(ord).unwrap_or(mpa.ord)];
        check_reads(depths, self.config.max_reads)?;
        self.attach(slot, Some(id));
        let outcome = self.answer(id, now, |connection, turn| connection.accept(turn, terms, depths));
        if outcome.is_err() {
            self.detach(slot, id);
        }
        outcome
    }

    /// Rejects a connect request.
    pub(crate) fn reject(
        &mut self,
        request: RequestId,
        private_data: &[u8],
        now: Instant,
    ) -> Result<(), CmError> {
        let id = self.offered(request)?;
        self.answer(id, now, |connection, turn| connection.reject(turn, private_data))
    }

    /// Ends the connection of the queue pair in `slot` gracefully.
    pub(crate) fn disconnect(&mut self, slot: usize, now: Instant) -> Result<(), CmError> {
        if self.disconnect_self(slot, now) {
            return Ok(());
        }
        let id = self.connection_of(slot).ok_or(CmError::NotConnected)?;
        self.with_connection(id, now, Connection::disconnect);
        Ok(())
    }

    /// Leads the events of the connection of the queue pair in `slot` elsewhere, or nowhere.
    pub(crate) fn redirect(
        &mut self,
        slot: usize,
        events: Option<&Arc<Channel<Notice>>>,
    ) -> Result<(), CmError> {
        let id = self.connection_of(slot).ok_or(CmError::NotConnected)?;
        if let Some(connection) = self.connections.get_mut(id) {
            connection.events = events.map(Arc::clone);
        }
        Ok(())
    }

    pub(super) fn check_free(&self, slot: usize) -> Result<(), CmError> {
        let slot = self.qps.get(slot).and_then(Option::as_ref).ok_or(CmError::QpBusy)?;
        if slot.qp.queues().state() != QpState::Idle || slot.connection.is_some() {
            return Err(CmError::QpBusy);
        }
        if slot.qp.is_overrun() {
            return Err(CmError::CompletionQueueOverrun);
        }
        Ok(())
    }

    pub(super) fn attach(&mut self, slot: usize, id: Option<ConnectionId>) {
        if let Some(Some(slot)) = self.qps.get_mut(slot) {
            slot.connection = id;
        }
        if let Some(connection) = id.and_then(|id| self.connections.get_mut(id)) {
            connection.qp = Some(slot);
        }
    }

    /// Answers a connect request. A refused answer leaves the connection as it was.
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

    /// IRD and ORD that the queue pair was given for its connection.
    fn depths_of(&self, slot: usize) -> [Option<u16>; 2] {
        self.qps.get(slot).and_then(Option::as_ref).map_or([None; 2], |slot| slot.depths)
    }

    fn detach(&mut self, slot: usize, id: ConnectionId) {
        self.attach(slot, None);
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

const fn startup_error(error: weft_mpa::StartupError) -> CmError {
    match error {
        weft_mpa::StartupError::PrivateDataTooLong { len, max } => CmError::PrivateDataTooLong { len, max },
        weft_mpa::StartupError::BufferTooSmall { needed } => CmError::Stream(StreamError::NoRoom { needed }),
        // The frame is our own and well formed. So TCP no longer takes it.
        _ => CmError::RequestGone,
    }
}

/// Refuses a depth that the device does not have. The value that leaves the depth to the ULPs is allowed.
fn check_reads(depths: [u16; 2], max: u16) -> Result<(), CmError> {
    let wanted = depths.into_iter().find(|&depth| depth > max && depth < weft_mpa::NOT_NEGOTIATED);
    wanted.map_or(Ok(()), |wanted| Err(CmError::TooManyReads { wanted, max }))
}
