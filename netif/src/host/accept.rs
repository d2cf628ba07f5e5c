//! Listening sockets, and accepted connections that were not taken yet.

use core::net::SocketAddr;

use rustix::event::epoll;
use rustix::io::Errno;
use smoltcp::time::{Duration, Instant};

use super::connection::Connection;
use super::{HostStack, LISTENER, socket};
use crate::error::ListenError;
use crate::held::Held;
use crate::listen::Listen;
use crate::llp::state::CloseCause;
use crate::table::ConnectionId;

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    key: u64,
    local: SocketAddr,
    socket: Held,
    backlog: usize,
    /// The number of accepted connections that were not taken yet.
    waiting: usize,
    /// The kernel may have more connections.
    is_pending: bool,
}

impl HostStack {
    /// Reserves a port, as [`Stack::bind`](crate::Stack::bind). Another process may bind it, but cannot listen on it.
    ///
    /// # Errors
    /// If the address is none of the host's, the port is bound or listened on, or the system refuses.
    pub fn bind(&mut self, local: SocketAddr) -> Result<SocketAddr, ListenError> {
        let mut wanted = socket::canonical(local);
        if wanted.ip().is_unspecified() {
            wanted.set_ip(self.config.ip.address);
        }
        let overlaps = |own: &SocketAddr| {
            let is_any = own.ip().is_unspecified() || wanted.ip().is_unspecified();
            own.port() == wanted.port() && (is_any || own.ip() == wanted.ip())
        };
        let mut held = self.bound.iter().map(|(own, _)| own).chain(self.listeners.iter().map(|it| &it.local));
        if held.any(overlaps) {
            return Err(ListenError::AddrInUse);
        }
        let (socket, local) = socket::open_bound(wanted)?;
        self.bound.push((local, socket));
        Ok(local)
    }

    /// Frees the port that [`HostStack::bind`] reserved.
    pub fn unbind(&mut self, local: SocketAddr) {
        self.bound.retain(|(own, _)| *own != local);
    }

    /// Accepts connections from now on, as [`Stack::listen`](crate::Stack::listen). An unspecified address takes both
    /// families.
    ///
    /// # Errors
    /// If the address is none of the host's, the port is in use or needs a privilege, or the system refuses.
    pub fn listen(&mut self, listen: impl Into<Listen>) -> Result<SocketAddr, ListenError> {
        let listen = listen.into();
        let mut wanted = socket::canonical(listen.wanted());
        if wanted.ip().is_unspecified() {
            wanted.set_ip(self.config.ip.address);
        }
        let backlog = listen.backlog.unwrap_or(self.config.backlog).max(1);
        let (socket, local) = socket::open_listener(wanted, backlog, &self.config)?;
        let key = self.next_listener;
        self.next_listener += 1;
        let watched = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(key | LISTENER), watched)
            .map_err(|errno| ListenError::System(errno.raw_os_error()))?;
        self.listeners.push(Listener { key, local, socket, backlog, waiting: 0, is_pending: false });
        Ok(local)
    }

    /// Stops listening. Connections that were not taken yet are reset.
    pub fn unlisten(&mut self, listener: SocketAddr) {
        let Some(index) = self.listeners.iter().position(|it| it.local == listener) else { return };
        self.listeners.swap_remove(index);
        let is_orphan =
            |id: &ConnectionId| self.table.get(*id).is_some_and(|it| it.listener == Some(listener));
        let orphans: Vec<ConnectionId> = self.accepted.iter().copied().filter(is_orphan).collect();
        for id in orphans {
            if let Some(connection) = self.table.get_mut(id) {
                connection.abort(CloseCause::Aborted);
            }
            self.release(id);
        }
    }

    /// Returns the next connection to a listener, and the listener's name. The connection is also in `next_ready`.
    pub fn next_accepted(&mut self) -> Option<(ConnectionId, SocketAddr)> {
        while let Some(id) = self.accepted.pop_front() {
            let Some(local) = self.table.get_mut(id).and_then(|connection| connection.listener.take()) else {
                continue;
            };
            if let Some(listener) = self.listeners.iter_mut().find(|it| it.local == local) {
                listener.waiting = listener.waiting.saturating_sub(1);
                if listener.is_pending && self.accept_again_at.is_none() {
                    // The backlog was full, and epoll does not report the waiting connections again.
                    self.accept_again_at = Some(Instant::ZERO);
                }
            }
            self.mark_ready(id);
            return Some((id, local));
        }
        None
    }

    pub(super) fn accept_from(&mut self, key: u64, now: Instant) {
        if let Some(index) = self.listeners.iter().position(|listener| listener.key == key) {
            self.accept_all(index, now);
        }
    }

    /// Accepts on the listeners that have left connections in the kernel.
    pub(super) fn accept_again(&mut self, now: Instant) {
        self.accept_again_at = None;
        for index in 0..self.listeners.len() {
            if self.listeners[index].is_pending {
                self.accept_all(index, now);
            }
        }
    }

    fn accept_all(&mut self, index: usize, now: Instant) {
        let listener = &mut self.listeners[index];
        listener.is_pending = false;
        loop {
            let listener = &mut self.listeners[index];
            if listener.waiting >= listener.backlog {
                listener.is_pending = true;
                self.counters.backlog_waits += 1;
                return;
            }
            let (socket, peer) = match socket::accept(&listener.socket) {
                Ok((socket, Some(peer))) => (socket, peer),
                Err(Errno::AGAIN) => return,
                Ok((_, None)) => continue,
                Err(errno) if is_of_one_connection(errno) => continue,
                Err(_) => return self.pause_accepting(index, now),
            };
            let local = listener.local;
            match self.insert(Connection::accepted(socket, peer, local)) {
                Ok(id) => {
                    self.listeners[index].waiting += 1;
                    self.counters.accepted += 1;
                    self.accepted.push_back(id);
                }
                Err(_) => return self.pause_accepting(index, now),
            }
        }
    }

    /// Accepts later, since no descriptor or memory is left. The peers wait in the kernel's queue.
    fn pause_accepting(&mut self, index: usize, now: Instant) {
        self.counters.accept_failures += 1;
        self.listeners[index].is_pending = true;
        self.accept_again_at = Some(now + ACCEPT_PAUSE);
    }
}

/// Returns true if the error is about one connection that failed before it was accepted (accept(2)). Other errors are
/// about the system.
const fn is_of_one_connection(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::CONNABORTED
            | Errno::INTR
            | Errno::PROTO
            | Errno::PERM
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::TIMEDOUT
            | Errno::CONNRESET
    )
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
