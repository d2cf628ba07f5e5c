//! The TCP/IP of this process, on one wire.

use core::net::SocketAddr;
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::BorrowedFd;

use smoltcp::iface::{Config, Interface, Route, SocketSet};
use smoltcp::time::Instant;
use smoltcp::wire::EthernetAddress;

use crate::config::StackConfig;
use crate::connection::Connection;
use crate::counters::{Counters, TcpCounters};
use crate::demux::{Demux, Tuple};
use crate::error::{ConnectError, ListenError};
use crate::frame::Frame;
use crate::ip::{IpSetting, is_station, to_cidr};
use crate::listen::Listen;
use crate::llp::state::{CloseCause, LlpState};
use crate::llp::{Llp, TcpLlp};
use crate::random::Random;
use crate::slot::Slot;
use crate::table::{ConnectionId, Table};
use crate::wheel::Wheel;
use crate::wire::Wire;

mod asking;
mod egress;
mod ending;
mod ingress;
mod moving;

pub use moving::Moving;

/// A user-space TCP/IP on one wire, with one address.
///
/// A driver calls its methods in this order:
///
/// 1. [`ingress`](Self::ingress) takes frames off the wire.
/// 2. [`next_accepted`](Self::next_accepted) and [`next_ready`](Self::next_ready) tell what happened, until they return
///    `None`.
/// 3. [`llp`](Self::llp) and the commands (`listen`, `connect`, `remove`) act.
/// 4. [`egress`](Self::egress) sends.
/// 5. [`poll_at`](Self::poll_at) and [`poll_fd`](Self::poll_fd) say how long to sleep.
///
/// Each connection has a socket set of its own behind a table of 4-tuples, since smoltcp walks a whole set for every
/// frame. So the cost of a call grows with the connections that have work, not with all that exist.
pub struct Stack {
    wire: Wire,
    config: StackConfig,
    demux: Demux,
    iface: Interface,
    slot: Slot,
    table: Table,
    listeners: HashMap<u16, Listener>,
    /// Ports that are kept for callers that have bound them.
    bound: HashSet<u16>,
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
    random: Random,
    counters: Counters,
    tcp: TcpCounters,
}

/// A listening port.
#[derive(Debug)]
struct Listener {
    backlog: usize,
    /// The number of connections that count against the backlog.
    waiting: usize,
}

impl Stack {
    /// Makes a stack on `wire`. The stack's MTU is the smaller one of the wire's and the setting's.
    ///
    /// # Panics
    /// If [`StackConfig::validate`] refuses `config`, or the wire's MTU is too small for IPv6.
    #[must_use]
    pub fn new(wire: Wire, config: StackConfig, now: Instant) -> Self {
        let config = StackConfig { mtu: config.mtu.min(wire.mtu()), ..config };
        if let Err(error) = config.validate() {
            panic!("stack configuration: {error}");
        }
        let mut slot = Slot::new(config.mtu, wire.segments());
        let mut settings = Config::new(EthernetAddress(config.mac).into());
        settings.random_seed = config.seed;
        let mut iface = Interface::new(settings, &mut slot, now);
        set_addresses(&mut iface, &config.ip);
        Self {
            demux: Demux::new(config.mac, config.ip.address),
            random: Random::new(config.seed),
            table: Table::new(config.seed),
            wheel: Wheel::new(now),
            wire,
            config,
            iface,
            slot,
            listeners: HashMap::new(),
            bound: HashSet::new(),
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

    /// Reserves a port, or a free one for 0, until [`Stack::unbind`]. The port cannot be bound again, nor be chosen
    /// as an ephemeral one. A caller that names the returned address may listen on it and connect from it.
    ///
    /// # Errors
    /// If the address is not the own one, or the port is bound or listened on already.
    pub fn bind(&mut self, local: SocketAddr) -> Result<SocketAddr, ListenError> {
        let mut local = self.own(local).ok_or(ListenError::AddrNotAvailable)?;
        if local.port() == 0 {
            local.set_port(self.free_port()?);
        }
        if self.listeners.contains_key(&local.port()) || !self.bound.insert(local.port()) {
            return Err(ListenError::AddrInUse);
        }
        Ok(local)
    }

    /// Frees the port that [`Stack::bind`] reserved. Its listeners and connections go on.
    pub fn unbind(&mut self, local: SocketAddr) {
        if self.own(local).is_some() {
            self.bound.remove(&local.port());
        }
    }

    /// Accepts connections to a port from now on. [`Stack::next_accepted`] returns them. Returns the address and
    /// port, which name the listener.
    ///
    /// # Errors
    /// If the address is not the own one, or the port is listened on already.
    pub fn listen(&mut self, listen: impl Into<Listen>) -> Result<SocketAddr, ListenError> {
        let listen = listen.into();
        let mut local = self.own(listen.wanted()).ok_or(ListenError::AddrNotAvailable)?;
        if listen.port == 0 {
            local.set_port(self.free_port()?);
        }
        if self.listeners.contains_key(&local.port()) {
            return Err(ListenError::AddrInUse);
        }
        let backlog = listen.backlog.unwrap_or(self.config.backlog).max(1);
        self.listeners.insert(local.port(), Listener { backlog, waiting: 0 });
        Ok(local)
    }

    /// Stops listening. Connections that were not taken yet are reset.
    pub fn unlisten(&mut self, listener: SocketAddr) {
        let port = listener.port();
        if self.own(listener).is_none() || self.listeners.remove(&port).is_none() {
            return;
        }
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

    /// Begins a connection to `remote` from `local`. There, an unspecified address or `None` means the own address,
    /// and port 0 or `None` an ephemeral port. The connection is ready when it is established or has failed.
    ///
    /// # Errors
    /// If an address or port is wrong, cannot be reached, or is in use.
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        now: Instant,
    ) -> Result<ConnectionId, ConnectError> {
        if remote.port() == 0 || !is_station(remote.ip()) {
            return Err(ConnectError::Unaddressable);
        }
        if remote.is_ipv4() != self.config.ip.address.is_ipv4() {
            return Err(ConnectError::FamilyMismatch);
        }
        if !self.config.ip.reaches(remote.ip()) {
            return Err(ConnectError::Unroutable);
        }
        if local.is_some_and(|local| self.own(local).is_none()) {
            return Err(ConnectError::AddrNotAvailable);
        }
        let remote = SocketAddr::new(remote.ip(), remote.port());
        let local_port = local.map(|local| local.port()).filter(|&port| port != 0);
        let tuple = self.choose_tuple(remote, local_port)?;
        let mut connection = Connection::new(tuple, &self.config, self.config.mtu, now);
        let opened = connection.socket_mut().connect(self.iface.context(), tuple.remote, tuple.local);
        opened.map_err(|_| ConnectError::Unaddressable)?;
        connection.observe(now, None);
        let id = self.table.insert(connection);
        self.mark_dirty(id);
        Ok(id)
    }

    /// Returns the next connection whose readability, room or state may have changed since it was returned here last.
    pub fn next_ready(&mut self) -> Option<ConnectionId> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(connection) = self.table.get_mut(id) {
                connection.is_ready = false;
                return Some(id);
            }
        }
        None
    }

    /// Returns the next established connection to a listening port, and the name of the listener. The connection is
    /// also in `next_ready`.
    pub fn next_accepted(&mut self) -> Option<(ConnectionId, SocketAddr)> {
        while let Some(id) = self.accepted.pop_front() {
            let Some(port) = self.table.get_mut(id).and_then(|connection| connection.listener.take()) else {
                continue;
            };
            self.release_backlog(port);
            self.mark_ready(id);
            return Some((id, SocketAddr::new(self.config.ip.address, port)));
        }
        None
    }

    /// Returns the byte streams of a connection, and marks it for the next egress. `None` if the id names no connection
    /// any more.
    pub fn llp(&mut self, id: ConnectionId) -> Option<Llp<'_>> {
        let connection = self.table.get_mut(id).filter(|connection| !connection.is_removed)?;
        if !core::mem::replace(&mut connection.is_dirty, true) {
            // Only a short segment makes the connection wait for the egress after the next. Otherwise a caller that
            // asks again and again would delay it for ever.
            connection.is_urgent = true;
            self.dirty.push_back(id);
        }
        Some(Llp::Tcp(TcpLlp { connection }))
    }

    /// Returns the state of a connection, without marking it. `None` as for [`Stack::llp`].
    #[must_use]
    pub fn state(&self, id: ConnectionId) -> Option<LlpState> {
        let connection = self.table.get(id).filter(|connection| !connection.is_removed)?;
        Some(connection.llp_state())
    }

    /// Returns the time for the next [`Stack::ingress`] and [`Stack::egress`], if the device does not become readable
    /// before. That is `now` if there is work. Connections that wait in `next_ready` and `next_accepted` do not
    /// count; see [`Stack::has_news`].
    #[must_use]
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        if !self.dirty.is_empty() || !self.looped.is_empty() || self.wire.is_readable() {
            return Some(now);
        }
        [self.wheel.next_deadline(), self.wire.poll_at()].into_iter().flatten().min()
    }

    /// Returns true if `next_ready` or `next_accepted` may return a connection. Also an egress can change this, as it
    /// may find that a peer is gone.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.ready.is_empty() || !self.accepted.is_empty()
    }

    /// Returns the descriptor that becomes readable when a frame arrives; see [`Wire::poll_fd`].
    #[must_use]
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.wire.poll_fd()
    }

    /// Returns the own end of a connection.
    #[must_use]
    pub fn local_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.table.get(id).map(Connection::local)
    }

    /// Returns the peer's end of a connection.
    #[must_use]
    pub fn peer_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.table.get(id).map(Connection::remote)
    }

    /// Returns the wire, for its counters and its capture.
    pub const fn wire_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// Returns the wire.
    #[must_use]
    pub const fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Returns the address setting.
    #[must_use]
    pub const fn ip(&self) -> &IpSetting {
        &self.config.ip
    }

    /// Returns the settings, with the MTU in effect.
    #[must_use]
    pub const fn config(&self) -> &StackConfig {
        &self.config
    }

    /// Returns the counters of the stack.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        let (connections, lingering) = (self.table.len() as u64, self.lingering_count as u64);
        Counters { connections, lingering, ..self.counters }
    }

    /// Returns the counters of TCP.
    #[must_use]
    pub const fn tcp_counters(&self) -> TcpCounters {
        self.tcp
    }

    /// Returns `local` with the own address; `None` if it names another one.
    fn own(&self, local: SocketAddr) -> Option<SocketAddr> {
        let own = self.config.ip.address;
        (local.ip().is_unspecified() || local.ip() == own).then(|| SocketAddr::new(own, local.port()))
    }

    /// Returns a port that is not listened on, bound or connected from.
    fn free_port(&mut self) -> Result<u16, ListenError> {
        let is_free = |port: &u16| {
            !self.listeners.contains_key(port)
                && !self.bound.contains(port)
                && !self.table.has_local_port(*port)
        };
        ephemeral_ports(&mut self.random).find(is_free).ok_or(ListenError::NoPortFree)
    }

    fn choose_tuple(&mut self, remote: SocketAddr, local_port: Option<u16>) -> Result<Tuple, ConnectError> {
        let address = self.config.ip.address;
        let mut ports = ephemeral_ports(&mut self.random);
        let tuple = |port| Tuple { local: SocketAddr::new(address, port), remote };
        // The peer of a connection to this station is here too, and its tuple must be free as well.
        let is_free = |port| {
            let mirror = Tuple { local: remote, remote: tuple(port).local };
            tuple(port).local != remote
                && self.wire.owns(&tuple(port))
                && !self.listeners.contains_key(&port)
                && self.table.find(&tuple(port)).is_none()
                && (remote.ip() != address || self.table.find(&mirror).is_none())
        };
        if let Some(port) = local_port {
            return if is_free(port) { Ok(tuple(port)) } else { Err(ConnectError::AddrInUse) };
        }
        let mut unbound = ports.by_ref().filter(|port| !self.bound.contains(port));
        unbound.find(|&port| is_free(port)).map(tuple).ok_or(ConnectError::NoPortFree)
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

    fn release_backlog(&mut self, port: u16) {
        if let Some(listener) = self.listeners.get_mut(&port) {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }
}

impl core::fmt::Debug for Stack {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { config, wire, .. } = self;
        let (ip, counters) = (&config.ip, self.counters());
        f.debug_struct("Stack")
            .field("ip", ip)
            .field("wire", wire)
            .field("counters", &counters)
            .finish_non_exhaustive()
    }
}

/// Returns all ephemeral ports, beginning with a drawn one.
fn ephemeral_ports(random: &mut Random) -> impl Iterator<Item = u16> + use<> {
    let start = u16::try_from(random.below(u64::from(EPHEMERAL_COUNT))).unwrap_or(0);
    (0..EPHEMERAL_COUNT).map(move |step| EPHEMERAL_FIRST + (start + step) % EPHEMERAL_COUNT)
}

fn set_addresses(iface: &mut Interface, ip: &IpSetting) {
    // A validated setting fits into smoltcp's lists.
    iface.update_ip_addrs(|addresses| addresses.extend([to_cidr(ip.address, ip.prefix)]));
    let route = |net, prefix, via: core::net::IpAddr| Route {
        cidr: to_cidr(net, prefix),
        via_router: via.into(),
        preferred_until: None,
        expires_at: None,
    };
    let any = if ip.address.is_ipv4() {
        core::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        core::net::Ipv6Addr::UNSPECIFIED.into()
    };
    iface.routes_mut().update(|routes| {
        routes.extend(ip.gateways.iter().map(|gateway| route(any, 0, *gateway)));
        routes.extend(ip.routes.iter().map(|it| route(it.net, it.prefix, it.via)));
    });
}

/// RFC 6335 section 6.
const EPHEMERAL_FIRST: u16 = 49_152;
const EPHEMERAL_COUNT: u16 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver thread owns the stack that it drives.
    #[test]
    fn a_stack_can_be_sent_to_another_thread() {
        const fn is_send<T: Send>() {}
        is_send::<Stack>();
        is_send::<Wire>();
    }
}
