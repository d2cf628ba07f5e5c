use core::net::SocketAddr;
use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;

use smoltcp::iface::{Config, Interface, Route, SocketSet};
use smoltcp::time::Instant;
use smoltcp::wire::EthernetAddress;

use crate::config::StackConfig;
use crate::connection::{CloseCause, Connection};
use crate::demux::{Demux, Tuple};
use crate::error::{ConnectError, ListenError};
use crate::ip::{IpSetting, is_station, to_cidr};
use crate::llp::{Llp, LlpState, TcpLlp};
use crate::random::Random;
use crate::slot::Slot;
use crate::table::{ConnectionId, Table};
use crate::wheel::Wheel;
use crate::wire::Wire;

mod asking;
mod egress;
mod ingress;

/// A user-space TCP/IP on one wire, with one address.
///
/// Its methods come in four kinds, and a driver calls them in this order: [`ingress`](Self::ingress) takes
/// frames off the wire; [`next_accepted`](Self::next_accepted) and [`next_ready`](Self::next_ready), until
/// they answer `None`, tell what happened; [`llp`](Self::llp) and the commands (`listen`, `connect`,
/// `remove`) act on it; [`egress`](Self::egress) sends. Then [`poll_at`](Self::poll_at) and
/// [`poll_fd`](Self::poll_fd) say how long to sleep.
///
/// Each connection has a socket set of its own behind a table of the 4-tuples, since smoltcp walks a whole
/// set for every frame: the cost of a call grows with the connections that have work, not with those that
/// exist.
pub struct Stack {
    wire: Wire,
    config: StackConfig,
    demux: Demux,
    iface: Interface,
    slot: Slot,
    table: Table,
    /// How many connections count against the backlog of each listening port.
    listeners: HashMap<u16, usize>,
    wheel: Wheel,
    dirty: VecDeque<ConnectionId>,
    ready: VecDeque<ConnectionId>,
    accepted: VecDeque<ConnectionId>,
    waiting: Vec<ConnectionId>,
    asking: asking::Asking,
    lingering: VecDeque<ConnectionId>,
    lingering_count: usize,
    looped: VecDeque<Vec<u8>>,
    is_loops_turn: bool,
    /// The socket set for what is no connection's: ARP, NDP, ICMP, and the RST to unknown TCP.
    nobody: SocketSet<'static>,
    random: Random,
    counters: Counters,
}

/// What a [`Stack`] has done and holds. Totals, but for those that say "now".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Frames taken from the wire or turned round.
    pub frames_in: u64,
    /// Frames given to the wire or turned round.
    pub frames_out: u64,
    /// Frames to the own address that never saw the wire.
    pub looped: u64,
    /// Frames to the own address lost since too many waited.
    pub loop_overflows: u64,
    /// Frames that were for somebody else, or that nobody should send: malformed, fragments, forged senders.
    pub refused: u64,
    /// Calls into smoltcp for one connection each: the measure of the work that polling does.
    pub socket_polls: u64,
    /// SYNs dropped since the backlog was full.
    pub backlog_drops: u64,
    /// Connections now, half-open and closing ones included.
    pub connections: usize,
    /// Connections now that were removed and are still closing.
    pub lingering: usize,
}

impl Stack {
    /// A stack on `wire`. Its MTU is the smaller one of the wire's and the setting's.
    ///
    /// # Panics
    /// When [`StackConfig::validate`] refuses `config`, or the wire's MTU is too small for IPv6.
    #[must_use]
    pub fn new(wire: Wire, config: StackConfig, now: Instant) -> Self {
        let config = StackConfig { mtu: config.mtu.min(wire.mtu()), ..config };
        if let Err(error) = config.validate() {
            panic!("stack configuration: {error}");
        }
        let mut slot = Slot::new(config.mtu);
        let mut settings = Config::new(EthernetAddress(config.mac).into());
        settings.random_seed = config.seed;
        let mut iface = Interface::new(settings, &mut slot, now);
        set_addresses(&mut iface, &config.ip);
        Self {
            demux: Demux::new(config.mac, config.ip.address),
            random: Random::new(config.seed),
            wheel: Wheel::new(now),
            wire,
            config,
            iface,
            slot,
            table: Table::default(),
            listeners: HashMap::new(),
            dirty: VecDeque::new(),
            ready: VecDeque::new(),
            accepted: VecDeque::new(),
            waiting: Vec::new(),
            asking: asking::Asking::default(),
            lingering: VecDeque::new(),
            lingering_count: 0,
            looped: VecDeque::new(),
            is_loops_turn: false,
            nobody: SocketSet::new(Vec::new()),
            counters: Counters::default(),
        }
    }

    /// Takes connections to `port` from now on; they come out of [`Stack::next_accepted`].
    ///
    /// # Errors
    /// When the port is 0 or listened on already.
    pub fn listen(&mut self, port: u16) -> Result<(), ListenError> {
        match port {
            0 => Err(ListenError::PortZero),
            _ if self.listeners.contains_key(&port) => Err(ListenError::AddrInUse),
            _ => {
                self.listeners.insert(port, 0);
                Ok(())
            }
        }
    }

    /// Takes no more connections to `port`. Those that nobody has taken yet are reset.
    pub fn unlisten(&mut self, port: u16) {
        if self.listeners.remove(&port).is_none() {
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

    /// Begins a connection to `remote`, from `local_port` or an ephemeral port. It is ready when it is
    /// established or has failed.
    ///
    /// # Errors
    /// When the address or a port makes no sense, can't be reached, or is in use.
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        local_port: Option<u16>,
        now: Instant,
    ) -> Result<ConnectionId, ConnectError> {
        if remote.port() == 0 || local_port == Some(0) || !is_station(remote.ip()) {
            return Err(ConnectError::Unaddressable);
        }
        if remote.is_ipv4() != self.config.ip.address.is_ipv4() {
            return Err(ConnectError::FamilyMismatch);
        }
        if !self.config.ip.reaches(remote.ip()) {
            return Err(ConnectError::Unroutable);
        }
        let remote = SocketAddr::new(remote.ip(), remote.port());
        let tuple = self.choose_tuple(remote, local_port)?;
        let mut connection = Connection::new(tuple, &self.config, self.config.mtu, now);
        let opened = connection.socket_mut().connect(self.iface.context(), tuple.remote, tuple.local);
        opened.map_err(|_| ConnectError::Unaddressable)?;
        connection.observe(now, None);
        let id = self.table.insert(connection);
        self.mark_dirty(id);
        Ok(id)
    }

    /// The next connection whose readability, room or state may have changed since it was named here last.
    pub fn next_ready(&mut self) -> Option<ConnectionId> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(connection) = self.table.get_mut(id) {
                connection.is_ready = false;
                return Some(id);
            }
        }
        None
    }

    /// The next established connection to a listening port, and that port. It is ready, too.
    pub fn next_accepted(&mut self) -> Option<(ConnectionId, u16)> {
        while let Some(id) = self.accepted.pop_front() {
            let Some(port) = self.table.get_mut(id).and_then(|connection| connection.listener.take()) else {
                continue;
            };
            self.release_backlog(port);
            self.mark_ready(id);
            return Some((id, port));
        }
        None
    }

    /// The byte streams of a connection; none when the id names none any more. Marks it for the next egress.
    pub fn llp(&mut self, id: ConnectionId) -> Option<Llp<'_>> {
        self.table.get(id).filter(|connection| !connection.is_removed)?;
        self.mark_dirty(id);
        self.table.get_mut(id).map(|connection| Llp::Tcp(TcpLlp { connection }))
    }

    /// How far a connection has come, without marking it; none as for [`Stack::llp`].
    #[must_use]
    pub fn state(&self, id: ConnectionId) -> Option<LlpState> {
        let connection = self.table.get(id).filter(|connection| !connection.is_removed)?;
        Some(connection.llp_state())
    }

    /// Forgets a connection. What is queued is still sent, FIN follows, and the stack sees it through to its
    /// end, up to the configured number and time; abort it first when it must not.
    pub fn remove(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id).filter(|connection| !connection.is_removed) else {
            return;
        };
        connection.is_removed = true;
        connection.socket_mut().close();
        self.lingering_count += 1;
        self.lingering.push_back(id);
        self.mark_dirty(id);
        self.bound_lingering();
    }

    /// When to call [`Stack::ingress`] and [`Stack::egress`] next, if the device doesn't become readable
    /// before: `now` when there is work. What waits in `next_ready` and `next_accepted` doesn't count; see
    /// [`Stack::has_news`].
    #[must_use]
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        if !self.dirty.is_empty() || !self.looped.is_empty() || self.wire.is_readable() {
            return Some(now);
        }
        [self.wheel.next_deadline(), self.wire.poll_at()].into_iter().flatten().min()
    }

    /// Whether `next_ready` or `next_accepted` may have something to tell, as they may also after an egress that found out
    /// that a peer is gone.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.ready.is_empty() || !self.accepted.is_empty()
    }

    /// What becomes readable when a frame arrives; see [`Wire::poll_fd`].
    #[must_use]
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.wire.poll_fd()
    }

    /// The own end of a connection.
    #[must_use]
    pub fn local_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.table.get(id).map(Connection::local)
    }

    /// The peer's end of a connection.
    #[must_use]
    pub fn peer_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.table.get(id).map(Connection::remote)
    }

    /// The wire, for its counters and its capture.
    pub const fn wire_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// The wire.
    #[must_use]
    pub const fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The address setting.
    #[must_use]
    pub const fn ip(&self) -> &IpSetting {
        &self.config.ip
    }

    /// What the stack was set up with, the MTU as it came out.
    #[must_use]
    pub const fn config(&self) -> &StackConfig {
        &self.config
    }

    /// What the stack has done and holds.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        Counters { connections: self.table.len(), lingering: self.lingering_count, ..self.counters }
    }

    fn choose_tuple(&mut self, remote: SocketAddr, local_port: Option<u16>) -> Result<Tuple, ConnectError> {
        let address = self.config.ip.address;
        let start = u16::try_from(self.random.below(u64::from(EPHEMERAL_COUNT))).unwrap_or(0);
        let tuple = |port| Tuple { local: SocketAddr::new(address, port), remote };
        // A connection to itself has its own mirror image as peer, and neither may be another one's.
        let is_free = |port| {
            let mirror = Tuple { local: remote, remote: tuple(port).local };
            tuple(port).local != remote
                && !self.listeners.contains_key(&port)
                && self.table.find(&tuple(port)).is_none()
                && (remote.ip() != address || self.table.find(&mirror).is_none())
        };
        if let Some(port) = local_port {
            return if is_free(port) { Ok(tuple(port)) } else { Err(ConnectError::AddrInUse) };
        }
        let mut ports = (0..EPHEMERAL_COUNT).map(|step| EPHEMERAL_FIRST + (start + step) % EPHEMERAL_COUNT);
        ports.find(|&port| is_free(port)).map(tuple).ok_or(ConnectError::NoPortFree)
    }

    fn mark_dirty(&mut self, id: ConnectionId) {
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
        if let Some(count) = self.listeners.get_mut(&port) {
            *count = count.saturating_sub(1);
        }
    }

    /// Frees a connection and everything that points to it; queues skip its id when they come to it.
    fn release(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.remove(id) else { return };
        self.wheel.cancel(id.index());
        if let Some(port) = connection.listener {
            self.release_backlog(port);
        }
        if connection.is_removed {
            self.lingering_count -= 1;
        }
    }

    /// Lets the oldest closing connections go when there are too many of them.
    fn bound_lingering(&mut self) {
        while let Some(&oldest) = self.lingering.front() {
            if self.table.get(oldest).is_some() {
                if self.lingering_count <= self.config.lingering {
                    break;
                }
                self.release(oldest);
            }
            self.lingering.pop_front();
        }
        // Behind a slow one at the front there may be many that are gone.
        if self.lingering.len() > 2 * self.config.lingering + 16 {
            self.lingering.retain(|id| self.table.get(*id).is_some());
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

fn set_addresses(iface: &mut Interface, ip: &IpSetting) {
    // A validated setting fits into the fixed lists, so nothing is lost here.
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

    /// A driver thread takes a stack along.
    #[test]
    fn a_stack_can_be_sent_to_another_thread() {
        const fn is_send<T: Send>() {}
        is_send::<Stack>();
        is_send::<Wire>();
    }
}
