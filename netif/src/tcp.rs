//! The engine on Weft's own TCP.
//!
//! ```text
//! connection       one connection: the protocol (`weft-tcp`), frames to send, frames that were received
//! frame held pool  frames until they are acknowledged, frames until they are read, free buffers
//! neighbor icmp    MAC addresses, errors about what was sent
//! records timers   half-open connections and those in TIME-WAIT, deadlines
//! line             the wire, and frames to the own address
//! arrived ingress  segments of connections
//! opening          segments of none
//! egress ending    turns of connections, and their end
//! ```

use core::net::SocketAddr;
use std::collections::VecDeque;

use smoltcp::iface::{Interface, SocketSet};
use smoltcp::time::Instant;
use weft_tcp::{Config, Micros, Secret, SynCookies, Template};

use crate::config::{Congestion, StackConfig};
use crate::counters::{Counters, TcpCounters};
use crate::demux::Tuple;
use crate::error::{ConnectError, ListenError};
use crate::frame::Frame;
use crate::iface::interface;
use crate::listen::Listen;
use crate::llp::state::{CloseCause, LlpState};
use crate::ports::Ports;
use crate::slot::Slot;
use crate::table::{ConnectionId, Table};
use crate::wire::Wire;

mod arrived;
mod connection;
mod egress;
mod ending;
mod frame;
mod held;
mod icmp;
mod ingress;
mod line;
mod llp;
mod neighbor;
mod opening;
mod pool;
mod records;
mod timers;

use connection::{Connection, Tcp};
pub(crate) use ending::MovingOwn;
use line::Line;
pub use llp::OwnLlp;
use neighbor::Neighbors;
use pool::Pool;
use records::{Half, Records, Waiting};
use timers::{Timers, instant, micros};

/// A [`Stack`](crate::Stack) on Weft's own TCP. Its methods are described there.
pub(crate) struct Own {
    line: Line,
    config: StackConfig,
    settings: Config,
    /// The most octets of a frame that the device cuts into segments, if it does.
    longest: Option<usize>,
    secret: Secret,
    cookies: SynCookies,
    iface: Interface,
    slot: Slot,
    /// The socket set for frames of no connection: ARP, NDP and ICMP.
    nobody: SocketSet<'static>,
    neighbors: Neighbors,
    pool: Pool,
    incoming: Frame,
    table: Table<Connection>,
    ports: Ports,
    halves: Records<Half>,
    waits: Records<Waiting>,
    timers: Timers,
    dirty: VecDeque<ConnectionId>,
    ready: VecDeque<ConnectionId>,
    accepted: VecDeque<ConnectionId>,
    /// Connections that wait for a neighbor's address.
    blocked: Vec<ConnectionId>,
    lingering: VecDeque<ConnectionId>,
    lingering_count: usize,
    /// The time of the last call.
    now: Micros,
    counters: Counters,
    tcp: TcpCounters,
}

impl Own {
    pub(crate) fn new(wire: Wire, config: StackConfig, now: Instant) -> Self {
        let mut slot = Slot::new(config.mtu, false);
        let iface = interface(&config, &mut slot, now);
        let is_v4 = config.ip.address.is_ipv4();
        let longest = (wire.segments() && is_v4).then_some(LONGEST_FRAME);
        let frame = longest.unwrap_or(0).max(config.mtu + Template::MAX_LEN);
        Self {
            settings: settings(&config, wire.is_memory()),
            longest,
            secret: Secret::new(wire.key(config.seed)),
            cookies: SynCookies::new(),
            iface,
            slot,
            nobody: SocketSet::new(Vec::new()),
            neighbors: Neighbors::new(config.mac, config.ip.address),
            pool: Pool::new(frame),
            incoming: Frame::default(),
            table: Table::new(config.seed),
            ports: Ports::new(&config.ip, config.seed),
            halves: Records::new(config.seed),
            waits: Records::new(config.seed),
            timers: Timers::new(now),
            dirty: VecDeque::new(),
            ready: VecDeque::new(),
            accepted: VecDeque::new(),
            blocked: Vec::new(),
            lingering: VecDeque::new(),
            lingering_count: 0,
            now: micros(now),
            counters: Counters::default(),
            tcp: TcpCounters::default(),
            line: Line::new(wire, &config),
            config,
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
        let orphans = self.halves.take_all(|_, half| half.port == port).len();
        self.tcp.failed += orphans as u64;
        let is_orphan = |id: &ConnectionId| self.table.get(*id).is_some_and(|it| it.listener == Some(port));
        let orphans: Vec<ConnectionId> = self.table.ids().filter(is_orphan).collect();
        for id in orphans {
            let Some(connection) = self.table.get_mut(id) else { continue };
            connection.listener = None;
            connection.is_removed = true;
            connection.abort(CloseCause::Aborted, &mut self.pool, self.now);
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
        self.now = micros(now);
        let Self { ports, table, halves, waits, line, .. } = self;
        let is_free =
            |tuple: &_| table.find(tuple).is_none() && !halves.contains(tuple) && !waits.contains(tuple);
        let tuple = ports.choose(remote, local, (is_free, |tuple: &_| line.wire.owns(tuple)))?;
        let ends = ends(&tuple);
        let (iss, offset) = (self.secret.isn(&ends, self.now), self.secret.timestamp_offset(&ends));
        let tcp = Tcp::connect(&self.settings, iss, offset, (Vec::new(), Vec::new()), self.now);
        let connection = self.connection(tuple, tcp).ok_or(ConnectError::FamilyMismatch)?;
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

    pub(crate) fn llp(&mut self, id: ConnectionId) -> Option<OwnLlp<'_>> {
        let connection = self.table.get_mut(id).filter(|connection| !connection.is_removed)?;
        if !core::mem::replace(&mut connection.is_dirty, true) {
            // Only a short segment makes the connection wait for the egress after the next. Otherwise a caller that
            // asks again and again would delay it for ever.
            connection.is_urgent = true;
            self.dirty.push_back(id);
        }
        Some(OwnLlp { connection, pool: &mut self.pool, now: self.now })
    }

    pub(crate) fn state(&self, id: ConnectionId) -> Option<LlpState> {
        let connection = self.table.get(id).filter(|connection| !connection.is_removed)?;
        Some(connection.state())
    }

    pub(crate) fn poll_at(&self, now: Instant) -> Option<Instant> {
        if !self.dirty.is_empty() || self.line.is_readable() {
            return Some(now);
        }
        let records = [self.halves.next_due(), self.waits.next_due()].into_iter().flatten().min();
        let own = [self.timers.next_deadline(), records.map(instant), self.line.wire.poll_at()];
        own.into_iter().flatten().min()
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.ready.is_empty() || !self.accepted.is_empty()
    }

    pub(crate) fn local_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.table.get(id).map(|connection| connection.tuple.local)
    }

    pub(crate) fn peer_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.table.get(id).map(|connection| connection.tuple.remote)
    }

    pub(crate) const fn wire_mut(&mut self) -> &mut Wire {
        &mut self.line.wire
    }

    pub(crate) const fn wire(&self) -> &Wire {
        &self.line.wire
    }

    pub(crate) const fn config(&self) -> &StackConfig {
        &self.config
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters {
            connections: (self.table.len() + self.halves.len()) as u64,
            lingering: self.lingering_count as u64,
            frames_out: self.line.frames_out,
            looped: self.line.loops,
            loop_overflows: self.line.loop_overflows,
            ..self.counters
        }
    }

    pub(crate) const fn tcp_counters(&self) -> TcpCounters {
        self.tcp
    }

    /// Returns a connection with this protocol, or nothing if its ends have addresses of different families.
    fn connection(&self, tuple: Tuple, tcp: Tcp) -> Option<Connection> {
        let template = Template::new((self.config.mac, [0; 6]), &ends(&tuple))?;
        let least = self.config.tcp_buffer;
        let most = usize::try_from(self.settings.receive.window_max).map_or(least, |most| most.max(least));
        Some(Connection::new(tuple, tcp, template, least..=most))
    }

    /// Has the next egress look at the connection.
    fn mark_dirty(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.is_urgent = true;
        if !core::mem::replace(&mut connection.is_dirty, true) {
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

/// Returns the settings of connections. On memory both ends answer at once, so that all times are shorter.
fn settings(config: &StackConfig, is_memory: bool) -> Config {
    let mtu = u16::try_from(config.mtu).unwrap_or(u16::MAX);
    let mut settings = Config::new(mtu, config.ip.address.is_ipv6());
    let buffer = u32::try_from(config.tcp_buffer).unwrap_or(u32::MAX);
    let span = |span: smoltcp::time::Duration| Micros(span.total_micros());
    settings.timeout = config.timeout.map(span);
    settings.keep_alive = config.keep_alive.map(span);
    // Nothing is far away on memory.
    let growth = if is_memory { 1 } else { u32::try_from(config.tcp_growth).unwrap_or(u32::MAX).max(1) };
    settings.receive.window_max = buffer.saturating_mul(growth).min(LARGEST_WINDOW);
    settings.receive.window = settings.receive.window.min(buffer);
    settings.receive.ack_delay = config.ack_delay.map_or(Micros(0), span).min(LONGEST_ACK_DELAY);
    settings.send.control = match config.congestion {
        Congestion::Cubic => weft_tcp::Control::Cubic,
        Congestion::None => weft_tcp::Control::None(buffer),
    };
    if is_memory {
        settings.receive.ack_delay = settings.receive.ack_delay.min(Micros::from_millis(1));
        settings.send.peer_ack_delay = Micros::from_millis(2);
        settings.send.rto_min = Micros::from_millis(4);
    }
    settings
}

/// Returns the ends of a connection as the protocol has them.
const fn ends(tuple: &Tuple) -> weft_tcp::Tuple {
    weft_tcp::Tuple { local: tuple.local, remote: tuple.remote }
}

/// The largest window of TCP (RFC 7323 section 2.3).
const LARGEST_WINDOW: u32 = 1 << 30;
/// RFC 9293 section 3.8.6.3.
const LONGEST_ACK_DELAY: Micros = Micros::from_millis(500);
/// AF_PACKET takes no frames of 64 KiB and more with their headers.
const LONGEST_FRAME: usize = 65_500;
