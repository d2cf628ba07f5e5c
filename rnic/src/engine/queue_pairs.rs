//! Queue pairs: making, changing, asking, destroying.

use std::net::SocketAddr;
use std::sync::Arc;

use weft_mpa::{Negotiated, mulpdu};
use weft_netif::{ConnectionId, Instant};
use weft_verbs::{
    CycleError, Doorbells, KeyedStag, PdId, QpCapacity, QpCounters, QpEvent, QpQueues, QpState, QueuePair,
    Status,
};

use crate::connection::state::{Connection, Phase};
use crate::engine::cq::CqShared;
use crate::engine::srq::SrqShared;
use crate::engine::tables::{Engine, QpSlot};
use crate::error::{CreateError, ModifyError};
use crate::ids::{CqId, SrqId, qp_number};
use crate::stream::ending::Stage;

/// A queue pair at the moment of [`crate::Qp::query`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QpAttributes {
    /// The number.
    pub qp_num: u32,
    /// The state.
    pub state: QpState,
    /// It takes no further requests, and closes when the earlier ones are done.
    pub is_draining: bool,
    /// The number of the protection domain within the device.
    pub pd: u64,
    /// Where completions of the send queue go.
    pub send_cq: CqId,
    /// Where completions of the receive queue go.
    pub recv_cq: CqId,
    /// The shared receive queue, if it has no receive queue of its own.
    pub srq: Option<SrqId>,
    /// What the queues hold, as granted: as much as was asked for, or more. The receive queue is 0 with a shared one.
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
    /// * [`QpState::Terminate`], from [`QpState::Rts`]: the peer gets a Terminate without blame (RDMAP Local
    ///   Catastrophic Error), everything posted is flushed.
    /// * [`QpState::Closing`], from [`QpState::Rts`], as `IBV_QPS_SQD` of iWARP devices: what is posted to the send
    ///   queue by now is done first. Then comes [`crate::AsyncEvent::SqDrained`], and the connection is closed as by
    ///   [`crate::Qp::disconnect`].
    ///
    /// The present state is no change. [`QpState::Rts`] comes by connecting, and no queue pair is [`QpState::Idle`]
    /// again.
    pub state: Option<QpState>,
    /// Whether messages wait for receives from now on.
    pub rnr_wait: Option<bool>,
    /// Before connecting: the IRD where [`crate::ConnParam`] has none.
    pub ird: Option<u16>,
    /// Before connecting: the ORD likewise.
    pub ord: Option<u16>,
}

/// What a queue pair is made of.
#[derive(Debug)]
pub(crate) struct QpParts<'a> {
    pub(crate) pd: PdId,
    /// Completions of the send queue, and of the receive queue.
    pub(crate) cqs: [&'a Arc<CqShared>; 2],
    pub(crate) srq: Option<&'a Arc<SrqShared>>,
    pub(crate) capacity: QpCapacity,
    pub(crate) signal_all: bool,
    pub(crate) rnr_wait: bool,
    pub(crate) as_infiniband: bool,
}

impl Engine {
    /// Makes a queue pair in the state Idle. Returns its slot and its queues.
    pub(crate) fn create_qp(&mut self, parts: &QpParts<'_>) -> Result<(usize, Arc<QpQueues>), CreateError> {
        let slot = self.reserve_qp().ok_or(CreateError::TooManyQps)?;
        let number = qp_number(slot, self.index, self.config.engines).ok_or(CreateError::TooManyQps)?;
        let mut queues = QpQueues::new(number, &parts.capacity);
        queues.extensions = self.config.extensions;
        queues.has_srq = parts.srq.is_some();
        queues.set_as_infiniband(parts.as_infiniband);
        let queues = Arc::new(queues);
        let [send_cq, recv_cq] = parts.cqs;
        let qp = QueuePair::new(weft_verbs::QpInit {
            queues: Arc::clone(&queues),
            pd: parts.pd,
            send_cq: Arc::clone(&send_cq.queue),
            recv_cq: Arc::clone(&recv_cq.queue),
            signal_all: parts.signal_all,
            srq: parts.srq.map(|srq| Arc::clone(&srq.queue)),
            rnr_wait: parts.rnr_wait,
            cq_table: Arc::clone(&self.cq_table),
        });
        let (cqs, srq) = (parts.cqs.map(Arc::clone), parts.srq.map(Arc::clone));
        self.qps[slot] = Some(QpSlot { qp, cqs, srq, connection: None, depths: [None; 2] });
        Ok((slot, queues))
    }

    /// Destroys a queue pair, and resets or closes its connection unless that is ending already.
    pub(crate) fn destroy_qp(&mut self, slot: usize, now: Instant) {
        self.last_now = now;
        let Some(mut gone) = self.qps.get_mut(slot).and_then(Option::take) else { return };
        gone.qp.unbind_windows(&self.memory.read());
        self.counters.verbs.add_qp(&gone.qp);
        self.free_qps.push_back(slot);
        gone.qp.leave_srq();
        if let Some(srq) = gone.srq.take() {
            srq.wake_next(&self.doorbells);
        }
        self.async_events.withdraw_qp(gone.qp.queues().number);
        gone.qp.leave_cqs();
        let Some(id) = gone.connection else { return };
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.qp = None;
        connection.ended = None;
        connection.trace.destroyed(&gone.qp.counters());
        match &mut connection.phase {
            // The application has heard the end. The Terminate or FIN still has to arrive. No memory is touched any
            // more in the name of a queue pair that is gone.
            Phase::Full(Stage::Ending(stream)) => {
                stream.abandon_answers();
                connection.orphan = Some(Box::new(gone.qp));
            }
            Phase::Full(Stage::Draining) => {}
            // TCP still sends what it has, and FIN behind it.
            Phase::Full(Stage::Operating(_)) if gone.qp.queues().as_infiniband() => {
                self.with_connection(id, now, Connection::shut);
            }
            _ => {
                self.reset(id);
                self.remove(id);
            }
        }
    }

    /// What the queue pair is like at the moment.
    pub(crate) fn query_qp(&mut self, slot: usize) -> Option<QpAttributes> {
        let slot = self.qps.get(slot)?.as_ref()?;
        let mut attributes = attributes(slot);
        let id = slot.connection;
        let connection = id.and_then(|id| self.connections.get(id));
        if let (Some(id), Some((peer, agreed))) = (id, connection.and_then(|it| Some((it.peer, it.agreed?))))
        {
            let local = self.stack.local_addr(id);
            let emss = self.stack.llp(id).map_or(0, |llp| llp.emss());
            let Negotiated { ird, ord, crc, send_markers, receive_markers, .. } = agreed;
            let mulpdu = mulpdu(emss.min(self.config.stack.tcp_buffer), send_markers);
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
    pub(crate) fn modify_qp(
        &mut self,
        index: usize,
        modify: &QpModify,
        now: Instant,
    ) -> Result<(), ModifyError> {
        let max_reads = self.config.max_reads;
        let Some(Some(slot)) = self.qps.get_mut(index) else { return Err(ModifyError::InvalidState) };
        check_modify(slot, modify, max_reads)?;
        if let Some(wait) = modify.rnr_wait {
            slot.qp.set_rnr_wait(wait);
        }
        slot.depths = [modify.ird.or(slot.depths[0]), modify.ord.or(slot.depths[1])];
        let before = slot.qp.queues().state();
        if let Some(state) = modify.state.filter(|&state| state != before) {
            self.go_to(index, state, now);
        }
        Ok(())
    }

    /// Nothing of the peer is heard: the oldest request ends as [`Status::RetryExceeded`], and the queue pair goes to
    /// Error.
    pub(crate) fn give_up_qp(&mut self, slot: usize, now: Instant) {
        if let Some(Some(slot)) = self.qps.get_mut(slot) {
            slot.qp.set_now(now.total_micros().unsigned_abs());
            slot.qp.fail_oldest(Status::RetryExceeded);
        }
        self.go_to(slot, QpState::Error, now);
    }

    /// The own end and the peer's end of its connection; none without one.
    pub(crate) fn addresses(&self, slot: usize) -> Option<[SocketAddr; 2]> {
        let connection = self.connections.get(self.connection_of(slot)?)?;
        Some([connection.local, connection.peer])
    }

    /// Makes the send queue of the queue pair in `slot` cyclic, or else its receive queue.
    pub(crate) fn cycle(&mut self, slot: usize, is_send: bool) -> Result<(), CycleError> {
        let Some(Some(slot)) = self.qps.get_mut(slot) else { return Err(CycleError::NotFull) };
        if is_send { slot.qp.cycle_sends() } else { slot.qp.cycle_recvs() }
    }

    /// Has requests of its send queue that are not carried out bind `window` no more.
    pub(crate) fn forget_binds(&mut self, slot: usize, window: &KeyedStag) {
        if let Some(Some(slot)) = self.qps.get_mut(slot) {
            slot.qp.forget_binds(window);
        }
    }

    /// Whether a request of its send queue is not done.
    pub(crate) fn has_sends(&self, slot: usize) -> bool {
        self.qps.get(slot).and_then(Option::as_ref).is_some_and(|slot| slot.qp.has_sends())
    }

    /// Whether a queue pair, region or window belongs to this domain.
    pub(crate) fn uses(&self, pd: PdId) -> bool {
        self.qps.iter().flatten().any(|slot| slot.qp.pd() == pd) || self.memory.read().uses(pd)
    }

    /// The protection domain of the queue pair in `slot`.
    pub(crate) fn pd_of(&self, slot: usize) -> Option<PdId> {
        self.qps.get(slot)?.as_ref().map(|slot| slot.qp.pd())
    }

    /// The doorbells of this engine's queue pairs.
    pub(crate) const fn doorbells(&self) -> &Arc<Doorbells> {
        &self.doorbells
    }

    /// The shared receive queue has another size from now on.
    pub(crate) fn follow_srq(&mut self, srq: &Arc<SrqShared>) {
        for slot in self.qps.iter_mut().flatten() {
            if slot.srq.as_ref().is_some_and(|used| Arc::ptr_eq(used, srq)) {
                slot.qp.follow_srq();
            }
        }
    }

    /// Takes the queue pair in `slot` to another state. The caller has checked that the transition is allowed.
    pub(super) fn go_to(&mut self, slot: usize, state: QpState, now: Instant) {
        let connection = self.qps.get(slot).and_then(Option::as_ref).and_then(|slot| slot.connection);
        match (connection, state) {
            (Some(id), QpState::Closing) => self.with_connection(id, now, Connection::drain_and_close),
            (Some(id), QpState::Terminate) => self.with_connection(id, now, Connection::terminate),
            (Some(id), _) => self.with_connection(id, now, Connection::break_off),
            (None, _) => {
                if let Some(Some(own)) = self.qps.get_mut(slot) {
                    own.qp.set_now(now.total_micros().unsigned_abs());
                    if state == QpState::Closing && own.qp.is_alone() {
                        own.qp.drain();
                        return self.run_alone(slot, now);
                    }
                    own.qp.handle_event(QpEvent::Failed);
                }
                self.announce(Some(slot), now);
            }
        }
    }

    pub(super) fn connection_of(&self, slot: usize) -> Option<ConnectionId> {
        self.qps.get(slot)?.as_ref()?.connection
    }

    /// Returns a free slot for a queue pair.
    fn reserve_qp(&mut self) -> Option<usize> {
        let slot = self.qps.len();
        if slot < self.config.max_qps && self.free_qps.len() < QP_REST {
            self.qps.push(None);
            return Some(slot);
        }
        self.free_qps.pop_front()
    }
}

fn check_modify(slot: &QpSlot, modify: &QpModify, max: u16) -> Result<(), ModifyError> {
    let state = slot.qp.queues().state();
    let depths = [modify.ird, modify.ord];
    if depths.iter().any(Option::is_some) && (state != QpState::Idle || slot.connection.is_some()) {
        return Err(ModifyError::InvalidState);
    }
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

/// How many slots rest before one is used again. A late event of a destroyed queue pair must not look like one of its
/// successor.
const QP_REST: usize = 64;
