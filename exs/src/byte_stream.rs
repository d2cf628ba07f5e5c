//! A stream as runtimes have them: octets in order, without buffers that go in and come back.

use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, ready};
use std::future::Future;
use std::io;

use weft_exs_core::Outcome;

use crate::buf::Buf;
use crate::context::Context;
use crate::error::Error;
use crate::kind::Stream;
use crate::op::Op;
use crate::socket::Socket;

/// A stream socket for code that reads and writes slices: `AsyncRead` and `AsyncWrite` of tokio and of futures-io, by the
/// features `tokio` and `futures-io`.
///
/// It has a registered buffer of 64 KiB each way, and copies octets once between it and the caller's. A write returns when
/// its octets are in the buffer. If they could not be sent, the next write or flush tells. Closing the writing side sends
/// what was written and tells the peer, and reading goes on. The socket is closed in the background when this is dropped.
#[derive(Debug)]
pub struct ByteStream {
    socket: Socket<Stream>,
    incoming: Incoming,
    outgoing: Side,
}

/// What has been received and not read.
#[derive(Debug)]
struct Incoming {
    side: Side,
    read: usize,
    received: usize,
    /// The peer sends nothing more.
    is_over: bool,
}

/// The buffer of a direction.
#[derive(Debug)]
enum Side {
    Idle(Buf),
    Busy(Op<Ended>),
    /// Only while a call changes it.
    Moving,
}

type Ended = (Result<Outcome, Error>, Buf);

impl ByteStream {
    /// Takes a socket, which may have been used before. Its operations under way come first.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn new(context: &Context, socket: Socket<Stream>) -> Result<Self, Error> {
        let side = || context.buffer(BUFFER).map(Side::Idle);
        let incoming = Incoming { side: side()?, read: 0, received: 0, is_over: false };
        Ok(Self { socket, incoming, outgoing: side()? })
    }

    /// Returns the socket, for its addresses and options.
    #[must_use]
    pub const fn socket(&self) -> &Socket<Stream> {
        &self.socket
    }

    /// Returns octets that have been received and not read, once there are some. None: the peer sends nothing more.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn poll_fill(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Result<&[u8]>> {
        let incoming = &mut self.incoming;
        while incoming.read == incoming.received && !incoming.is_over {
            let start = |buf| self.socket.recv(buf, ..);
            let outcome = ready!(incoming.side.poll(task, start))?;
            (incoming.read, incoming.received) = (0, outcome.octets as usize);
            incoming.is_over = outcome.octets == 0;
        }
        let Side::Idle(buf) = &incoming.side else { return Poll::Ready(Ok(&[])) };
        Poll::Ready(Ok(buf.get(incoming.read..incoming.received).unwrap_or_default()))
    }

    /// Notes that so many octets have been read.
    pub fn consume(&mut self, octets: usize) {
        let incoming = &mut self.incoming;
        incoming.read = incoming.read.saturating_add(octets).min(incoming.received);
    }

    /// Copies octets into the buffer, once it is free, and has them sent. Returns how many.
    ///
    /// # Errors
    /// What was written before could not be sent.
    pub fn poll_send(&mut self, task: &mut TaskContext<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(task))?;
        let len = octets.len().min(BUFFER);
        if len > 0
            && let Some(mut buf) = self.outgoing.take()
        {
            buf[..len].copy_from_slice(&octets[..len]);
            self.outgoing = Side::Busy(self.socket.send(buf, ..len));
        }
        Poll::Ready(Ok(len))
    }

    /// Waits until what was written has been sent.
    ///
    /// # Errors
    /// It could not be sent.
    pub fn poll_sent(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        if matches!(self.outgoing, Side::Busy(_)) {
            ready!(self.outgoing.poll_end(task))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until what was written has been sent, and tells the peer that nothing more comes.
    ///
    /// # Errors
    /// It could not be sent.
    pub fn poll_shutdown(&mut self, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(task))?;
        self.socket.shutdown();
        Poll::Ready(Ok(()))
    }

    fn poll_into(&mut self, task: &mut TaskContext<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        let octets = ready!(self.poll_fill(task))?;
        let len = octets.len().min(out.len());
        out[..len].copy_from_slice(&octets[..len]);
        self.consume(len);
        Poll::Ready(Ok(len))
    }
}

impl Side {
    /// Starts an operation unless one is under way, and returns its outcome.
    fn poll(
        &mut self,
        task: &mut TaskContext<'_>,
        start: impl FnOnce(Buf) -> Op<Ended>,
    ) -> Poll<Result<Outcome, Error>> {
        if let Some(buf) = self.take() {
            *self = Self::Busy(start(buf));
        }
        self.poll_end(task)
    }

    /// Returns the outcome of the operation that is under way.
    fn poll_end(&mut self, task: &mut TaskContext<'_>) -> Poll<Result<Outcome, Error>> {
        let Self::Busy(op) = self else { return Poll::Ready(Err(Error::Canceled)) };
        let (result, buf) = ready!(Pin::new(op).poll(task));
        *self = Self::Idle(buf);
        Poll::Ready(result)
    }

    /// Takes the buffer out if no operation has it.
    fn take(&mut self) -> Option<Buf> {
        match core::mem::replace(self, Self::Moving) {
            Self::Idle(buf) => Some(buf),
            other => {
                *self = other;
                None
            }
        }
    }
}

#[cfg(feature = "tokio")]
mod tokio {
    use ::tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

    use super::*;

    impl AsyncRead for ByteStream {
        fn poll_read(
            mut self: Pin<&mut Self>,
            task: &mut TaskContext<'_>,
            out: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let len = ready!(self.poll_into(task, out.initialize_unfilled()))?;
            out.advance(len);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncBufRead for ByteStream {
        fn poll_fill_buf(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<&[u8]>> {
            self.get_mut().poll_fill(task)
        }

        fn consume(mut self: Pin<&mut Self>, octets: usize) {
            Self::consume(&mut self, octets);
        }
    }

    impl AsyncWrite for ByteStream {
        fn poll_write(
            mut self: Pin<&mut Self>,
            task: &mut TaskContext<'_>,
            octets: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.poll_send(task, octets)
        }

        fn poll_flush(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
            self.poll_sent(task)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
            Self::poll_shutdown(&mut self, task)
        }
    }
}

#[cfg(feature = "futures-io")]
mod futures {
    use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};

    use super::*;

    impl AsyncRead for ByteStream {
        fn poll_read(
            mut self: Pin<&mut Self>,
            task: &mut TaskContext<'_>,
            out: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            self.poll_into(task, out)
        }
    }

    impl AsyncBufRead for ByteStream {
        fn poll_fill_buf(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<&[u8]>> {
            self.get_mut().poll_fill(task)
        }

        fn consume(mut self: Pin<&mut Self>, octets: usize) {
            Self::consume(&mut self, octets);
        }
    }

    impl AsyncWrite for ByteStream {
        fn poll_write(
            mut self: Pin<&mut Self>,
            task: &mut TaskContext<'_>,
            octets: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.poll_send(task, octets)
        }

        fn poll_flush(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
            self.poll_sent(task)
        }

        fn poll_close(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
            self.poll_shutdown(task)
        }
    }
}

/// Octets of the buffer of each direction.
const BUFFER: usize = 64 << 10;
