//! A socket of the program: its phases, and what it starts.

use core::pin::Pin;
use core::task::{Context as Task, Poll, Waker};
use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use weft_exs::{Canceler, Context, Error, Op, Options, Ready};

use super::ahead::{Inbox, Outbox};
use super::event::{Detail, Event, Kind, Lent, Moved, Places};
use super::peer::{Acceptor, Coming, Peer};
use super::queue::Place;
use crate::descriptor::Descriptor;

mod attributes;

/// A socket of the program.
#[derive(Debug)]
pub(crate) struct Socket {
    /// Its number is the program's. Nothing makes it readable.
    descriptor: Descriptor,
    kind: Type,
    state: Mutex<State>,
    started: Arc<Mutex<Started>>,
    /// Of the calls of POSIX. Sends and receives do not wait for each other.
    pub(super) outbox: Mutex<Outbox>,
    pub(super) inbox: Mutex<Inbox>,
    pub(super) coming: Mutex<VecDeque<Coming>>,
}

/// What a socket is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) is_v6: bool,
    pub(crate) is_stream: bool,
}

#[derive(Debug)]
struct State {
    options: Options,
    bound: Option<SocketAddr>,
    phase: Phase,
    /// Why the last connect failed: `SO_ERROR`.
    error: Option<Errno>,
    /// The addresses of the connection, which outlive it.
    addresses: Option<[SocketAddr; 2]>,
}

#[derive(Debug)]
enum Phase {
    New,
    Listening(Arc<Acceptor>),
    Connecting,
    Connected(Peer),
    Closed,
}

/// Transfers under way, oldest first, that a program may cancel.
#[derive(Debug, Default)]
struct Started {
    last: u64,
    transfers: VecDeque<(u64, isize, Canceler)>,
}

/// What the program wants of an operation that it starts.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) kind: Kind,
    /// The program's own number.
    pub(crate) handle: isize,
    pub(crate) place: Place,
}

impl Socket {
    /// # Errors
    /// When the system has no file descriptor left.
    pub(crate) fn new(kind: Type) -> Result<Arc<Self>, Errno> {
        Self::in_phase(kind, Phase::New, Options::default())
    }

    /// Makes a socket around a connection.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn around(peer: Peer, is_v6: bool) -> Result<Arc<Self>, Errno> {
        let kind = Type { is_v6, is_stream: peer.is_stream() };
        Self::in_phase(kind, Phase::Connected(peer), Options::default())
    }

    fn in_phase(kind: Type, phase: Phase, options: Options) -> Result<Arc<Self>, Errno> {
        let addresses = match &phase {
            Phase::Connected(peer) => peer.addresses(),
            _ => None,
        };
        let state = State { options, bound: None, phase, error: None, addresses };
        Ok(Arc::new(Self {
            descriptor: Descriptor::over(&[])?,
            kind,
            state: Mutex::new(state),
            started: Arc::default(),
            outbox: Mutex::default(),
            inbox: Mutex::default(),
            coming: Mutex::default(),
        }))
    }

    /// Returns the number, for C.
    pub(crate) fn number(&self) -> i32 {
        self.descriptor.number()
    }

    pub(crate) const fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    pub(crate) const fn kind(&self) -> Type {
        self.kind
    }

    /// Sets the own address.
    ///
    /// # Errors
    /// `EINVAL` if there is one, or for another family.
    pub(crate) fn bind(&self, address: SocketAddr) -> Result<(), Errno> {
        let mut state = self.state();
        if state.bound.is_some() || !matches!(state.phase, Phase::New) || address.is_ipv6() != self.kind.is_v6
        {
            return Err(Errno::INVAL);
        }
        state.bound = Some(address);
        Ok(())
    }

    /// Begins to listen.
    ///
    /// # Errors
    /// `EINVAL` if the socket is connected, or an option is out of its limits; `EADDRINUSE`.
    pub(crate) fn listen(&self, context: &Context, backlog: i32) -> Result<(), Errno> {
        let mut state = self.state();
        if !matches!(state.phase, Phase::New) {
            return Err(Errno::INVAL);
        }
        state.options.backlog = usize::try_from(backlog).unwrap_or(0).clamp(1, MAX_BACKLOG);
        let at = state.bound.unwrap_or_else(|| self.unspecified());
        let acceptor = Acceptor::listen(context, self.kind.is_stream, at, &state.options);
        state.phase = Phase::Listening(Arc::new(acceptor.map_err(|error| error.errno())?));
        Ok(())
    }

    /// Begins to connect.
    ///
    /// # Errors
    /// `EISCONN`, `EALREADY`, `EINVAL`.
    pub(super) fn begin_to_connect(&self, context: &Context, peer: SocketAddr) -> Result<Coming, Errno> {
        let mut state = self.state();
        match state.phase {
            Phase::New => {}
            Phase::Connecting => return Err(Errno::ALREADY),
            Phase::Connected(_) => return Err(Errno::ISCONN),
            Phase::Listening(_) | Phase::Closed => return Err(Errno::INVAL),
        }
        state.phase = Phase::Connecting;
        let (options, bound) = (state.options, state.bound);
        drop(state);
        Ok(Coming::connect(context, self.kind.is_stream, (bound, peer), &options))
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.state().phase, Phase::Connecting)
    }

    /// Takes the outcome of a connect.
    pub(super) fn connected(&self, outcome: Result<Peer, Error>) -> Result<(), Errno> {
        let mut state = self.state();
        if !matches!(state.phase, Phase::Connecting) {
            // The program has closed it meanwhile.
            return Err(Errno::CANCELED);
        }
        match outcome {
            Ok(peer) => {
                state.phase = Phase::Connected(peer);
                Ok(())
            }
            Err(error) => {
                let errno = error.errno();
                state.phase = Phase::New;
                state.error = Some(errno);
                Err(errno)
            }
        }
    }

    /// Starts to connect.
    ///
    /// # Errors
    /// As [`Self::begin_to_connect`].
    pub(crate) fn connect(
        self: &Arc<Self>,
        context: &Context,
        peer: SocketAddr,
        start: Start,
    ) -> Result<(), Errno> {
        let coming = self.begin_to_connect(context, peer)?;
        let Start { kind, handle, place } = start;
        let socket = Arc::clone(self);
        let event = move |outcome: Result<Peer, Error>| {
            let error = socket.connected(outcome).err().map_or(0, Errno::raw_os_error);
            Event { kind, socket: socket.number(), handle, error, detail: Detail::None }
        };
        match coming {
            Coming::Stream(op) => place.follow(op, move |outcome| event(outcome.map(Peer::Stream))),
            Coming::Messages(op) => place.follow(op, move |outcome| event(outcome.map(Peer::Messages))),
            Coming::Here(outcome) => place.post(event(outcome)),
        }
        Ok(())
    }

    /// Starts to accept.
    ///
    /// # Errors
    /// `EINVAL` if the socket does not listen.
    pub(crate) fn accept(&self, start: Start, room: usize) -> Result<(), Errno> {
        let Start { kind, handle, place } = start;
        let number = self.number();
        let event = move |outcome: Result<Peer, Error>| {
            let error = outcome.as_ref().err().map_or(0, |error| error.errno().raw_os_error());
            let detail = Detail::Accept { peer: outcome.ok(), room };
            Event { kind, socket: number, handle, error, detail }
        };
        match self.acceptor()?.accept() {
            Coming::Stream(op) => place.follow(op, move |outcome| event(outcome.map(Peer::Stream))),
            Coming::Messages(op) => place.follow(op, move |outcome| event(outcome.map(Peer::Messages))),
            Coming::Here(outcome) => place.post(event(outcome)),
        }
        Ok(())
    }

    /// Follows a transfer that was started, to its event.
    ///
    /// # Errors
    /// Why the transfer was not started: `EAGAIN`, `EMSGSIZE`, and those of memory.
    pub(crate) fn follow<R: Into<Moved> + Send + 'static, M: Send + 'static>(
        &self,
        mut op: Op<(Result<R, Error>, M)>,
        start: Start,
        places: Places,
        lend: impl FnOnce(M) -> Lent + Send + 'static,
    ) -> Result<(), Errno> {
        let Start { kind, handle, place } = start;
        let number = self.number();
        let event = move |(result, memory): (Result<R, Error>, M)| {
            let error = result.as_ref().err().map_or(0, |error| error.errno().raw_os_error());
            let moved = result.map_or(Moved::NOTHING, Into::into);
            let detail = Detail::Transfer { moved, places, lent: lend(memory) };
            Event { kind, socket: number, handle, error, detail }
        };
        match Pin::new(&mut op).poll(&mut Task::from_waker(Waker::noop())) {
            Poll::Ready((Err(error), _)) if is_refusal(&error) => return Err(error.errno()),
            Poll::Ready(outcome) => place.post(event(outcome)),
            Poll::Pending => {
                let mut started = self.started();
                started.last += 1;
                let (id, canceler) = (started.last, op.canceler());
                started.transfers.push_back((id, handle, canceler));
                drop(started);
                let started = Arc::clone(&self.started);
                place.follow(op, move |outcome| {
                    let mut started = started.lock().unwrap_or_else(PoisonError::into_inner);
                    let ended = started.transfers.iter().position(|(other, ..)| *other == id);
                    let _ended = ended.and_then(|at| started.transfers.remove(at));
                    drop(started);
                    event(outcome)
                });
            }
        }
        Ok(())
    }

    /// Starts to wait until the socket is ready for something.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub(crate) fn poll(&self, wanted: Ready, start: Start) -> Result<(), Errno> {
        let Start { kind, handle, place } = start;
        let number = self.number();
        place.follow(self.peer()?.poll_ready(wanted), move |ready| Event {
            kind,
            socket: number,
            handle,
            error: 0,
            detail: Detail::Poll(ready),
        });
        Ok(())
    }

    /// Sends, or receives, nothing more. The event of a start comes at once.
    ///
    /// # Errors
    /// `ENOTCONN`; `EINVAL` for an unknown `how`.
    pub(crate) fn shut_down(&self, how: i32, start: Option<Start>) -> Result<(), Errno> {
        let (receiving, sending) = match how {
            libc::SHUT_RD => (true, false),
            libc::SHUT_WR => (false, true),
            libc::SHUT_RDWR => (true, true),
            _ => return Err(Errno::INVAL),
        };
        let peer = self.peer()?;
        if receiving {
            peer.shut_down_receiving();
        }
        if sending {
            peer.shut_down();
        }
        if let Some(Start { kind, handle, place }) = start {
            place.post(Event { kind, socket: self.number(), handle, error: 0, detail: Detail::None });
        }
        Ok(())
    }

    /// Cancels the transfers, or those with this number of the program's. Returns how many have begun to end so.
    pub(crate) fn cancel(&self, handle: Option<isize>) -> usize {
        let wanted = |(_, other, canceler): &(u64, isize, Canceler)| {
            handle.is_none_or(|handle| handle == *other).then(|| canceler.clone())
        };
        let cancelers: Vec<Canceler> = self.started().transfers.iter().filter_map(wanted).collect();
        cancelers.iter().filter(|canceler| canceler.cancel()).count()
    }

    /// Closes the socket. With a start its event tells when that is done; the number is free then.
    pub(crate) fn close_in_background(socket: &Arc<Self>, start: Option<Start>) {
        let before = core::mem::replace(&mut socket.state().phase, Phase::Closed);
        let closing = match before {
            Phase::Connected(peer) => Some(peer.close()),
            Phase::New | Phase::Listening(_) | Phase::Connecting | Phase::Closed => None,
        };
        let Some(Start { kind, handle, place }) = start else { return };
        let socket = Arc::clone(socket);
        let event = move |outcome: Result<(), Error>| {
            let error = outcome.err().map_or(0, |error| error.errno().raw_os_error());
            Event { kind, socket: socket.number(), handle, error, detail: Detail::None }
        };
        match closing {
            Some(op) => place.follow(op, event),
            None => place.post(event(Ok(()))),
        }
    }

    /// # Errors
    /// `ENOTCONN`.
    pub(crate) fn peer(&self) -> Result<Peer, Errno> {
        match &self.state().phase {
            Phase::Connected(peer) => Ok(peer.clone()),
            _ => Err(Errno::NOTCONN),
        }
    }

    /// # Errors
    /// `EINVAL` if the socket does not listen.
    pub(super) fn acceptor(&self) -> Result<Arc<Acceptor>, Errno> {
        match &self.state().phase {
            Phase::Listening(acceptor) => Ok(Arc::clone(acceptor)),
            _ => Err(Errno::INVAL),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn started(&self) -> MutexGuard<'_, Started> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether an operation with this error was not started.
const fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Full | Error::Range | Error::ForeignMemory | Error::MessageSize | Error::Memory(_))
}

/// Connections that a listener holds at most.
const MAX_BACKLOG: usize = 4096;
