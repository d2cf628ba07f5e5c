//! The motion: one object that moves everything when it is polled.
//!
//! `poll(now) -> Option<Instant>` takes frames off the wire, gives every connection with news its turn, sends, and says
//! when it wants to be called again. It reads no clock and draws no random number. Who calls it is the driver's matter.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use weft_mpa::STAGING_LEN;
use weft_netif::{ConnectionId, Instant, Transport};
use weft_verbs::{CqTable, Doorbells, PdId, QpEvent, QpNotice, QpState, QueuePair, Taking};

use crate::config::Config;
use crate::connection::state::{Connection, Phase, Standing, Turn, Verdict};
use crate::connection::trace::Trace;
use crate::counters::Counters;
use crate::engine::memory::Memory;
use crate::engine::notices::Notices;
use crate::engine::table::Connections;
use crate::events::asynchronous::AsyncQueue;
use crate::events::channel::Channel;
use crate::events::connection::Notice;
use crate::objects::cq::CqShared;
use crate::objects::srq::SrqShared;
use crate::stream::staging::StagingPool;

pub(crate) mod listeners;
pub(crate) mod memory;
pub(crate) mod notices;
pub(crate) mod registry;
pub(crate) mod table;

/// Everything that a device consists of, behind the device's lock.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) stack: Transport,
    pub(crate) memory: Memory,
    pub(crate) counters: Counters,
    pub(crate) qps: Vec<Option<QpSlot>>,
    /// Free slots, the one that has been free for the longest time first, so that numbers do not come back soon.
    free_qps: VecDeque<usize>,
    pub(crate) connections: Connections,
    pub(crate) serials: HashMap<u64, ConnectionId>,
    pub(crate) listeners: HashMap<SocketAddr, ListenerSlot>,
    pub(crate) config: Config,
    /// Where those who post say so.
    pub(crate) doorbells: Arc<Doorbells>,
    pub(crate) async_events: Arc<AsyncQueue>,
    /// Completion queues that queue pairs complete to.
    pub(crate) cq_table: Arc<CqTable>,
    pub(crate) notices: Notices,
    carrier: Option<bool>,
    /// The last poll has only sent what was posted.
    has_sent_first: bool,
    /// Deadlines and the serials of the connections they belong to.
    deadlines: BTreeSet<(Instant, u64)>,
    /// Serials of engines differ by their remainders.
    last_serial: u64,
    scratch: Box<[u8]>,
    stagings: StagingPool,
}

/// A queue pair, where its completions are announced, and its connection.
#[derive(Debug)]
pub(crate) struct QpSlot {
    pub(crate) qp: QueuePair,
    pub(crate) cqs: [Arc<CqShared>; 2],
    pub(crate) srq: Option<Arc<SrqShared>>,
    pub(crate) connection: Option<ConnectionId>,
    /// IRD and ORD for a connection that is asked for without.
    pub(crate) depths: [Option<u16>; 2],
}

/// A listener: where its events go, and which of its connections have not been answered yet.
#[derive(Debug)]
pub(crate) struct ListenerSlot {
    pub(crate) events: Option<Arc<Channel<Notice>>>,
    /// What the application calls it in events.
    pub(crate) cookie: u64,
    /// Requests that the application has not answered, at most `backlog`.
    pub(crate) asking: usize,
    pub(crate) backlog: usize,
    /// Connections whose Request has not come.
    pub(crate) silent: usize,
    /// Their serials, the oldest first; some may have gone on.
    pub(crate) startups: VecDeque<u64>,
    /// Its connections begin in streaming mode.
    pub(crate) streaming: bool,
}

impl Engine {
    /// The engine number `index` of a device.
    pub(crate) fn new(
        index: usize,
        stack: Transport,
        config: Config,
        memory: Memory,
        async_events: Arc<AsyncQueue>,
    ) -> Self {
        let doorbells = Arc::new(Doorbells::new(config.max_qps));
        Self {
            carrier: stack.has_carrier(),
            stack,
            memory,
            counters: Counters::default(),
            qps: Vec::new(),
            free_qps: VecDeque::new(),
            connections: Connections::default(),
            serials: HashMap::new(),
            listeners: HashMap::new(),
            config,
            doorbells,
            async_events,
            cq_table: Arc::default(),
            notices: Notices::default(),
            has_sent_first: false,
            deadlines: BTreeSet::new(),
            last_serial: index as u64,
            scratch: vec![0; STAGING_LEN].into_boxed_slice(),
            stagings: StagingPool::default(),
        }
    }

    /// Moves everything as far as it goes at `now`, and answers when to be called again at the latest; `None` means that
    /// only a frame or a doorbell can bring news.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Instant> {
        self.move_on(now);
        self.poll_at(now)
    }

    /// As [`Engine::poll`], for those who need not know when to call again.
    pub(crate) fn move_on(&mut self, now: Instant) {
        let before = self.counters.engine.work();
        let taken = self.stack.ingress(now);
        while let Some((id, listener)) = self.stack.next_accepted() {
            self.handle_accepted(id, listener, now);
        }
        while let Some(id) = self.stack.next_ready() {
            self.turn(id, now);
        }
        self.answer_doorbells(now);
        self.expire(now);
        self.announce_held(now);
        let sent = self.stack.egress(now);
        self.watch_carrier();
        self.counters.engine.count_poll(taken + sent > 0 || self.counters.engine.work() > before);
    }

    /// As [`Self::move_on`], for whoever calls again and again: what was posted goes out before anybody looks at what has come, which
    /// the next call does.
    pub(crate) fn move_on_posted_first(&mut self, now: Instant) {
        self.has_sent_first = !self.has_sent_first && self.doorbells.any();
        if self.has_sent_first { self.send_posted(now) } else { self.move_on(now) }
    }

    /// Sends what was posted, without a look at what has come: for whoever posts and then waits, which takes that in.
    pub(crate) fn send_posted(&mut self, now: Instant) {
        self.answer_doorbells(now);
        self.stack.egress(now);
    }

    /// Descriptors to sleep on until a frame comes, and whether they are also to become writable.
    pub(crate) fn wait_fds(&self) -> Option<Vec<(Arc<OwnedFd>, bool)>> {
        self.stack.wait_fds()
    }

    /// A free slot for a queue pair.
    pub(crate) fn reserve_qp(&mut self) -> Option<usize> {
        let slot = self.qps.len();
        if slot < self.config.max_qps && self.free_qps.len() < QP_REST {
            self.qps.push(None);
            return Some(slot);
        }
        self.free_qps.pop_front()
    }

    /// Forgets a queue pair, and resets or closes its connection unless that is ending already.
    pub(crate) fn destroy_qp(&mut self, slot: usize) {
        let Some(mut gone) = self.qps.get_mut(slot).and_then(Option::take) else { return };
        gone.qp.unbind_windows(&self.memory.read());
        self.counters.verbs.add_qp(&gone.qp);
        self.free_qps.push_back(slot);
        gone.qp.leave_srq();
        if let Some(srq) = gone.srq.take() {
            srq.wake_next(&self.doorbells);
        }
        self.async_events.withdraw_qp(gone.qp.queues().number);
        let Some(id) = gone.connection else { return };
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.qp = None;
        connection.ended = None;
        connection.trace.destroyed(&gone.qp.counters());
        match &mut connection.phase {
            // The application has heard the end and lets go; the Terminate or FIN still has to arrive. Memory is not touched
            // any more in the name of a queue pair that is not there.
            Phase::Ending(stream) => {
                stream.abandon_answers();
                connection.orphan = Some(Box::new(gone.qp));
            }
            Phase::Draining => {}
            // What is in TCP by now still goes out, and FIN behind it.
            Phase::Operating(_) if gone.qp.queues().as_infiniband() => {
                self.with_connection(id, self.config.clock.now(), Connection::shut);
            }
            _ => {
                self.reset(id);
                self.remove(id);
            }
        }
    }

    /// What was counted in the engine and below.
    pub(crate) fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.wire = self.stack.wire_counters();
        counters.stack = self.stack.counters();
        counters.tcp = self.stack.tcp_counters();
        counters.host = self.stack.host_counters();
        for slot in self.qps.iter().flatten() {
            counters.verbs.add_qp(&slot.qp);
        }
        counters
    }

    /// Whether anything belongs to this domain.
    pub(crate) fn uses(&self, pd: PdId) -> bool {
        self.qps.iter().flatten().any(|slot| slot.qp.pd() == pd) || self.memory.read().uses(pd)
    }

    /// The protection domain of the queue pair in `slot`.
    pub(crate) fn pd_of(&self, slot: usize) -> Option<PdId> {
        self.qps.get(slot)?.as_ref().map(|slot| slot.qp.pd())
    }

    /// Takes a new connection into the table.
    pub(crate) fn insert(&mut self, mut connection: Connection) {
        connection.local = self.stack.local_addr(connection.llp).unwrap_or(connection.local);
        self.recount(None, connection.standing());
        let ends = [self.stack.local_addr(connection.llp), Some(connection.peer)];
        connection.trace = Trace::begin(connection.serial, connection.listener.is_none(), ends);
        if let Some(deadline) = connection.deadline {
            self.deadlines.insert((deadline, connection.serial));
        }
        self.serials.insert(connection.serial, connection.llp);
        self.connections.insert(connection);
    }

    pub(crate) const fn new_serial(&mut self) -> u64 {
        self.last_serial += self.config.engines as u64;
        self.last_serial
    }

    /// Gives a connection its turn.
    pub(crate) fn turn(&mut self, id: ConnectionId, now: Instant) {
        self.with_connection(id, now, Connection::turn);
    }

    /// Does `act` with a connection, and sees to what comes of it: removal, deadlines, completion events.
    pub(crate) fn with_connection(
        &mut self,
        id: ConnectionId,
        now: Instant,
        act: impl FnOnce(&mut Connection, &mut Turn<'_>) -> Verdict,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        self.counters.engine.turns += 1;
        let (before, serial) = (connection.deadline, connection.serial);
        let standing = connection.standing();
        let backlog_is_full = matches!(standing, Some((_, Standing::Silent)))
            && standing
                .and_then(|(by, _)| self.listeners.get(&by))
                .is_some_and(|listener| listener.asking >= listener.backlog);
        let slot = connection.qp;
        let verdict = {
            let Some(llp) = self.stack.llp(id) else { return };
            let memory = self.memory.read();
            let mut orphan = connection.orphan.take();
            let qp = slot.and_then(|slot| self.qps.get_mut(slot)?.as_mut()).map(|slot| &mut slot.qp);
            let mut turn = Turn {
                llp,
                qp: qp.or(orphan.as_deref_mut()),
                memory: &memory,
                counters: &mut self.counters,
                stagings: &mut self.stagings,
                scratch: &mut self.scratch,
                tcp_buffer: self.config.stack.tcp_buffer,
                max_reads: self.config.max_reads,
                backlog_is_full,
                nudge_after: self.config.nudge_after,
                startup_timeout: self.config.startup_timeout,
                answer_timeout: self.config.answer_timeout,
                close_timeout: self.config.close_timeout,
                now,
            };
            if let Some(qp) = turn.qp.as_deref_mut() {
                qp.set_now(now.total_micros().unsigned_abs());
            }
            let verdict = act(connection, &mut turn);
            connection.orphan = orphan.filter(|_| matches!(connection.phase, Phase::Ending(_)));
            verdict
        };
        let (after, owner) = (connection.deadline, connection.qp);
        let stands = connection.standing();
        if before != after {
            if let Some(deadline) = before {
                self.deadlines.remove(&(deadline, serial));
            }
            if let Some(deadline) = after {
                self.deadlines.insert((deadline, serial));
            }
        }
        if stands != standing {
            self.recount(standing, stands);
        }
        if owner != slot {
            self.release(slot);
        }
        if verdict == Verdict::Remove {
            self.remove(id);
        }
        if self.memory.is_shared() {
            self.end_revocation(slot);
        }
        self.announce(slot, now);
    }

    /// A request that took out of use what other engines may be copying from or to goes on when none of them does any more.
    fn end_revocation(&mut self, slot: Option<usize>) {
        let Some(index) = slot else { return };
        let Some(Some(slot)) = self.qps.get_mut(index) else { return };
        if slot.qp.is_revoking() {
            self.memory.await_turns();
            slot.qp.end_revocation();
            self.doorbells.ring(index);
        }
    }

    /// Forgets a connection; TCP finishes its close by itself.
    pub(crate) fn remove(&mut self, id: ConnectionId) {
        if let Some(connection) = self.forget(id) {
            connection.withdraw_request();
            self.tell_closed(&connection);
            self.release(connection.qp);
        }
        self.stack.remove(id);
    }

    /// Takes a connection out of the tables.
    pub(crate) fn forget(&mut self, id: ConnectionId) -> Option<Box<Connection>> {
        let connection = self.connections.remove(id)?;
        if let Some(deadline) = connection.deadline {
            self.deadlines.remove(&(deadline, connection.serial));
        }
        self.serials.remove(&connection.serial);
        self.recount(connection.standing(), None);
        Some(connection)
    }

    /// A connection is gone.
    fn tell_closed(&self, connection: &Connection) {
        let slot = connection.qp.and_then(|slot| self.qps.get(slot)?.as_ref());
        let qp = slot.map(|slot| &slot.qp).or(connection.orphan.as_deref());
        connection.trace.closed(qp.map(QueuePair::counters).as_ref());
    }

    /// The connections from the oldest on. The table has no order of its own, and the same seeds are to give the same run to the
    /// end.
    pub(crate) fn ids_in_order(&self) -> Vec<ConnectionId> {
        let mut ids: Vec<_> = self.connections.values().map(|it| (it.serial, it.llp)).collect();
        ids.sort_unstable_by_key(|&(serial, _)| serial);
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// Ends a connection by RST.
    pub(crate) fn reset(&mut self, id: ConnectionId) {
        if let Some(mut llp) = self.stack.llp(id) {
            llp.abort();
        }
    }

    /// The queue pair in `slot` has no connection any more.
    fn release(&mut self, slot: Option<usize>) {
        if let Some(Some(slot)) = slot.and_then(|slot| self.qps.get_mut(slot)) {
            slot.connection = None;
        }
    }

    fn watch_carrier(&mut self) {
        let carrier = self.stack.has_carrier();
        if let Some(is_up) = carrier
            && carrier != self.carrier
        {
            self.carrier = carrier;
            self.async_events.push_carrier(is_up);
        }
    }

    fn answer_doorbells(&mut self, now: Instant) {
        let mut taking = Taking::default();
        while let Some(index) = self.doorbells.take_next(&mut taking) {
            self.answer_doorbell(index, now);
        }
    }

    fn answer_doorbell(&mut self, index: usize, now: Instant) {
        let Some(Some(slot)) = self.qps.get_mut(index) else { return };
        self.counters.engine.doorbells += 1;
        if let Some(id) = slot.connection {
            self.turn(id, now);
        } else {
            slot.qp.set_now(now.total_micros().unsigned_abs());
            if slot.qp.is_overrun() && slot.qp.queues().state() == QpState::Idle {
                slot.qp.note(QpNotice::Fatal);
                slot.qp.handle_event(QpEvent::Failed);
            }
        }
        // A turn in Full Operation starts what was posted, and has told of it; in all other states it has to be flushed.
        if let Some(Some(slot)) = self.qps.get_mut(index)
            && slot.qp.queues().state() != QpState::Rts
        {
            slot.qp.flush_if_ended();
            self.announce(Some(index), now);
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some(&(deadline, serial)) = self.deadlines.first() {
            if deadline > now {
                return;
            }
            self.deadlines.pop_first();
            let Some(&id) = self.serials.get(&serial) else { continue };
            if let Some(connection) = self.connections.get_mut(id) {
                connection.deadline = None;
            }
            self.with_connection(id, now, Connection::expire);
        }
    }

    /// When to be polled again, seen from `now`.
    pub(crate) fn poll_at(&self, now: Instant) -> Option<Instant> {
        if self.doorbells.any() || self.stack.has_news() {
            return Some(now);
        }
        let deadline = self.deadlines.first().map(|&(deadline, _)| deadline);
        [self.stack.poll_at(now), deadline, self.notices.next()].into_iter().flatten().min()
    }
}

impl Drop for Engine {
    /// No peer is left to wait for a device that is closed: it hears a reset, as from a host whose process has ended.
    fn drop(&mut self) {
        for id in self.ids_in_order() {
            self.reset(id);
            if let Some(connection) = self.connections.get(id) {
                self.tell_closed(connection);
            }
        }
        self.stack.egress(self.config.clock.now());
    }
}

/// So many slots rest before one is used again: a late event of a destroyed queue pair must not look like one of its
/// successor's.
const QP_REST: usize = 64;
