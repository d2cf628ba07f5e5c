//! A connected socket, or one that listens, of either type.

use core::ops::Range;
use core::pin::Pin;
use core::task::{Context as Task, Poll, Waker};
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;
use weft_exs::{
    Context, Error, Listener, Messages, Octets, Op, Options, Outcome, Ready, Received, Socket, Stream,
};

use super::wait::finish;

/// A connected socket.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    Stream(Socket<Stream>),
    Messages(Socket<Messages>),
}

/// What accepts sockets.
#[derive(Debug)]
pub(crate) enum Acceptor {
    Stream(Listener<Stream>),
    Messages(Listener<Messages>),
}

/// A socket that is to come.
#[derive(Debug)]
pub(crate) enum Coming {
    Stream(Op<Result<Socket<Stream>, Error>>),
    Messages(Op<Result<Socket<Messages>, Error>>),
    /// It is there, or will never be.
    Here(Result<Peer, Error>),
}

impl Peer {
    pub(crate) fn send<M: Octets>(&self, memory: M, range: Range<usize>) -> Op<(Result<Outcome, Error>, M)> {
        match self {
            Self::Stream(socket) => socket.send(memory, range),
            Self::Messages(socket) => socket.send(memory, range),
        }
    }

    /// Sends pieces of registered memory one behind the other.
    #[expect(clippy::type_complexity, reason = "the pieces come back as they were given")]
    pub(crate) fn send_pieces<M: Octets>(
        &self,
        pieces: Vec<(M, Range<usize>)>,
    ) -> Op<(Result<Outcome, Error>, Vec<(M, Range<usize>)>)> {
        match self {
            Self::Stream(socket) => socket.send_vectored(pieces),
            Self::Messages(socket) => socket.send_vectored(pieces),
        }
    }

    /// Receives. A message is received whole whatever `waits_for_all` says.
    pub(crate) fn receive<M: Octets>(
        &self,
        memory: M,
        range: Range<usize>,
        waits_for_all: bool,
    ) -> Op<(Result<Outcome, Error>, M)> {
        match self {
            Self::Stream(socket) if waits_for_all => socket.recv_all(memory, range),
            Self::Stream(socket) => socket.recv(memory, range),
            Self::Messages(socket) => socket.recv(memory, range),
        }
    }

    /// Receives a message, and leaves it where it came if it is immediate data.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for a stream.
    #[expect(clippy::type_complexity, reason = "an operation, or a number")]
    pub(crate) fn receive_in_place<M: Octets>(
        &self,
        memory: M,
        range: Range<usize>,
    ) -> Result<Op<(Result<Received, Error>, M)>, Errno> {
        match self {
            Self::Stream(_) => Err(Errno::OPNOTSUPP),
            Self::Messages(socket) => Ok(socket.recv_in_place(memory, range)),
        }
    }

    pub(crate) fn shut_down(&self) {
        match self {
            Self::Stream(socket) => socket.shutdown(),
            Self::Messages(socket) => socket.shutdown(),
        }
    }

    pub(crate) fn shut_down_receiving(&self) {
        match self {
            Self::Stream(socket) => socket.shutdown_receive(),
            Self::Messages(socket) => socket.shutdown_receive(),
        }
    }

    /// Returns the options as they hold with this peer.
    pub(crate) fn options(&self) -> Options {
        match self {
            Self::Stream(socket) => socket.options(),
            Self::Messages(socket) => socket.options(),
        }
    }

    pub(crate) fn set_linger(&self, linger: Duration) {
        match self {
            Self::Stream(socket) => socket.set_linger(linger),
            Self::Messages(socket) => socket.set_linger(linger),
        }
    }

    pub(crate) fn set_timeout(&self, is_of_sends: bool, timeout: Option<Duration>) {
        match (self, is_of_sends) {
            (Self::Stream(socket), true) => socket.set_send_timeout(timeout),
            (Self::Stream(socket), false) => socket.set_recv_timeout(timeout),
            (Self::Messages(socket), true) => socket.set_send_timeout(timeout),
            (Self::Messages(socket), false) => socket.set_recv_timeout(timeout),
        }
    }

    pub(crate) fn ready(&self) -> Ready {
        match self {
            Self::Stream(socket) => socket.ready(),
            Self::Messages(socket) => socket.ready(),
        }
    }

    pub(crate) fn poll_ready(&self, wanted: Ready) -> Op<Ready> {
        match self {
            Self::Stream(socket) => socket.poll_ready(wanted),
            Self::Messages(socket) => socket.poll_ready(wanted),
        }
    }

    pub(crate) fn close(&self) -> Op<Result<(), Error>> {
        match self {
            Self::Stream(socket) => socket.close(),
            Self::Messages(socket) => socket.close(),
        }
    }

    /// Returns the own end and the peer's.
    pub(crate) fn addresses(&self) -> Option<[SocketAddr; 2]> {
        match self {
            Self::Stream(socket) => socket.addresses(),
            Self::Messages(socket) => socket.addresses(),
        }
    }

    pub(crate) const fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }
}

impl Acceptor {
    pub(crate) fn listen(
        context: &Context,
        is_stream: bool,
        at: SocketAddr,
        options: &Options,
    ) -> Result<Self, Error> {
        Ok(if is_stream {
            Self::Stream(context.listen(at, options)?)
        } else {
            Self::Messages(context.listen(at, options)?)
        })
    }

    pub(crate) fn accept(&self) -> Coming {
        match self {
            Self::Stream(listener) => Coming::Stream(listener.accept()),
            Self::Messages(listener) => Coming::Messages(listener.accept()),
        }
    }

    pub(crate) const fn local_addr(&self) -> SocketAddr {
        match self {
            Self::Stream(listener) => listener.local_addr(),
            Self::Messages(listener) => listener.local_addr(),
        }
    }
}

impl Coming {
    /// Begins to connect, from this address if there is one.
    pub(crate) fn connect(
        context: &Context,
        is_stream: bool,
        (local, peer): (Option<SocketAddr>, SocketAddr),
        options: &Options,
    ) -> Self {
        if is_stream {
            Self::Stream(context.connect_from(local, peer, options))
        } else {
            Self::Messages(context.connect_from(local, peer, options))
        }
    }

    /// Blocks until the socket is there.
    ///
    /// # Errors
    /// `EINTR`, and what is still to come.
    pub(crate) fn wait(self) -> Result<Result<Peer, Error>, (Errno, Self)> {
        match self {
            Self::Stream(op) => waited(op, Peer::Stream, Self::Stream),
            Self::Messages(op) => waited(op, Peer::Messages, Self::Messages),
            Self::Here(outcome) => Ok(outcome),
        }
    }

    /// Looks whether the socket is there. If it is not, the waker is woken when it is.
    pub(crate) fn look(self, waker: &Waker) -> Self {
        let mut task = Task::from_waker(waker);
        match self {
            Self::Stream(mut op) => match Pin::new(&mut op).poll(&mut task) {
                Poll::Ready(outcome) => Self::Here(outcome.map(Peer::Stream)),
                Poll::Pending => Self::Stream(op),
            },
            Self::Messages(mut op) => match Pin::new(&mut op).poll(&mut task) {
                Poll::Ready(outcome) => Self::Here(outcome.map(Peer::Messages)),
                Poll::Pending => Self::Messages(op),
            },
            here @ Self::Here(_) => here,
        }
    }
}

fn waited<T>(
    op: Op<Result<T, Error>>,
    peer: fn(T) -> Peer,
    coming: fn(Op<Result<T, Error>>) -> Coming,
) -> Result<Result<Peer, Error>, (Errno, Coming)> {
    let mut op = Some(op);
    match (finish(&mut op, None), op) {
        (Ok(outcome), _) => Ok(outcome.map(peer)),
        (Err(errno), Some(op)) => Err((errno, coming(op))),
        (Err(_), None) => Ok(Err(Error::Canceled)),
    }
}
