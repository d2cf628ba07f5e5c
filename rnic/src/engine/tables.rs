//! The state of an engine: its queue pairs, connections and listeners, and what they share.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use weft_mpa::STAGING_LEN;
use weft_netif::{ConnectionId, Instant, Transport};
use weft_verbs::{CqTable, Doorbells, MemoryTable, QueuePair};

use crate::config::Config;
use crate::connection::state::{Connection, Phase, Standing, Turn, Verdict};
use crate::connection::trace::Trace;
use crate::counters::Counters;
use crate::engine::cq::CqShared;
use crate::engine::memory::Memory;
use crate::engine::notices::Notices;
use crate::engine::srq::SrqShared;
use crate::engine::sync_queue::Syncing;
use crate::engine::table::Connections;
use crate::events::asynchronous::AsyncQueue;
use crate::events::channel::Channel;
use crate::events::connection::Notice;
use crate::stream::ending::Stage;
use crate::stream::staging::StagingPool;

/// Everything that an engine consists of. Only the files of this folder see its fields.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Its number among the engines of the device.
    pub(super) index: usize,
    pub(super) stack: Transport,
    pub(super) memory: Memory,
    pub(super) counters: Counters,
    pub(super) qps: Vec<Option<QpSlot>>,
    /// Free slots, the longest free one first, so that numbers do not come back soon.
    pub(super) free_qps: VecDeque<usize>,
    pub(super) connections: Connections,
    pub(super) serials: HashMap<u64, ConnectionId>,
    pub(super) listeners: HashMap<SocketAddr, ListenerSlot>,
    pub(super) config: Config,
    /// Where threads that post ring.
    pub(super) doorbells: Arc<Doorbells>,
    pub(super) async_events: Arc<AsyncQueue>,
    /// Completion queues that queue pairs complete to.
    pub(super) cq_table: Arc<CqTable>,
    pub(super) notices: Notices,
    pub(super) syncing: Syncing,
    pub(super) carrier: Option<bool>,
    /// The last poll has only sent what was posted.
    pub(super) has_sent_first: bool,
    /// Deadlines of connections, with the serials of these.
    pub(super) deadlines: BTreeSet<(Instant, u64)>,
    /// A serial names its engine by the remainder.
    pub(super) last_serial: u64,
    /// The time of the last call.
    pub(super) last_now: Instant,
    pub(super) scratch: Box<[u8]>,
    pub(super) stagings: StagingPool,
}

/// A queue pair, where its completions are announced, and its connection.
#[derive(Debug)]
pub(super) struct QpSlot {
    pub(super) qp: QueuePair,
    pub(super) cqs: [Arc<CqShared>; 2],
    pub(super) srq: Option<Arc<SrqShared>>,
    pub(super) connection: Option<ConnectionId>,
    /// IRD and ORD for a connection whose parameters have none.
    pub(super) depths: [Option<u16>; 2],
}

/// A listener: where its events go, and its connections that have not been answered yet.
#[derive(Debug)]
pub(super) struct ListenerSlot {
    pub(super) events: Option<Arc<Channel<Notice>>>,
    /// What the application calls it in events.
    pub(super) cookie: u64,
    /// Requests that the application has not answered, at most `backlog`.
    pub(super) asking: usize,
    pub(super) backlog: usize,
    /// Connections whose Request has not come.
    pub(super) silent: usize,
    /// The serials of these, the oldest first. Some may have gone on since.
    pub(super) startups: VecDeque<u64>,
    /// Its connections begin in streaming mode.
    pub(super) streaming: bool,
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
            index,
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
            syncing: Syncing::default(),
            has_sent_first: false,
            deadlines: BTreeSet::new(),
            last_serial: index as u64,
            last_now: Instant::ZERO,
            scratch: vec![0; STAGING_LEN].into_boxed_slice(),
            stagings: StagingPool::default(),
        }
    }

    /// The engine's own memory table, where no other engine shares it.
    pub(crate) const fn memory_table(&self) -> &MemoryTable {
        self.memory.own()
    }

    /// The same, to be changed.
    pub(crate) const fn memory_table_mut(&mut self) -> &mut MemoryTable {
        self.memory.own_mut()
    }

    /// Does `act` with a connection, and then what follows: removal, deadlines, announcements.
    pub(super) fn with_connection(
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
            connection.orphan = orphan.filter(|_| matches!(connection.phase, Phase::Full(Stage::Ending(_))));
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
        self.begin_sync(slot, now);
        self.announce(slot, now);
    }

    /// Enters a new connection into the tables.
    pub(super) fn insert(&mut self, mut connection: Connection) {
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

    pub(super) const fn new_serial(&mut self) -> u64 {
        self.last_serial += self.config.engines as u64;
        self.last_serial
    }

    /// Removes a connection. TCP finishes its close by itself.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        if let Some(connection) = self.forget(id) {
            connection.withdraw_request();
            self.tell_closed(&connection);
            self.release(connection.qp);
        }
        self.stack.remove(id);
    }

    /// Takes a connection out of the tables.
    pub(super) fn forget(&mut self, id: ConnectionId) -> Option<Box<Connection>> {
        let connection = self.connections.remove(id)?;
        if let Some(deadline) = connection.deadline {
            self.deadlines.remove(&(deadline, connection.serial));
        }
        self.serials.remove(&connection.serial);
        self.recount(connection.standing(), None);
        Some(connection)
    }

    /// The connections, the oldest first. The table has no order, and the same seed must give the same run to the end.
    pub(super) fn ids_in_order(&self) -> Vec<ConnectionId> {
        let mut ids: Vec<_> = self.connections.values().map(|it| (it.serial, it.llp)).collect();
        ids.sort_unstable_by_key(|&(serial, _)| serial);
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// Ends a connection by RST.
    pub(super) fn reset(&mut self, id: ConnectionId) {
        if let Some(mut llp) = self.stack.llp(id) {
            llp.abort();
        }
    }

    /// Lets a request go on that has taken an STag out of use, when no other engine can be copying from or to its
    /// memory.
    pub(super) fn end_revocation(&mut self, slot: Option<usize>) {
        let Some(index) = slot else { return };
        let Some(Some(slot)) = self.qps.get_mut(index) else { return };
        if slot.qp.is_revoking() {
            self.memory.await_turns();
            slot.qp.end_revocation();
            self.doorbells.ring(index);
        }
    }

    /// Traces that a connection is gone.
    fn tell_closed(&self, connection: &Connection) {
        let slot = connection.qp.and_then(|slot| self.qps.get(slot)?.as_ref());
        let qp = slot.map(|slot| &slot.qp).or(connection.orphan.as_deref());
        connection.trace.closed(qp.map(QueuePair::counters).as_ref());
    }

    /// The queue pair in `slot` has no connection any more.
    fn release(&mut self, slot: Option<usize>) {
        if let Some(Some(slot)) = slot.and_then(|slot| self.qps.get_mut(slot)) {
            slot.connection = None;
        }
    }
}

impl Drop for Engine {
    /// Resets all connections, so that no peer waits for a device that is closed.
    fn drop(&mut self) {
        for id in self.ids_in_order() {
            self.reset(id);
            if let Some(connection) = self.connections.get(id) {
                self.tell_closed(connection);
            }
        }
        self.stack.egress(self.last_now);
    }
}
