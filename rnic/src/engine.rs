//! The motion: one object that moves everything when it is polled.
//!
//! `poll(now) -> Option<Instant>` takes frames off the wire, gives every connection with news its turn, sends, and says
//! when it wants to be called again. It reads no clock and draws no random number. Who calls it is the driver's matter.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use weft_mpa::{Responder, STAGING_LEN};
use weft_netif::{ConnectionId, Instant, Stack, Wire};
use weft_verbs::{MemoryTable, PdId, QpEvent, QueuePair};

use crate::channel::Channel;
use crate::cm::{CmEvent, StreamRequest, StreamingId};
use crate::config::Config;
use crate::connection::{Connection, Phase, Turn, Verdict};
use crate::counters::Counters;
use crate::cq::CqShared;
use crate::doorbell::Doorbells;
use crate::preamble::{Hold, Interest};

/// Everything that a device consists of, behind the device's lock.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) stack: Stack,
    pub(crate) memory: MemoryTable,
    pub(crate) counters: Counters,
    pub(crate) qps: Vec<Option<QpSlot>>,
    /// Free slots, the one that has been free for the longest time first, so that numbers do not come back soon.
    free_qps: VecDeque<usize>,
    pub(crate) connections: HashMap<ConnectionId, Connection>,
    pub(crate) serials: HashMap<u64, ConnectionId>,
    pub(crate) listeners: HashMap<u16, ListenerSlot>,
    pub(crate) config: Config,
    doorbells: Arc<Doorbells>,
    /// Deadlines and the serials of the connections they belong to.
    deadlines: BTreeSet<(Instant, u64)>,
    next_serial: u64,
    scratch: Box<[u8]>,
}

/// A queue pair, where its completions are announced, and its connection.
#[derive(Debug)]
pub(crate) struct QpSlot {
    pub(crate) qp: QueuePair,
    pub(crate) cqs: [Arc<CqShared>; 2],
    pub(crate) connection: Option<ConnectionId>,
}

/// A listened-on port: where its events go, and how many of its connections have not been answered yet.
#[derive(Debug)]
pub(crate) struct ListenerSlot {
    pub(crate) events: Arc<Channel<CmEvent>>,
    pub(crate) unanswered: usize,
    /// Its connections begin in streaming mode.
    pub(crate) streaming: bool,
}

impl Engine {
    pub(crate) fn new(wire: Wire, config: Config, doorbells: Arc<Doorbells>) -> Self {
        let now = config.clock.now();
        Self {
            stack: Stack::new(wire, config.stack.clone(), now),
            memory: MemoryTable::new(config.stack.seed),
            counters: Counters::default(),
            qps: Vec::new(),
            free_qps: VecDeque::new(),
            connections: HashMap::new(),
            serials: HashMap::new(),
            listeners: HashMap::new(),
            config,
            doorbells,
            deadlines: BTreeSet::new(),
            next_serial: 0,
            scratch: vec![0; STAGING_LEN].into_boxed_slice(),
        }
    }

    /// Moves everything as far as it goes at `now`, and answers when to be called again at the latest; `None` means that
    /// only a frame or a doorbell can bring news.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Instant> {
        self.stack.ingress(now);
        while let Some((id, port)) = self.stack.next_accepted() {
            self.handle_accepted(id, port, now);
        }
        while let Some(id) = self.stack.next_ready() {
            self.turn(id, now);
        }
        self.answer_doorbells(now);
        self.expire(now);
        self.stack.egress(now);
        self.poll_at(now)
    }

    /// A descriptor to sleep on until a frame comes, and whether it is also to become writable. It is a copy, since the
    /// wire may change its own while somebody sleeps, as a listening one does.
    pub(crate) fn wire_fd(&self) -> Option<(OwnedFd, bool)> {
        let fd = self.stack.poll_fd()?.try_clone_to_owned().ok()?;
        Some((fd, self.stack.wire().wants_write()))
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

    /// Forgets a queue pair, and resets its connection unless that is ending already.
    pub(crate) fn destroy_qp(&mut self, slot: usize) {
        let Some(gone) = self.qps.get_mut(slot).and_then(Option::take) else { return };
        self.free_qps.push_back(slot);
        let Some(id) = gone.connection else { return };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.qp = None;
        connection.ended = None;
        match &mut connection.phase {
            // The application has heard the end and lets go; the Terminate or FIN still has to arrive. Memory is not touched
            // any more in the name of a queue pair that is not there.
            Phase::Ending(stream) => {
                stream.abandon_answers();
                connection.orphan = Some(Box::new(gone.qp));
            }
            Phase::Draining => {}
            _ => {
                self.reset(id);
                self.remove(id);
            }
        }
    }

    /// The protection domain of the queue pair in `slot`.
    pub(crate) fn pd_of(&self, slot: usize) -> Option<PdId> {
        self.qps.get(slot)?.as_ref().map(|slot| slot.qp.pd())
    }

    /// Takes a new connection into the table.
    pub(crate) fn insert(&mut self, connection: Connection) {
        if let Some(deadline) = connection.deadline {
            self.deadlines.insert((deadline, connection.serial));
        }
        self.serials.insert(connection.serial, connection.llp);
        self.connections.insert(connection.llp, connection);
    }

    pub(crate) const fn new_serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
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
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (before, serial) = (connection.deadline, connection.serial);
        let unanswered = connection.unanswered_port();
        let slot = connection.qp;
        let verdict = {
            let Some(llp) = self.stack.llp(id) else { return };
            let mut orphan = connection.orphan.take();
            let qp = slot.and_then(|slot| self.qps.get_mut(slot)?.as_mut()).map(|slot| &mut slot.qp);
            let mut turn = Turn {
                llp,
                qp: qp.or(orphan.as_deref_mut()),
                memory: &self.memory,
                counters: &mut self.counters,
                scratch: &mut self.scratch,
                tcp_buffer: self.config.stack.tcp_buffer,
                max_reads: self.config.max_reads,
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
        let answered = unanswered.filter(|_| connection.unanswered_port().is_none());
        if before != after {
            if let Some(deadline) = before {
                self.deadlines.remove(&(deadline, serial));
            }
            if let Some(deadline) = after {
                self.deadlines.insert((deadline, serial));
            }
        }
        if let Some(port) = answered {
            self.count_answered(port);
        }
        if owner != slot {
            self.release(slot);
        }
        if verdict == Verdict::Remove {
            self.remove(id);
        }
        self.announce(slot);
    }

    /// Forgets a connection; TCP finishes its close by itself.
    pub(crate) fn remove(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id) {
            if let Some(deadline) = connection.deadline {
                self.deadlines.remove(&(deadline, connection.serial));
            }
            self.serials.remove(&connection.serial);
            if let Some(port) = connection.unanswered_port() {
                self.count_answered(port);
            }
            connection.withdraw_request();
            self.release(connection.qp);
        }
        self.stack.remove(id);
    }

    /// Tells the completion channels of a queue pair what is due.
    pub(crate) fn announce(&self, slot: Option<usize>) {
        let Some(Some(slot)) = slot.and_then(|slot| self.qps.get(slot)) else { return };
        for cq in &slot.cqs {
            cq.announce();
            if cq.is_newly_overrun() {
                self.ring_users(cq);
            }
        }
    }

    /// Has all queue pairs of an overrun completion queue looked at, so that they come down with it.
    fn ring_users(&self, cq: &Arc<CqShared>) {
        for (index, slot) in self.qps.iter().enumerate() {
            if slot.as_ref().is_some_and(|slot| slot.cqs.iter().any(|used| Arc::ptr_eq(used, cq))) {
                self.doorbells.ring(index);
            }
        }
    }

    /// Ends a connection by RST.
    fn reset(&mut self, id: ConnectionId) {
        if let Some(mut llp) = self.stack.llp(id) {
            llp.abort();
        }
    }

    /// One connection fewer of `port` waits for an answer.
    fn count_answered(&mut self, port: u16) {
        if let Some(listener) = self.listeners.get_mut(&port) {
            // A port that was listened on anew starts at none, whatever its predecessor left behind.
            listener.unanswered = listener.unanswered.saturating_sub(1);
        }
    }

    /// The queue pair in `slot` has no connection any more.
    fn release(&mut self, slot: Option<usize>) {
        if let Some(Some(slot)) = slot.and_then(|slot| self.qps.get_mut(slot)) {
            slot.connection = None;
        }
    }

    fn handle_accepted(&mut self, id: ConnectionId, port: u16, now: Instant) {
        let backlog = self.config.stack.backlog;
        let listener = self.listeners.get_mut(&port).filter(|listener| listener.unanswered < backlog);
        let (Some(listener), Some(peer)) = (listener, self.stack.peer_addr(id)) else {
            self.reset(id);
            self.stack.remove(id);
            return;
        };
        listener.unanswered += 1;
        let events = Arc::clone(&listener.events);
        let streaming = listener.streaming;
        let serial = self.new_serial();
        let (phase, hold, patience) = if streaming {
            events.push(CmEvent::StreamRequest(StreamRequest { id: StreamingId(serial), port, peer }));
            (Phase::Streaming(Interest::default()), Hold::Untaken, self.config.answer_timeout)
        } else {
            let responder = Responder::new(self.config.mpa);
            (Phase::AwaitingRequest(responder), Hold::Never, self.config.startup_timeout)
        };
        self.insert(Connection {
            port,
            hold,
            deadline: Some(now + patience),
            ..Connection::new(id, serial, phase, events, peer)
        });
        self.turn(id, now);
    }

    fn answer_doorbells(&mut self, now: Instant) {
        let doorbells = Arc::clone(&self.doorbells);
        doorbells.take(|index| {
            let Some(Some(slot)) = self.qps.get_mut(index) else { return };
            match slot.connection {
                Some(id) => self.turn(id, now),
                None => {
                    slot.qp.set_now(now.total_micros().unsigned_abs());
                    if slot.qp.is_overrun() {
                        slot.qp.handle_event(QpEvent::Failed);
                    }
                }
            }
            if let Some(Some(slot)) = self.qps.get_mut(index) {
                // A turn in Full Operation starts what was posted; in all later states it has to be flushed.
                slot.qp.flush_if_ended();
            }
            self.announce(Some(index));
        });
    }

    fn expire(&mut self, now: Instant) {
        while let Some(&(deadline, serial)) = self.deadlines.first() {
            if deadline > now {
                return;
            }
            self.deadlines.pop_first();
            let Some(&id) = self.serials.get(&serial) else { continue };
            if let Some(connection) = self.connections.get_mut(&id) {
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
        [self.stack.poll_at(now), deadline].into_iter().flatten().min()
    }
}

impl Drop for Engine {
    /// No peer is left to wait for a device that is closed: it hears a reset, as from a host whose process has ended.
    fn drop(&mut self) {
        let mut ids: Vec<_> = self.connections.values().map(|it| (it.serial, it.llp)).collect();
        // The table has no order of its own, and the same seeds are to give the same run to the end.
        ids.sort_unstable_by_key(|&(serial, _)| serial);
        for (_, id) in ids {
            self.reset(id);
        }
        self.stack.egress(self.config.clock.now());
    }
}

/// So many slots rest before one is used again: a late event of a destroyed queue pair must not look like one of its
/// successor's.
const QP_REST: usize = 64;
