//! One connection over a socket of the kernel.

use core::net::SocketAddr;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use smoltcp::time::Instant;

use super::buffer::{Pool, Ring};
use super::socket;
use crate::counters::HostCounters;
use crate::held::Held;
use crate::llp::state::{CloseCause, LlpState};

/// A socket, and octets that wait on either side of it. epoll reports only changes. The connection remembers a
/// possible operation until the kernel refuses it.
#[derive(Debug)]
pub(super) struct Connection {
    /// `None` if this side has ended the connection.
    pub(super) socket: Option<Held>,
    pub(super) peer: SocketAddr,
    /// The listener whose backlog it counts against until it is taken.
    pub(super) listener: Option<SocketAddr>,
    pub(super) end: Option<CloseCause>,
    pub(super) inbox: Ring,
    pub(super) outbox: Ring,
    /// Octets that may be read until other connections have had their turn.
    pub(super) budget: usize,
    /// Octets that may be sent directly until other connections have had their turn.
    pub(super) quota: usize,
    /// The user waits for room in the outbox.
    pub(super) wants_room: bool,
    /// The user waits until the peer has acknowledged everything.
    pub(super) wants_acknowledgement: bool,
    /// The user waits for octets that do not go into the inbox.
    pub(super) is_awaited: bool,
    pub(super) is_removed: bool,
    pub(super) is_dirty: bool,
    pub(super) is_ready: bool,
    /// The time at which a removed connection is given up.
    pub(super) give_up_at: Option<Instant>,
    is_connecting: bool,
    may_read: bool,
    may_write: bool,
    /// The kernel had no room once. From then on epoll watches for room.
    was_full: bool,
    /// What epoll watches for.
    watched: epoll::EventFlags,
    /// The kernel will report nothing more to read. The socket is read to its end.
    is_final: bool,
    /// The peer's FIN has come.
    peer_finished: bool,
    /// Everything before the peer's FIN was read.
    is_at_end: bool,
    is_shut: bool,
    is_fin_sent: bool,
    emss: usize,
}

/// The events that epoll has reported of a socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct News {
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// The peer's FIN.
    pub(super) finished: bool,
    /// The socket has an error, or both directions are closed.
    pub(super) over: bool,
}

/// The octets of one receiving call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received {
    /// All octets that have come.
    pub(super) octets: usize,
    /// Those of them in the inbox.
    pub(super) kept: usize,
    /// Octets that were asked for.
    pub(super) wanted: usize,
}

impl Connection {
    /// Makes a connection whose peer has not answered yet, or, without a socket, one that has ended already.
    pub(super) const fn opening(socket: Option<Held>, peer: SocketAddr) -> Self {
        let end = if socket.is_none() { Some(CloseCause::Refused) } else { None };
        Self {
            socket,
            peer,
            listener: None,
            end,
            inbox: Ring::new(),
            outbox: Ring::new(),
            budget: 0,
            quota: QUOTA,
            wants_room: false,
            wants_acknowledgement: false,
            is_awaited: false,
            is_removed: false,
            is_dirty: false,
            is_ready: false,
            give_up_at: None,
            is_connecting: true,
            may_read: false,
            may_write: false,
            was_full: false,
            watched: epoll::EventFlags::empty(),
            is_final: false,
            peer_finished: false,
            is_at_end: false,
            is_shut: false,
            is_fin_sent: false,
            emss: 0,
        }
    }

    /// Makes an established connection.
    pub(super) fn open(socket: Held, peer: SocketAddr) -> Self {
        let mut connection = Self::opening(Some(socket), peer);
        connection.establish();
        connection
    }

    /// Makes a connection that a listener has accepted. It is not read before epoll has reported it. So peers that send
    /// one after the other are heard in that order.
    pub(super) fn accepted(socket: Held, peer: SocketAddr, listener: SocketAddr) -> Self {
        let mut connection = Self::open(socket, peer);
        (connection.listener, connection.may_read) = (Some(listener), false);
        connection
    }

    /// Has epoll watch it under this key.
    pub(super) fn begin_watch(&mut self, epoll: &OwnedFd, key: u64) -> Result<(), Errno> {
        self.was_full |= !self.may_write && !self.is_connecting;
        self.watched = self.wanted_news();
        let Some(socket) = &self.socket else { return Ok(()) };
        epoll::add(epoll, socket, epoll::EventData::new_u64(key), self.watched)
    }

    /// Changes what epoll watches for, if that is needed.
    pub(super) fn watch(&mut self, epoll: &OwnedFd, key: u64) {
        let wanted = self.wanted_news();
        if wanted != self.watched
            && let Some(socket) = &self.socket
            && epoll::modify(epoll, socket, epoll::EventData::new_u64(key), wanted).is_ok()
        {
            self.watched = wanted;
        }
    }

    /// Notes an event of epoll. Returns true if it may be news to the user.
    pub(super) fn observe(&mut self, news: News) -> bool {
        let Some(socket) = &self.socket else { return false };
        if self.is_connecting {
            match socket::pending_error(socket) {
                Some(cause) => self.end(cause),
                None if socket::is_connected_to_itself(socket, self.peer) => self.end(CloseCause::Refused),
                None if news.writable => self.establish(),
                None => return false,
            }
            return true;
        }
        if news.over && !(self.peer_finished && self.is_fin_sent) {
            self.is_final = true;
            if let Some(cause) = socket::pending_error(socket) {
                self.end.get_or_insert(cause);
            }
        }
        self.may_read |= news.readable || news.finished || news.over;
        self.may_write |= news.writable;
        if news.finished && self.end.is_none() {
            self.peer_finished = true;
            self.is_final = true;
        }
        news.readable || news.finished || news.over || (news.writable && !self.outbox.is_empty())
    }

    /// Returns received octets: those in the inbox or, if it is empty, what the socket has.
    pub(super) fn readable(&mut self, pool: &mut Pool, counters: &mut HostCounters) -> &[u8] {
        if self.inbox.is_empty() {
            self.fill(pool, counters);
        }
        self.inbox.pieces()[0]
    }

    /// Reads the socket until the inbox holds `wanted` octets or is full, or the socket has no more.
    pub(super) fn fill_up_to(&mut self, wanted: usize, pool: &mut Pool, counters: &mut HostCounters) {
        let wanted = wanted.min(pool.ring_len());
        while self.inbox.len() < wanted {
            let before = self.inbox.len();
            self.fill(pool, counters);
            if self.inbox.len() == before {
                return;
            }
        }
    }

    /// Reads up to `budget` octets of the socket although epoll has reported nothing. Returns true if there were any,
    /// or the connection has ended. Returns `None` if the connection is in no state for that: it was not taken yet,
    /// it ends, epoll watches for room, octets wait in the inbox, or the next octets do not belong there.
    pub(super) fn look(
        &mut self,
        budget: usize,
        pool: &mut Pool,
        counters: &mut HostCounters,
    ) -> Option<bool> {
        let is_plain = self.listener.is_none() && !self.is_removed && !self.is_connecting && self.may_write;
        if !is_plain || self.is_awaited || self.is_final || self.end.is_some() || !self.inbox.is_empty() {
            return None;
        }
        (self.may_read, self.budget) = (true, budget);
        self.fill(pool, counters);
        let has_news = !self.inbox.is_empty() || self.is_final || self.end.is_some();
        if !has_news {
            self.inbox.relax(pool);
        }
        Some(has_news)
    }

    /// Sends the octets of the outbox, in one call if the kernel takes all. Returns true if it has taken any.
    pub(super) fn flush(&mut self, counters: &mut HostCounters) -> bool {
        let mut has_sent = false;
        while self.may_write && !self.outbox.is_empty() {
            let Some(socket) = &self.socket else { return has_sent };
            let pieces = self.outbox.pieces();
            counters.sends += 1;
            let sent = match pieces {
                [octets, []] => send(socket, octets, SendFlags::NOSIGNAL),
                [front, back] => {
                    let slices = [IoSlice::new(front), IoSlice::new(back)];
                    sendmsg(socket, &slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
                }
            };
            match sent {
                Ok(n) => {
                    // epoll reports when the kernel has room for the rest.
                    self.note_room(n == self.outbox.len());
                    counters.octets_sent += n as u64;
                    self.outbox.pop(n);
                    has_sent |= n > 0;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.note_room(false),
                Err(errno) => self.end(socket::cause(errno)),
            }
        }
        if self.is_shut && self.outbox.is_empty() {
            self.finish();
        }
        has_sent
    }

    /// Has `send` give the socket `len` octets behind those in the outbox. Returns how many the kernel has taken.
    pub(super) fn send_directly(
        &mut self,
        len: usize,
        send: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>,
        counters: &mut HostCounters,
    ) -> usize {
        self.flush(counters);
        let Some(socket) = self.socket.as_ref().filter(|_| self.may_write && self.outbox.is_empty()) else {
            return 0;
        };
        counters.sends += 1;
        match send(socket.as_fd()) {
            Ok(taken) => {
                self.note_room(taken == len);
                counters.octets_sent += taken as u64;
                counters.octets_lent += taken as u64;
                self.quota = self.quota.saturating_sub(taken);
                taken
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR) => 0,
                Some(Errno::AGAIN) => {
                    self.note_room(false);
                    0
                }
                errno => {
                    self.end(errno.map_or(CloseCause::Aborted, socket::cause));
                    0
                }
            },
        }
    }

    /// Returns true if the kernel may take more octets now. Also true after the end, so that no caller waits in vain.
    pub(super) const fn takes_more(&self) -> bool {
        (self.may_write && self.quota > 0) || self.end.is_some()
    }

    /// Discards received octets. Returns true if there are more than the budget allows.
    pub(super) fn discard(&mut self, pool: &mut Pool, counters: &mut HostCounters) -> bool {
        loop {
            let len = self.readable(pool, counters).len();
            if len == 0 {
                return self.is_starved();
            }
            self.inbox.pop(len);
        }
    }

    /// Sends FIN behind what is queued. A connection that is not established yet is given up.
    pub(super) fn shutdown(&mut self) {
        if self.is_connecting && self.end.is_none() {
            self.end(CloseCause::Aborted);
        }
        self.is_shut = true;
    }

    /// Ends the connection by RST.
    pub(super) fn abort(&mut self, cause: CloseCause) {
        self.end.get_or_insert(cause);
        if let Some(socket) = self.socket.take() {
            socket::reset(socket);
        }
        self.lose_queue();
    }

    pub(super) fn state(&self) -> LlpState {
        match self.end {
            Some(CloseCause::Graceful) => LlpState::Closed,
            Some(_) => LlpState::Reset,
            None if self.is_connecting => LlpState::Connecting,
            None if self.peer_finished => LlpState::PeerClosed,
            None => LlpState::Established,
        }
    }

    /// Returns true if nothing can be sent or received any more.
    pub(super) const fn is_over(&self) -> bool {
        self.socket.is_none() || self.end.is_some()
    }

    pub(super) const fn is_drained(&self) -> bool {
        self.is_at_end && self.inbox.is_empty()
    }

    /// Returns true if the peer has sent FIN, and nothing before it is left in the socket.
    pub(super) const fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Returns true if the budget is used up although there may be more to read.
    pub(super) const fn is_starved(&self) -> bool {
        self.may_read && self.budget == 0
    }

    pub(super) const fn may_send(&self) -> bool {
        !self.is_connecting && !self.is_shut && self.end.is_none()
    }

    pub(super) const fn emss(&self) -> usize {
        self.emss
    }

    /// Returns how many queued octets the peer has not acknowledged.
    pub(super) fn unsent(&self) -> usize {
        let kernels = self.socket.as_ref().filter(|_| self.end.is_none()).map_or(0, socket::unacknowledged);
        self.outbox.len() + kernels
    }

    /// Returns the events that epoll has to watch for. It watches for room only after there was none, since room
    /// would wake sleepers without need.
    const fn wanted_news(&self) -> epoll::EventFlags {
        if self.is_connecting || self.was_full { WATCHED.union(epoll::EventFlags::OUT) } else { WATCHED }
    }

    /// Notes whether the kernel has taken everything that was offered.
    const fn note_room(&mut self, took_all: bool) {
        self.may_write = took_all;
        self.was_full |= !took_all;
    }

    fn establish(&mut self) {
        if let Some(socket) = &self.socket {
            self.emss = socket::emss(socket, self.peer);
        }
        (self.is_connecting, self.may_read, self.may_write) = (false, true, true);
    }

    fn fill(&mut self, pool: &mut Pool, counters: &mut HostCounters) {
        let budget = if self.end.is_some() { usize::MAX } else { self.budget };
        let receive = |socket: BorrowedFd<'_>, room: &mut [u8]| {
            let wanted = room.len().min(budget);
            let (octets, _) = recv(socket, &mut room[..wanted], RecvFlags::empty())?;
            Ok(Received { octets, kept: octets, wanted })
        };
        self.receive_by(receive, pool, counters);
    }

    /// Has `receive` take octets off the socket, and lends it the free piece of the inbox, which is not full, for some
    /// of them. Does so only if octets may be there, and the budget is not used up.
    pub(super) fn receive_by(
        &mut self,
        mut receive: impl FnMut(BorrowedFd<'_>, &mut [u8]) -> io::Result<Received>,
        pool: &mut Pool,
        counters: &mut HostCounters,
    ) {
        // After the end no budget is needed: only octets that the kernel holds can still come.
        while self.may_read && (self.budget > 0 || self.end.is_some()) {
            let Some(socket) = &self.socket else { return };
            counters.receives += 1;
            match receive(socket.as_fd(), self.inbox.free_piece(pool)) {
                Ok(Received { octets: 0, .. }) => self.note_end(),
                Ok(Received { octets, kept, wanted }) => {
                    self.inbox.push(kept);
                    counters.octets_received += octets as u64;
                    self.budget = self.budget.saturating_sub(octets);
                    // Fewer octets than the wanted number are all that the socket has.
                    self.may_read = octets == wanted || self.is_final;
                    return;
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR) => {}
                    Some(Errno::AGAIN) => self.may_read = false,
                    errno => {
                        self.may_read = false;
                        self.end(errno.map_or(CloseCause::Aborted, socket::cause));
                    }
                },
            }
        }
    }

    /// Notes that nothing more can be read: the peer's FIN comes next, or nothing after an error.
    fn note_end(&mut self) {
        self.may_read = false;
        if self.end.is_none() {
            (self.peer_finished, self.is_final, self.is_at_end) = (true, true, true);
            self.note_close();
        }
    }

    fn finish(&mut self) {
        let Some(socket) = &self.socket else { return };
        if self.is_fin_sent || self.end.is_some() {
            return;
        }
        self.is_fin_sent = true;
        if let Err(errno) = socket::finish(socket) {
            self.end(socket::cause(errno));
        }
        self.note_close();
    }

    /// Notes that both sides have sent FIN. The kernel delivers the octets under way.
    fn note_close(&mut self) {
        if self.is_at_end && self.is_fin_sent {
            self.end.get_or_insert(CloseCause::Graceful);
        }
    }

    fn end(&mut self, cause: CloseCause) {
        self.end.get_or_insert(cause);
        self.lose_queue();
    }

    fn lose_queue(&mut self) {
        self.outbox.pop(usize::MAX);
    }
}

const WATCHED: epoll::EventFlags =
    epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ET);
/// Octets that one connection may send directly in one turn, however fast its peer reads.
pub(super) const QUOTA: usize = 1 << 20;
