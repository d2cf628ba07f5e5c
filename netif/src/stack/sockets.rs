//! The engine on smoltcp's TCP: a socket set for each connection, and what smoltcp does not do.

use core::net::SocketAddr;
use std::collections::VecDeque;

use smoltcp::iface::{Interface, SocketSet};
use smoltcp::time::Instant;

use crate::config::StackConfig;
use crate::counters::{Counters, TcpCounters};
use crate::demux::Demux;
use crate::error::{ConnectError, ListenError};
use crate::frame::Frame;
use crate::iface::interface;
use crate::listen::Listen;
use crate::llp::state::{CloseCause, LlpState};
use crate::ports::Ports;
use crate::slot::Slot;
use crate::table::{ConnectionId, Table};
use crate::wheel::Wheel;
use crate::wire::Wire;

mod asking;
mod connection;
mod egress;
mod ending;
mod ingress;
mod llp;
mod moving;
mod own;
mod sequence;
mod tally;
mod whole;

use connection::Connection;
pub use llp::TcpLlp;
pub(crate) use moving::MovingSocket;

/// A [`Stack`](crate::Stack) on smoltcp's TCP. Its methods are described there.
///
/// Each connection has a socket set of its own behind a table of 4-tuples, since smoltcp walks a whole set for every
/// frame.
pub(crate) struct Sockets {
    wire: Wire,
    config: StackConfig,
    demux: Demux,
    iface: Interface,
    slot: Slot,
    table: Table<Connection>,
    ports: Ports,
    wheel: Wheel,
    dirty: VecDeque<ConnectionId>,
    ready: VecDeque<ConnectionId>,
    accepted: VecDeque<ConnectionId>,
    waiting: Vec<ConnectionId>,
    asking: asking::Asking,
    lingering: VecDeque<ConnectionId>,
    lingering_count: usize,
    looped: VecDeque<Frame>,
    is_loops_turn: bool,
    /// Losses of the wire's other end that were handled so far.
    losses: u64,
    /// Frames that a connection may send in one turn.
    burst: usize,
    /// The socket set for frames of no connection: ARP, NDP, ICMP, and the RST to unknown TCP.
    nobody: SocketSet<'static>,
    counters: Counters,
    tcp: TcpCounters,
}

impl Sockets {
    pub(crate) fn new(wire: Wire, config: StackConfig, now: Instant) -> Self {
        let mut slot = Slot::new(config.mtu, wire.segments());
        let iface = interface(&config, &mut slot, now);
        Self {
            demux: Demux::new(config.mac, config.ip.address),
            ports: Ports::new(&config.ip, config.seed),
            table: Table::new(config.seed),
            wheel: Wheel::new(now),
            wire,
            config,
            iface,
            slot,
            dirty: VecDeque::new(),
            ready: VecDeque::new(),
            accepted: VecDeque::new(),
            waiting: Vec::new(),
            asking: asking::Asking::default(),
            lingering: VecDeque::new(),
            lingering_count: 0,
            looped: VecDeque::new(),
            is_loops_turn: false,
            losses: 0,
            burst: 1,
            nobody: SocketSet::new(Vec::new()),
            counters: Counters::default(),
            tcp: TcpCounters::default(),
        }
    }

    pub(crate) fn bind(&mut self, local: SocketAddr) -> Result<SocketAddr, ListenError> {
        let Self { ports, table, .. } = self;
        ports.bind(local, |port| table.has_local_port(port))
    }

    pub(crate) fn unbind(&mut self, local: SocketAddr) {
        self.ports.unbind(local);
    }

    pub(crate) fn listen(&mut self, listen: Listen) -> Result<SocketAddr, ListenError> {
        let Self { ports, table, .. } = self;
        ports.listen(listen, self.config.backlog, |port| table.has_local_port(port))
    }

    pub(crate) fn unlisten(&mut self, listener: SocketAddr) {
        let Some(port) = self.ports.unlisten(listener) else { return };
        let is_orphan = |id: &ConnectionId| self.table.get(*id).is_some_and(|it| it.listener == Some(port));
        let orphans: Vec<ConnectionId> = self.table.ids().filter(is_orphan).collect();
        for id in orphans {
            let Some(connection) = self.table.get_mut(id) else { continue };
            connection.listener = None;
            connection.is_removed = true;
            connection.abort(CloseCause::Aborted);
            self.lingering_count += 1;
            self.mark_dirty(id);
        }
    }

    pub(crate) fn connect(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        now: Instant,
    ) -> Result<ConnectionId, ConnectError> {
        let Self { ports, table, wire, .. } = self;
        let is_free = |tuple: &_| table.find(tuple).is_none();
        let tuple = ports.choose(remote, local, (is_free, |tuple: &_| wire.owns(tuple)))?;
        let mut connection = Connection::new(tuple, &self.config, self.config.mtu, now);
        let opened = connection.socket_mut().connect(self.iface.context(), tuple.remote, tuple.local);
        opened.map_err(|_| ConnectError::Unaddressable)?;
        connection.observe(now, None);
        let id = self.table.insert(connection);
        self.mark_dirty(id);
        Ok(id)
    }

    pub(crate) fn next_ready(&mut self) -> Option<ConnectionId> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(connection) = self.table.get_mut(id) {
                connection.is_ready = false;
                return Some(id);
            }
        }
        None
    }

    pub(crate) fn next_accepted(&mut self) -> Option<(ConnectionId, SocketAddr)> {
        while let Some(id) = self.accepted.pop_front() {
            let Some(port) = self.table.get_mut(id).and_then(|connection| connection.listener.take()) else {
                continue;
            };
            self.ports.release_place(port);
            self.mark_ready(id);
            return Some((id, SocketAddr::new(self.config.ip.address, port)));
        }
        None
    }

    pub(crate) fn llp(&mut self, id: ConnectionId) -> Option<TcpLlp<'_>> {
        let connection = self.table.get_mut(id).filter(|connection| !connection.is_removed)?;
        if !core::mem::replace(&mut connection.is_dirty, true) {
            // Only a short segment makes the connection wait for the egress after the next. Otherwise a caller that
            // asks again and again would delay it for ever.
            connection.is_urgent = true;
            self.dirty.push_back(id);
        }
        Some(TcpLlp { connection })
    }

    pub(crate) fn state(&self, id: ConnectionId) -> Option<LlpState> {
        let connection = self.table.get(id).filter(|connection| !connection.is_removed)?;
        Some(connection.llp_state())
    }

    pub(crate) fn poll_at(&self, now: Instant) -> Option<Instant> {
        if !self.dirty.is_empty() || !self.looped.is_empty() || self.wire.is_readable() {
            return Some(now);
        }
        [self.wheel.next_deadline(), self.wire.poll_at()].into_iter().flatten().min()
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.ready.is_empty() || !self.accepted.is_empty()
    }

    pub(crate) fn local_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.table.get(id).map(Connection::local)
    }

    pub(crate) fn peer_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.table.get(id).map(Connection::remote)
    }

    pub(crate) const fn wire_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }

    pub(crate) const fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(crate) const fn config(&self) -> &StackConfig {
        &self.config
    }

    pub(crate) const fn counters(&self) -> Counters {
        let (connections, lingering) = (self.table.len() as u64, self.lingering_count as u64);
        Counters { connections, lingering, ..self.counters }
    }

    pub(crate) const fn tcp_counters(&self) -> TcpCounters {
        self.tcp
    }

    /// Has the next egress look at the connection.
    fn mark_dirty(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id) {
            connection.is_urgent = true;
        }
        self.mark_touched(id);
    }

    /// Has the next egress look at the connection if it becomes urgent until then, otherwise the egress after that.
    /// So the acknowledgement of a short message goes with its answer.
    fn mark_touched(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id).filter(|connection| !connection.is_dirty) {
            connection.is_dirty = true;
            self.dirty.push_back(id);
        }
    }

    fn mark_ready(&mut self, id: ConnectionId) {
        let is_users = |connection: &&mut Connection| connection.listener.is_none() && !connection.is_removed;
        if let Some(connection) = self.table.get_mut(id).filter(is_users).filter(|it| !it.is_ready) {
            connection.is_ready = true;
            self.ready.push_back(id);
        }
    }
}
