//! What a queue pair is like at the moment, and what can be changed of it: `ibv_query_qp` and `ibv_modify_qp`.

use std::net::SocketAddr;

use weft_mpa::{Negotiated, mulpdu};
use weft_verbs::{QpCapacity, QpCounters, QpEvent, QpState, Status};

use crate::connection::state::Connection;
use crate::engine::{Engine, QpSlot};
use crate::error::ModifyError;
use crate::ids::{CqId, SrqId};
use crate::objects::qp::Qp;

/// A queue pair at the moment of [`Qp::query`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QpAttributes {
    /// The number.
    pub qp_num: u32,
    /// The state.
    pub state: QpState,
    /// It takes no further requests and closes when those before are done.
    pub is_draining: bool,
    /// The number of the protection domain within the device.
    pub pd: u64,
    /// Where completions of the send queue go.
    pub send_cq: CqId,
    /// Where completions of the receive queue go.
    pub recv_cq: CqId,
    /// Where receives come from, if not from its own receive queue.
    pub srq: Option<SrqId>,
    /// What the queues hold, as granted: as much as was asked for, or more. The receive queue has nothing with a shared one.
    pub capacity: QpCapacity,
    /// Every request makes a completion.
    pub signal_all: bool,
    /// Messages wait for receives.
    pub rnr_wait: bool,
    /// The connection in Full Operation, as long as it lasts.
    pub connection: Option<ConnectionAttributes>,
    /// What it has done.
    pub counters: QpCounters,
}

/// What startup has agreed on, and what TCP makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionAttributes {
    /// The own end.
    pub local: Option<SocketAddr>,
    /// The peer's end.
    pub peer: SocketAddr,
    /// Reads and Atomics of the peer that this side holds at a time.
    pub ird: u16,
    /// Reads and Atomics that this side may have outstanding.
    pub ord: u16,
    /// FPDUs carry a CRC.
    pub crc: bool,
    /// FPDUs that are sent carry Markers.
    pub send_markers: bool,
    /// FPDUs that are received carry Markers.
    pub receive_markers: bool,
    /// Octets of payload in the largest TCP segment.
    pub emss: usize,
    /// Octets of the largest ULPDU that is sent (RFC 5044 section 5).
    pub mulpdu: usize,
}

/// What is to change; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpModify {
    /// The state to go to. Everything else is done first.
    ///
    /// * [`QpState::Error`], from any state: the connection is reset, everything posted is flushed.
    /// * [`QpState::Terminate`], from [`QpState::Rts`]: the peer gets a Terminate without blame (RDMAP Local Catastrophic Error),
    ///   everything posted is flushed.
    /// * [`QpState::Closing`], from [`QpState::Rts`], as `IBV_QPS_SQD` of iWARP devices: what is posted to the send queue by now
    ///   is done first. Then comes [`crate::AsyncEvent::SqDrained`], and the connection is closed as by [`Qp::disconnect`].
    ///
    /// The present state is no change. [`QpState::Rts`] comes by connecting, and no queue pair is [`QpState::Idle`] again.
    pub state: Option<QpState>,
    /// Whether messages wait for receives from now on.
    pub rnr_wait: Option<bool>,
    /// Before connecting: the IRD where [`crate::ConnParam`] has none.
    pub ird: Option<u16>,
    /// Before connecting: the ORD likewise.
    pub ord: Option<u16>,
}

impl Qp {
    /// What the queue pair is like at the moment.
    pub fn query(&self) -> Option<QpAttributes> {
        let mut engine = self.device.engine_at(self.engine);
        let tcp_buffer = engine.config.stack.tcp_buffer;
        let slot = engine.qps.get(self.slot)?.as_ref()?;
        let id = slot.connection;
        let mut attributes = attributes(slot);
        let connection = id.and_then(|id| engine.connections.get(id));
        if let (Some(id), Some((peer, agreed))) = (id, connection.and_then(|it| Some((it.peer, it.agreed?))))
        {
            let local = engine.stack.local_addr(id);
            let emss = engine.stack.llp(id).map_or(0, |llp| llp.emss());
            let Negotiated { ird, ord, crc, send_markers, receive_markers, .. } = agreed;
            let mulpdu = mulpdu(emss.min(tcp_buffer), send_markers);
            attributes.connection = Some(ConnectionAttributes {
                local,
                peer,
                ird,
                ord,
                crc,
                send_markers,
                receive_markers,
                emss,
                mulpdu,
            });
        }
        Some(attributes)
    }

    /// Changes the queue pair.
    ///
    /// # Errors
    /// [`ModifyError::InvalidState`] where the state does not allow it, and [`ModifyError::TooLarge`] for more Reads than the
    /// device's `max_reads`. Nothing has changed then.
    pub fn modify(&self, modify: &QpModify) -> Result<(), ModifyError> {
        let mut engine = self.device.engine_at(self.engine);
        engine.check_modify(self, modify)?;
        let Some(Some(slot)) = engine.qps.get_mut(self.slot) else { return Err(ModifyError::InvalidState) };
        if let Some(wait) = modify.rnr_wait {
            slot.qp.set_rnr_wait(wait);
        }
        slot.depths = [modify.ird.or(slot.depths[0]), modify.ord.or(slot.depths[1])];
        if let Some(state) = modify.state.filter(|&state| state != self.state()) {
            engine.go_to(self.slot, state, self.device.now());
        }
        drop(engine);
        // A message may wait that need not any longer.
        self.device.motors()[self.engine].ring(self.slot);
        Ok(())
    }

    /// Nothing of the peer is heard: the oldest request that is not done ends as [`Status::RetryExceeded`], and the queue pair goes to
    /// [`QpState::Error`], where all others are flushed.
    pub fn give_up(&self) {
        let now = self.device.now();
        let mut engine = self.device.engine_at(self.engine);
        if let Some(Some(slot)) = engine.qps.get_mut(self.slot) {
            slot.qp.set_now(now.total_micros().unsigned_abs());
            slot.qp.fail_oldest(Status::RetryExceeded);
        }
        engine.go_to(self.slot, QpState::Error, now);
        drop(engine);
        self.device.kick();
    }
}

impl Engine {
    fn check_modify(&self, qp: &Qp, modify: &QpModify) -> Result<(), ModifyError> {
        let state = qp.state();
        let depths = [modify.ird, modify.ord];
        if depths.iter().any(Option::is_some) && (state != QpState::Idle || self.is_connecting(qp.slot)) {
            return Err(ModifyError::InvalidState);
        }
        let max = self.config.max_reads;
        if depths.into_iter().flatten().any(|depth| depth > max) {
            return Err(ModifyError::TooLarge { what: "Reads", max: usize::from(max) });
        }
        match modify.state {
            Some(wanted) if wanted != state => match (state, wanted) {
                (_, QpState::Error) | (QpState::Rts, QpState::Closing | QpState::Terminate) => Ok(()),
                _ => Err(ModifyError::InvalidState),
            },
            _ => Ok(()),
        }
    }

    fn is_connecting(&self, slot: usize) -> bool {
        self.qps.get(slot).and_then(Option::as_ref).is_some_and(|slot| slot.connection.is_some())
    }

    /// Has the queue pair in `slot` go to a state that it may go to.
    pub(crate) fn go_to(&mut self, slot: usize, state: QpState, now: weft_netif::Instant) {
        let connection = self.qps.get(slot).and_then(Option::as_ref).and_then(|slot| slot.connection);
        match (connection, state) {
            (Some(id), QpState::Closing) => self.with_connection(id, now, Connection::drain_and_close),
            (Some(id), QpState::Terminate) => self.with_connection(id, now, Connection::terminate),
            (Some(id), _) => self.with_connection(id, now, Connection::break_off),
            (None, _) => {
                if let Some(Some(slot)) = self.qps.get_mut(slot) {
                    slot.qp.set_now(now.total_micros().unsigned_abs());
                    slot.qp.handle_event(QpEvent::Failed);
                }
                self.announce(Some(slot), now);
            }
        }
    }
}

fn attributes(slot: &QpSlot) -> QpAttributes {
    let qp = &slot.qp;
    let queues = qp.queues();
    QpAttributes {
        qp_num: queues.number,
        state: queues.state(),
        is_draining: qp.is_draining(),
        pd: qp.pd().0,
        send_cq: slot.cqs[0].id,
        recv_cq: slot.cqs[1].id,
        srq: slot.srq.as_ref().map(|srq| srq.id),
        capacity: queues.capacity(),
        signal_all: qp.signal_all(),
        rnr_wait: qp.rnr_wait(),
        connection: None,
        counters: qp.counters(),
    }
}
