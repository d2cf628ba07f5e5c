//! The kernel's TCP as a transport. It needs no privileges, has the host's addresses, and reaches every peer of the
//! host.

use core::mem::MaybeUninit;
use core::net::SocketAddr;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use smoltcp::time::{Duration, Instant};

use crate::config::StackConfig;
use crate::counters::{Counters, HostCounters};
use crate::error::ConnectError;
use crate::held::Held;
use crate::llp::Llp;
use crate::llp::state::LlpState;
use crate::table::{ConnectionId, Slots};
use crate::wheel::Wheel;

mod accept;
mod buffer;
mod connection;
mod favourite;
mod llp;
mod socket;

pub use llp::HostLlp;

use accept::Listener;
use buffer::Pool;
use connection::{Connection, News, QUOTA};
use favourite::Favourite;
use socket::Opening;

/// A connection between two stacks.
#[derive(Debug)]
pub struct HostMoving(Box<Connection>);

/// The TCP of the kernel. Its methods have the names, meaning and order of those of a [`Stack`](crate::Stack).
///
/// One epoll instance, edge-triggered, watches all sockets, so that idle connections cost nothing. While only one
/// connection is busy, its socket is mostly read without a question to epoll, and epoll is asked now and then. Octets
/// are read when the caller looks for them. The octets queued for a connection go out in one call at the next egress.
/// Buffers come from a common pool, and are held only while they have octets.
///
/// Of the configuration it uses `ip.address` (unspecified: any of the host's), `tcp_buffer` for the buffers of this
/// process, `timeout` as TCP's user timeout, `keep_alive`, `kernel_congestion`, `backlog`, `lingering` and
/// `linger_timeout`. The kernel measures real time.
pub struct HostStack {
    epoll: Arc<OwnedFd>,
    config: StackConfig,
    table: Slots<Connection>,
    listeners: Vec<Listener>,
    /// Sockets that only reserve a port, by their addresses.
    bound: Vec<(SocketAddr, Held)>,
    next_listener: u64,
    /// The time to accept again after the system had no descriptor left.
    accept_again_at: Option<Instant>,
    wheel: Wheel,
    pool: Pool,
    dirty: VecDeque<ConnectionId>,
    ready: VecDeque<ConnectionId>,
    accepted: VecDeque<ConnectionId>,
    lingering: VecDeque<ConnectionId>,
    lingering_count: usize,
    counters: HostCounters,
    favourite: Favourite,
    is_lost: bool,
}

impl HostStack {
    /// Makes a stack on the sockets of the kernel.
    ///
    /// # Errors
    /// `InvalidInput` if [`StackConfig::validate_host`] refuses the configuration. `NotFound` if the system does not
    /// know the congestion control, `PermissionDenied` if it forbids it. Otherwise the system's error, if it has no
    /// descriptor or memory left.
    pub fn new(config: StackConfig, now: Instant) -> io::Result<Self> {
        config.validate_host().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        socket::try_congestion(&config)?;
        Ok(Self {
            epoll: Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?),
            table: Slots::default(),
            listeners: Vec::new(),
            bound: Vec::new(),
            next_listener: 0,
            accept_again_at: None,
            wheel: Wheel::new(now),
            pool: Pool::new(config.tcp_buffer),
            dirty: VecDeque::new(),
            ready: VecDeque::new(),
            accepted: VecDeque::new(),
            lingering: VecDeque::new(),
            lingering_count: 0,
            counters: HostCounters::default(),
            favourite: Favourite::default(),
            is_lost: false,
            config,
        })
    }

    /// Asks the kernel once which sockets have news. While only one socket has anything to read, it mostly reads that
    /// socket instead. Returns how many sockets have news.
    pub fn ingress(&mut self, now: Instant) -> usize {
        if let Some(look) = self.favourite.next_look()
            && let Some(has_news) = self.look_at(look.id)
            && (has_news || !look.is_after_sleep)
        {
            return usize::from(has_news);
        }
        self.counters.waits += 1;
        let mut room = [const { MaybeUninit::uninit() }; EVENTS];
        let asked = epoll::wait(&self.epoll, &mut room, Some(&Timespec::default()));
        // After an interrupted call the descriptor stays readable, and the next poll asks again. Another error means
        // that the program has closed the instance.
        self.is_lost |= matches!(asked, Err(errno) if errno != Errno::INTR);
        let (events, _) = asked.unwrap_or((&mut [], &mut []));
        for event in &*events {
            let (key, flags) = (event.data.u64(), event.flags);
            if key & LISTENER != 0 {
                self.favourite.forget();
                self.accept_from(key & !LISTENER, now);
            } else if let Some(id) = self.table.unpack(key) {
                self.favourite.note_event(id);
                self.handle_news(id, flags);
            }
        }
        let count = events.len();
        if self.accept_again_at.is_some_and(|at| at <= now) {
            self.accept_again(now);
        }
        count
    }

    /// Sends what is queued, and closes connections. Returns how many connections had something to send or to close.
    pub fn egress(&mut self, now: Instant) -> usize {
        while let Some(index) = self.wheel.pop_due(now) {
            let Some(id) = self.table.at(index) else { continue };
            let is_removed = self.table.get(id).is_some_and(|connection| connection.is_removed);
            if is_removed { self.mark_dirty(id) } else { self.mark_ready(id) }
        }
        let count = self.dirty.len();
        for _ in 0..count {
            let Some(id) = self.dirty.pop_front() else { break };
            self.egress_connection(now, id);
        }
        count
    }

    /// Begins a connection; as [`Stack::connect`](crate::Stack::connect).
    ///
    /// # Errors
    /// If the address is wrong or cannot be reached, the local end is in use, or the system refuses.
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
    ) -> Result<ConnectionId, ConnectError> {
        let remote = socket::canonical(remote);
        let ip = remote.ip();
        let is_broadcast = matches!(ip, std::net::IpAddr::V4(v4) if v4.is_broadcast());
        if remote.port() == 0 || ip.is_unspecified() || ip.is_multicast() || is_broadcast {
            return Err(ConnectError::Unaddressable);
        }
        let local = self.local_end(remote, local)?;
        let (connection, is_open) = match socket::open_connection(remote, local, &self.config)? {
            Opening::Pending(socket) => (Connection::opening(Some(socket), remote), false),
            Opening::Open(socket) => (Connection::open(socket, remote), true),
            Opening::Refused => (Connection::opening(None, remote), true),
        };
        let id = self.insert(connection).map_err(|errno| ConnectError::System(errno.raw_os_error()))?;
        if is_open {
            self.mark_ready(id);
        }
        Ok(id)
    }

    /// Returns the next connection whose readability, room or state may have changed since it was returned here last.
    pub fn next_ready(&mut self) -> Option<ConnectionId> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(connection) = self.table.get_mut(id) {
                connection.is_ready = false;
                connection.budget = self.config.tcp_buffer;
                return Some(id);
            }
        }
        None
    }

    /// Returns the byte streams of a connection, and marks it for the next egress. `None` if the id names no connection
    /// any more.
    pub fn llp(&mut self, id: ConnectionId) -> Option<Llp<'_>> {
        self.table.get(id).filter(|connection| !connection.is_removed)?;
        self.mark_dirty(id);
        let connection = self.table.get_mut(id)?;
        Some(Llp::Host(HostLlp { connection, pool: &mut self.pool, counters: &mut self.counters }))
    }

    /// Returns how far a connection has come, without marking it. `None` as for [`HostStack::llp`].
    #[must_use]
    pub fn state(&self, id: ConnectionId) -> Option<LlpState> {
        let connection = self.table.get(id).filter(|connection| !connection.is_removed)?;
        Some(connection.state())
    }

    /// Forgets a connection. The stack still sends what is queued, then FIN, and closes it, within the configured
    /// number and time. A caller that does not want this aborts it first.
    pub fn remove(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id).filter(|connection| !connection.is_removed) else {
            return;
        };
        connection.is_removed = true;
        connection.shutdown();
        connection.inbox.pop(usize::MAX);
        self.lingering_count += 1;
        self.lingering.push_back(id);
        self.mark_dirty(id);
        self.bound_lingering();
    }

    /// Takes a connection out, for [`HostStack::put_in`] of another stack. `None` if the id names no connection of a
    /// user.
    pub fn take_out(&mut self, id: ConnectionId) -> Option<HostMoving> {
        self.table.get(id).filter(|connection| !connection.is_removed && connection.listener.is_none())?;
        self.wheel.cancel(id.index());
        let connection = self.table.remove(id)?;
        if let Some(socket) = &connection.socket {
            // epoll watches it while it is in the table.
            let _watched = epoll::delete(&self.epoll, socket);
        }
        Some(HostMoving(connection))
    }

    /// Puts a connection of another stack in, which is ready then. epoll reports again what its socket has. Returns
    /// `None`, and the connection is over, if the system has no memory to watch the socket.
    pub fn put_in(&mut self, HostMoving(mut connection): HostMoving) -> Option<ConnectionId> {
        (connection.is_dirty, connection.is_ready) = (false, false);
        let id = self.insert(*connection).ok()?;
        self.mark_dirty(id);
        self.mark_ready(id);
        Some(id)
    }

    /// Returns the time for the next [`HostStack::ingress`] and [`HostStack::egress`], if [`HostStack::poll_fd`] does
    /// not become readable before. That is `now` if there is work.
    #[must_use]
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        if !self.dirty.is_empty() {
            return Some(now);
        }
        [self.wheel.next_deadline(), self.accept_again_at].into_iter().flatten().min()
    }

    /// Returns true if `next_ready` or `next_accepted` may return a connection.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.ready.is_empty() || !self.accepted.is_empty()
    }

    /// Returns the descriptor that becomes readable when a socket has news.
    #[must_use]
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Returns the same descriptor, for a sleeper that does not borrow the stack.
    pub(crate) fn shared_fd(&self) -> Arc<OwnedFd> {
        self.favourite.note_sleep();
        Arc::clone(&self.epoll)
    }

    /// Returns the address of this host for connections to `remote`.
    pub(crate) fn source_to(remote: SocketAddr) -> Option<core::net::IpAddr> {
        socket::source_to(remote)
    }

    /// Returns true if the program has closed the epoll instance.
    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns the own end of a connection; `None` if this side has ended it.
    #[must_use]
    pub fn local_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        socket::local_addr(self.table.get(id)?.socket.as_ref()?)
    }

    /// Returns the peer's end of a connection.
    #[must_use]
    pub fn peer_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.table.get(id).map(|connection| connection.peer)
    }

    /// Returns the settings.
    #[must_use]
    pub const fn config(&self) -> &StackConfig {
        &self.config
    }

    /// Returns what the stack holds. Counts of frames are zero, since the kernel has the frames.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let (connections, lingering) = (self.table.len() as u64, self.lingering_count as u64);
        Counters { connections, lingering, ..Counters::default() }
    }

    /// Returns the calls of the kernel.
    #[must_use]
    pub const fn host_counters(&self) -> HostCounters {
        self.counters
    }

    /// Reads the socket of one connection without a question to epoll. Returns whether it had anything, or `None` if
    /// the connection is in no state for that.
    fn look_at(&mut self, id: ConnectionId) -> Option<bool> {
        let connection = self.table.get_mut(id)?;
        let has_news = connection.look(self.config.tcp_buffer, &mut self.pool, &mut self.counters)?;
        if has_news {
            self.mark_ready(id);
        }
        Some(has_news)
    }

    fn handle_news(&mut self, id: ConnectionId, flags: epoll::EventFlags) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let is_new = connection.observe(News {
            readable: flags.contains(epoll::EventFlags::IN),
            writable: flags.contains(epoll::EventFlags::OUT),
            finished: flags.contains(epoll::EventFlags::RDHUP),
            over: flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP),
        });
        connection.watch(&self.epoll, id.pack());
        if connection.is_removed || !connection.outbox.is_empty() {
            self.mark_dirty(id);
        }
        if is_new {
            self.mark_ready(id);
        }
    }

    fn egress_connection(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.is_dirty = false;
        let before = connection.state();
        let has_sent = connection.flush(&mut self.counters);
        connection.watch(&self.epoll, id.pack());
        connection.outbox.relax(&mut self.pool);
        if connection.is_removed {
            return self.see_off(now, id);
        }
        connection.inbox.relax(&mut self.pool);
        let had_its_turn = core::mem::replace(&mut connection.quota, QUOTA) == 0;
        let has_room = (has_sent || had_its_turn) && core::mem::take(&mut connection.wants_room);
        let is_new = has_room || connection.is_starved() || connection.state() != before;
        if core::mem::take(&mut connection.wants_acknowledgement) {
            self.wheel.arm(id.index(), now + ACKNOWLEDGEMENT_TICK);
        }
        if is_new {
            self.mark_ready(id);
        }
    }

    /// Ends a removed connection.
    fn see_off(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.budget = self.config.tcp_buffer;
        let has_more = connection.discard(&mut self.pool, &mut self.counters);
        connection.inbox.relax(&mut self.pool);
        let give_up_at = *connection.give_up_at.get_or_insert(now + self.config.linger_timeout);
        if connection.is_over() {
            self.release(id);
        } else if give_up_at <= now {
            connection.abort(crate::CloseCause::TimedOut);
            self.release(id);
        } else {
            self.wheel.arm(id.index(), give_up_at);
            if has_more {
                self.mark_dirty(id);
            }
        }
    }

    /// Returns the own end for a connection to `remote`; `None` if the kernel chooses all of it.
    fn local_end(
        &self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
    ) -> Result<Option<SocketAddr>, ConnectError> {
        let local = local.map(socket::canonical);
        let port = local.map_or(0, |local| local.port());
        let wanted = local.map(|local| local.ip()).filter(|ip| !ip.is_unspecified());
        let own = Some(self.config.ip.address).filter(|ip| !ip.is_unspecified());
        match wanted.or(own) {
            Some(ip) if ip.is_ipv4() != remote.is_ipv4() => Err(ConnectError::FamilyMismatch),
            Some(ip) => Ok(Some(SocketAddr::new(ip, port))),
            None if port == 0 => Ok(None),
            None if remote.is_ipv4() => Ok(Some((std::net::Ipv4Addr::UNSPECIFIED, port).into())),
            None => Ok(Some((std::net::Ipv6Addr::UNSPECIFIED, port).into())),
        }
    }

    /// Takes a connection into the table, and has epoll watch its socket.
    fn insert(&mut self, connection: Connection) -> Result<ConnectionId, Errno> {
        let id = self.table.insert(connection);
        let added = self.table.get_mut(id).map(|connection| connection.begin_watch(&self.epoll, id.pack()));
        if let Some(Err(errno)) = added {
            self.table.remove(id);
            return Err(errno);
        }
        Ok(id)
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

    /// Frees a connection. Queues skip its id later.
    fn release(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.remove(id) else { return };
        self.wheel.cancel(id.index());
        if connection.is_removed {
            self.lingering_count -= 1;
        }
    }

    /// Releases the oldest closing connections if there are too many of them.
    fn bound_lingering(&mut self) {
        while let Some(&oldest) = self.lingering.front() {
            if let Some(connection) = self.table.get_mut(oldest) {
                if self.lingering_count <= self.config.lingering {
                    break;
                }
                connection.abort(crate::CloseCause::Aborted);
                self.release(oldest);
            }
            self.lingering.pop_front();
        }
        // Many ended connections may be behind a slow one at the front.
        if self.lingering.len() > 2 * self.config.lingering + 16 {
            self.lingering.retain(|id| self.table.get(*id).is_some());
        }
    }
}

impl core::fmt::Debug for HostStack {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("HostStack").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

/// The bit that marks keys of listeners in events of epoll.
const LISTENER: u64 = 1 << 63;
/// Events of one call. Further ones come with the next.
const EVENTS: usize = 64;
/// The interval between two checks whether the peer has acknowledged everything. The kernel does not report that.
const ACKNOWLEDGEMENT_TICK: Duration = Duration::from_millis(1);
