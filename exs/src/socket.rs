//! Connected sockets.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Range, RangeBounds};
use core::task::Waker;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use weft_exs_core::{Kind as Carried, Outcome, Stats};

use crate::buf::Buf;
use crate::context::Context;
use crate::endpoint::{Handle, Wanted};
use crate::error::Error;
use crate::in_place::Received;
use crate::kind::Kind;
use crate::link::{Direction, Link};
use crate::memory::{Area, Octets};
use crate::op::Op;
use crate::options::Options;
use crate::pending::{Pending, Post as _, Settle};
use crate::ready::Ready;
use crate::service::Service;

/// A connected socket for [`Messages`](crate::Messages) or a [`Stream`](crate::Stream). Clones are handles to the same
/// one; it is closed when the last of them is dropped.
pub struct Socket<K> {
    handle: Arc<Handle>,
    service: Arc<Service>,
    kind: PhantomData<fn() -> K>,
}

/// A call that waits for a socket of this kind.
pub(crate) struct Awaited<K> {
    pending: Weak<Pending<Result<Socket<K>, Error>>>,
    service: Weak<Service>,
}

impl Context {
    /// Connects a socket for [`Messages`](crate::Messages) or a [`Stream`](crate::Stream) to a peer.
    pub fn connect<K: Kind>(&self, peer: SocketAddr, options: &Options) -> Op<Result<Socket<K>, Error>> {
        self.connect_from(None, peer, options)
    }

    /// As [`Self::connect`], with the own end: the device chooses a port of 0, and an unspecified address.
    pub fn connect_from<K: Kind>(
        &self,
        local: Option<SocketAddr>,
        peer: SocketAddr,
        options: &Options,
    ) -> Op<Result<Socket<K>, Error>> {
        let service = Arc::clone(self.service());
        let pending = Pending::new();
        let wanted = Box::new(Awaited::new(&pending, &service));
        match service.connect(K::CARRIED, (local, peer), options, wanted) {
            Ok(()) => Op::new(service, pending),
            Err(error) => Op::ended(service, Err(error)),
        }
    }
}

impl<K> Awaited<K> {
    pub(crate) fn new(pending: &Arc<Pending<Result<Socket<K>, Error>>>, service: &Arc<Service>) -> Self {
        Self { pending: Arc::downgrade(pending), service: Arc::downgrade(service) }
    }
}

impl<K: Kind> Wanted for Awaited<K> {
    fn deliver(&self, outcome: Result<Arc<Handle>, Error>) -> Result<Option<Waker>, Arc<Handle>> {
        match (self.pending.upgrade().zip(self.service.upgrade()), outcome) {
            (Some((pending, service)), outcome) => {
                let waker = pending.settle(outcome.map(|handle| Socket::new(handle, service)));
                pending.post();
                Ok(waker)
            }
            (None, Ok(handle)) => Err(handle),
            (None, Err(_nobody_hears)) => Ok(None),
        }
    }
}

impl<K: Kind> Socket<K> {
    pub(crate) const fn new(handle: Arc<Handle>, service: Arc<Service>) -> Self {
        Self { handle, service, kind: PhantomData }
    }

    /// Sends octets of memory: as one message, or as the next octets of a stream. Sends take their turn in the order
    /// of their starts.
    ///
    /// A message has been sent when the peer has taken it: the octets are in the peer's memory. Octets of a stream have
    /// been sent when the memory is free. The outcome comes with the memory, in every case.
    pub fn send<M: Octets>(
        &self,
        memory: M,
        range: impl RangeBounds<usize>,
    ) -> Op<(Result<Outcome, Error>, M)> {
        let area = Area::new(&memory, &range, &self.service.domain, false);
        self.start(area, memory, Direction::Send)
    }

    /// As [`Self::send`] of 1 to 31 parts, which follow one another in one message, or in the stream. A message that is
    /// longer than immediate data is put together first: its parts are copied once.
    #[expect(clippy::type_complexity, reason = "the parts come back as they were given")]
    pub fn send_vectored<M: Octets>(
        &self,
        parts: Vec<(M, Range<usize>)>,
    ) -> Op<(Result<Outcome, Error>, Vec<(M, Range<usize>)>)> {
        let domain = &self.service.domain;
        let area = Area::of_parts(&parts, domain).and_then(|area| {
            let is_read = area.count() > 1
                && K::CARRIED == Carried::Message
                && area.len > self.options().small_packet_max;
            if is_read { area.together(domain) } else { Ok(area) }
        });
        self.start(area, parts, Direction::Send)
    }

    /// Receives the next message into memory, or the next octets of a stream, as many as are there. Receives take
    /// their turn in the order of their starts. Of a message that is longer the rest is lost, which
    /// [`Outcome::is_truncated`] tells. A receive of no octets in the mode [`Mode::End`](crate::Mode::End) says that
    /// the peer sends nothing more.
    pub fn recv<M: Octets>(
        &self,
        memory: M,
        range: impl RangeBounds<usize>,
    ) -> Op<(Result<Outcome, Error>, M)> {
        self.receive(memory, &range, false, false)
    }

    /// Sends nothing more behind what was started. The peer hears of it.
    pub fn shutdown(&self) {
        self.with(|link, _| link.shut_down());
    }

    /// Receives nothing more: what comes is not taken. Receives under way and later ones end with what they hold, in
    /// their order; of a stream, those that the peer knows of when it has given them up.
    pub fn shutdown_receive(&self) {
        self.with(|link, _| link.stop_receiving());
    }

    /// Cancels all operations. Returns how many have begun to end so.
    #[expect(clippy::must_use_candidate, reason = "the outcomes of the operations tell as well")]
    pub fn cancel_all(&self) -> usize {
        self.handle.0.cancel(None)
    }

    /// Closes the socket: sends what was started, and waits for the peer to do the same, within the time that
    /// [`Options::linger`](crate::Options::linger) says. Messages or octets that nobody has received end the connection
    /// at once. A second close may shorten the time of the first one.
    ///
    /// Success says that both sides have closed, or that the connection was ended at once and no send was under way. A
    /// connection that had ended before is closed with success, too: its operations have told of the end. Otherwise
    /// the outcome is [`Error::TimedOut`] when the time is over, [`Error::Canceled`] when sends were cut off, or why
    /// the connection has ended meanwhile. Octets that were sent may be lost then.
    pub fn close(&self) -> Op<Result<(), Error>> {
        let pending = Pending::new();
        self.with(|link, now| link.close(now, Some(Arc::clone(&pending))));
        Op::new(Arc::clone(&self.service), pending)
    }

    /// Returns the own end and the peer's; `None` if the connection ended before the socket was handed out.
    #[must_use]
    pub fn addresses(&self) -> Option<[SocketAddr; 2]> {
        self.with(|link, _| link.addresses())
    }

    /// Returns the options as they hold with this peer: immediate data, credits and adverts are the lower ones of both
    /// sides.
    #[must_use]
    pub fn options(&self) -> Options {
        self.with(|link, _| link.options())
    }

    /// Returns what the socket has counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.with(|link, _| link.stats())
    }

    /// Changes [`Options::linger`] for a later [`Self::close`].
    pub fn set_linger(&self, linger: Duration) {
        self.with(|link, _| link.set(|options| options.linger = linger));
    }

    /// Changes [`Options::send_timeout`] for later sends.
    pub fn set_send_timeout(&self, timeout: Option<Duration>) {
        self.with(|link, _| link.set(|options| options.send_timeout = timeout));
    }

    /// Changes [`Options::recv_timeout`] for later receives.
    pub fn set_recv_timeout(&self, timeout: Option<Duration>) {
        self.with(|link, _| link.set(|options| options.recv_timeout = timeout));
    }

    /// Returns for what the socket is ready now.
    #[must_use]
    pub fn ready(&self) -> Ready {
        self.with(|link, _| link.ready())
    }

    /// Waits until the socket is ready for something of what is wanted, or the connection has ended. Of a canceled wait
    /// the outcome says nothing.
    pub fn poll_ready(&self, wanted: Ready) -> Op<Ready> {
        let (service, pending) = (Arc::clone(&self.service), Pending::new());
        let op = self.with(|link, _| link.await_ready(wanted, Arc::clone(&pending)));
        Op::of_socket(service, pending, Arc::clone(&self.handle.0), op)
    }

    /// Makes a buffer for this socket.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn buffer(&self, len: usize) -> Result<Buf, Error> {
        Ok(Buf::new(&self.service.domain, len)?)
    }

    fn receive<R, M: Octets>(
        &self,
        memory: M,
        range: &impl RangeBounds<usize>,
        waits_for_all: bool,
        is_in_place: bool,
    ) -> Op<(Result<R, Error>, M)>
    where
        R: Send + 'static,
        Pending<(Result<R, Error>, M)>: Settle,
    {
        let area = Area::new(&memory, range, &self.service.domain, true);
        self.start(area, memory, Direction::Receive { waits_for_all, is_in_place })
    }

    /// Starts an operation, with the user's memory in which its octets are.
    fn start<R, M>(
        &self,
        area: Result<Area, Error>,
        memory: M,
        direction: Direction,
    ) -> Op<(Result<R, Error>, M)>
    where
        R: Send + 'static,
        M: Send + 'static,
        Pending<(Result<R, Error>, M)>: Settle,
    {
        let service = Arc::clone(&self.service);
        let area = match area {
            Ok(area) => area,
            Err(error) => return Op::ended(service, (Err(error), memory)),
        };
        let pending = Pending::lent((Err(Error::Canceled), memory));
        let told = Arc::clone(&pending);
        let op = service.assisting(|| self.with(|link, now| link.start(area, direction, told, now)));
        Op::of_socket(service, pending, Arc::clone(&self.handle.0), op)
    }

    fn with<R>(&self, act: impl FnOnce(&mut Link, Duration) -> R) -> R {
        self.handle.0.with(act)
    }
}

impl Socket<crate::Stream> {
    /// As [`Self::recv`]; the receive ends when it is full, or the peer sends nothing more (MSG_WAITALL).
    pub fn recv_all<M: Octets>(
        &self,
        memory: M,
        range: impl RangeBounds<usize>,
    ) -> Op<(Result<Outcome, Error>, M)> {
        self.receive(memory, &range, true, false)
    }
}

impl Socket<crate::Messages> {
    /// As [`Self::recv`], but immediate data is not copied: it is handed out where it came. The memory is for messages
    /// that are read. Slots that are held count as messages without acknowledgement, so that the peer sends
    /// [`Options::recv_credits`] messages more at most.
    pub fn recv_in_place<M: Octets>(
        &self,
        memory: M,
        range: impl RangeBounds<usize>,
    ) -> Op<(Result<Received, Error>, M)> {
        self.receive(memory, &range, false, true)
    }
}

impl<K> Clone for Socket<K> {
    fn clone(&self) -> Self {
        let (handle, service) = (Arc::clone(&self.handle), Arc::clone(&self.service));
        Self { handle, service, kind: PhantomData }
    }
}

impl<K> fmt::Debug for Socket<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("id", &self.handle.0.id).finish_non_exhaustive()
    }
}
