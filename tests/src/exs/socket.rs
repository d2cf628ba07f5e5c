//! A socket of either kind.

use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use std::future::Future;
use std::net::SocketAddr;

use weft_exs::{Buf, Context, Error, Messages, Op, Options, Outcome, Socket as ExsSocket, Stream};
use weft_exs_core::Kind;

/// A transfer under way.
pub(super) type Transfer = Op<(Result<Outcome, Error>, Buf)>;
/// Asks for a socket that is connecting, or that comes.
pub(super) type Coming = Box<dyn FnMut() -> Option<Result<Socket, Error>>>;

/// A socket of either kind.
pub(super) enum Socket {
    Messages(ExsSocket<Messages>),
    Stream(ExsSocket<Stream>),
}

/// A listener of either kind.
pub(super) enum Listener {
    Messages(weft_exs::Listener<Messages>),
    Stream(weft_exs::Listener<Stream>),
}

/// Returns what has come of an operation, if it has ended.
pub(super) fn taken<T>(op: &mut Op<T>) -> Option<T> {
    match Pin::new(op).poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// Connects.
pub(super) fn connect(context: &Context, kind: Kind, peer: SocketAddr, options: &Options) -> Coming {
    match kind {
        Kind::Message => coming(context.connect(peer, options), Socket::Messages),
        Kind::Stream => coming(context.connect(peer, options), Socket::Stream),
    }
}

fn coming<S: 'static>(mut op: Op<Result<S, Error>>, wrap: fn(S) -> Socket) -> Coming {
    Box::new(move || taken(&mut op).map(|outcome| outcome.map(wrap)))
}

impl Listener {
    pub(super) fn new(context: &Context, kind: Kind, port: u16, options: &Options) -> Result<Self, Error> {
        Ok(match kind {
            Kind::Message => Self::Messages(context.listen(port, options)?),
            Kind::Stream => Self::Stream(context.listen(port, options)?),
        })
    }

    pub(super) fn accept(&self) -> Coming {
        match self {
            Self::Messages(listener) => coming(listener.accept(), Socket::Messages),
            Self::Stream(listener) => coming(listener.accept(), Socket::Stream),
        }
    }
}

impl Socket {
    pub(super) fn send(&self, buf: Buf, start: usize, len: usize) -> Transfer {
        match self {
            Self::Messages(socket) => socket.send(buf, start..start + len),
            Self::Stream(socket) => socket.send(buf, start..start + len),
        }
    }

    /// Receives; of a stream, with `waits_for_all`, until the octets are all there.
    pub(super) fn receive(&self, buf: Buf, start: usize, len: usize, waits_for_all: bool) -> Transfer {
        match self {
            Self::Messages(socket) => socket.recv(buf, start..start + len),
            Self::Stream(socket) if waits_for_all => socket.recv_all(buf, start..start + len),
            Self::Stream(socket) => socket.recv(buf, start..start + len),
        }
    }

    pub(super) fn shutdown(&self) {
        match self {
            Self::Messages(socket) => socket.shutdown(),
            Self::Stream(socket) => socket.shutdown(),
        }
    }

    pub(super) fn shutdown_receive(&self) {
        match self {
            Self::Messages(socket) => socket.shutdown_receive(),
            Self::Stream(socket) => socket.shutdown_receive(),
        }
    }

    pub(super) fn cancel_all(&self) -> usize {
        match self {
            Self::Messages(socket) => socket.cancel_all(),
            Self::Stream(socket) => socket.cancel_all(),
        }
    }

    pub(super) fn close(&self) -> Op<Result<(), Error>> {
        match self {
            Self::Messages(socket) => socket.close(),
            Self::Stream(socket) => socket.close(),
        }
    }
}
