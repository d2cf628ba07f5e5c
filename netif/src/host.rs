//! The kernel's TCP as a transport: no privileges, the host's addresses, and every peer that the host reaches.

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

/// The TCP of the kernel, in the shape of a [`Stack`](crate::Stack): its methods have the same names, meaning and order.
///
/// All sockets are non-blocking and watched by one epoll instance, edge-triggered, so that a call costs the connections with
/// news and nothing for the others. While only one of them is busy it mostly is read at once, and epoll is asked after the others
/// now and then. Octets are read when somebody looks for them, and what is queued for a connection goes
/// out in one call at the next egress. Buffers come from a common pool and are held only while something is in them.
///
/// Of the configuration it uses `ip.address` (unspecified: any of the host's), `tcp_buffer` for the buffers of this process,
/// `timeout` as TCP's user timeout, `keep_alive`, `kernel_congestion`, `backlog`, `lingering` and `linger_timeout`. Times that
/// the kernel measures are real time.
pub struct HostStack {
    epoll: Arc<OwnedFd>,
    config: StackConfig,
    table: Slots<Connection>,
    listeners: Vec<Listener>,
    /// Sockets that keep a port and do nothing else, by their addresses.
    bound: Vec<(SocketAddr, Held)>,
    next_listener: u64,
    /// When to try again to accept where the system had no descriptor left.
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
    /// A stack on the sockets of the kernel.
    ///
    /// # Errors
    /// What the system says when it has no descriptor or memory left, or does not know the congestion control (`NotFound`) or does
    /// not let its users choose it (`PermissionDenied`); `InvalidInput` for a configuration that [`StackConfig::validate_host`]
    /// refuses.
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

    /// Asks the kernel once what has happened: as long as only one socket ever has something to read, mostly that one. Returns
    /// how many sockets have news.
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
        // An interrupted call is made again by the next poll, since the descriptor stays readable; any other error says that
        // somebody has closed the instance.
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

    /// Sends what is queued, and closes what is to be closed. Returns how many connections had something to send or to close.
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
    /// When the address makes no sense or can't be reached, the local end is in use, or the system refuses.
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

    /// The next connection whose readability, room or state may have changed since it was named here last.
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

    /// The byte streams of a connection; none when the id names none any more. Marks it for the next egress.
    pub fn llp(&mut self, id: ConnectionId) -> Option<Llp<'_>> {
        self.table.get(id).filter(|connection| !connection.is_removed)?;
        self.mark_dirty(id);
        let connection = self.table.get_mut(id)?;
        Some(Llp::Host(HostLlp { connection, pool: &mut self.pool, counters: &mut self.counters }))
    }

    /// How far a connection has come, without marking it; none as for [`HostStack::llp`].
    #[must_use]
    pub fn state(&self, id: ConnectionId) -> Option<LlpState> {
        let connection = self.table.get(id).filter(|connection| !connection.is_removed)?;
        Some(connection.state())
    }

    /// Forgets a connection. What is queued is still sent, FIN follows, and the stack sees it through to its end, up to the
    /// configured number and time; abort it first when it must not.
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

    /// Takes a connection out, for [`HostStack::put_in`] of another stack. None when the id names no connection that its user has.
    pub fn take_out(&mut self, id: ConnectionId) -> Option<HostMoving> {
        self.table.get(id).filter(|connection| !connection.is_removed && connection.listener.is_none())?;
        self.wheel.cancel(id.index());
        let connection = self.table.remove(id)?;
        if let Some(socket) = &connection.socket {
            // It is in the set as long as it is in the table.
            let _watched = epoll::delete(&self.epoll, socket);
        }
        Some(HostMoving(connection))
    }

    /// Puts a connection in that another stack has had; what its socket has waiting is told anew. It is ready. None, and the
    /// connection is over, when the system has no memory to watch the socket.
    pub fn put_in(&mut self, HostMoving(mut connection): HostMoving) -> Option<ConnectionId> {
        (connection.is_dirty, connection.is_ready) = (false, false);
        let id = self.insert(*connection).ok()?;
        self.mark_dirty(id);
        self.mark_ready(id);
        Some(id)
    }

    /// When to call [`HostStack::ingress`] and [`HostStack::egress`] next, if [`HostStack::poll_fd`] doesn't become readable
    /// before: `now` when there is work.
    #[must_use]
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        if !self.dirty.is_empty() {
            return Some(now);
        }
        [self.wheel.next_deadline(), self.accept_again_at].into_iter().flatten().min()
    }

    /// Whether `next_ready` or `next_accepted` may have something to tell.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.ready.is_empty() || !self.accepted.is_empty()
    }

    /// What becomes readable when a socket has news.
    #[must_use]
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// The same descriptor, for a sleeper that does not hold the stack back meanwhile.
    pub(crate) fn shared_fd(&self) -> Arc<OwnedFd> {
        self.favourite.note_sleep();
        Arc::clone(&self.epoll)
    }

    /// The address of this host that connections to `remote` begin at.
    pub(crate) fn source_to(remote: SocketAddr) -> Option<core::net::IpAddr> {
        socket::source_to(remote)
    }

    /// Whether somebody else has closed what it hears by of its sockets.
    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The own end of a connection; none when it has been ended here.
    #[must_use]
    pub fn local_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        socket::local_addr(self.table.get(id)?.socket.as_ref()?)
    }

    /// The peer's end of a connection.
    #[must_use]
    pub fn peer_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.table.get(id).map(|connection| connection.peer)
    }

    /// What the stack was set up with.
    #[must_use]
    pub const fn config(&self) -> &StackConfig {
        &self.config
    }

    /// What the stack holds; frames are the kernel's matter.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let (connections, lingering) = (self.table.len() as u64, self.lingering_count as u64);
        Counters { connections, lingering, ..Counters::default() }
    }

    /// What the stack has asked of the kernel.
    #[must_use]
    pub const fn host_counters(&self) -> HostCounters {
        self.counters
    }

    /// Reads what the socket of one connection has, without asking first whether it has anything; none if it is not one to
    /// be read just so.
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

    /// Sees a removed connection through to its end.
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

    /// The end that a connection to `remote` is to have here, if the kernel is not to choose all of it.
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

    /// Takes a connection into the table and has its socket watched.
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

    /// Frees a connection; queues skip its id when they come to it.
    fn release(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.remove(id) else { return };
        self.wheel.cancel(id.index());
        if connection.is_removed {
            self.lingering_count -= 1;
        }
    }

    /// Lets the oldest closing connections go when there are too many of them.
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
        // Behind a slow one at the front there may be many that are gone.
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

/// Marks keys of listeners among those that the kernel hands back with an event.
const LISTENER: u64 = 1 << 63;
/// Events of one call; what is left over comes with the next.
const EVENTS: usize = 64;
/// How often to look whether the peer has acknowledged everything, of which the kernel sends no word.
const ACKNOWLEDGEMENT_TICK: Duration = Duration::from_millis(1);
