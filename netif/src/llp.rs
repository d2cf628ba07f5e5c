//! The lower layer protocol: one connection, over any TCP.

use core::ops::Range;
use std::io;
use std::os::fd::BorrowedFd;

use crate::host::HostLlp;
use crate::stack::TcpLlp;
use crate::tcp::OwnLlp;

mod socket;
pub(crate) mod state;

pub use socket::{SocketLlp, SocketStream};
pub use state::{CloseCause, LlpState};

/// The lower layer protocol of one connection: a reliable byte stream in each direction. It is borrowed from
/// [`Stack::llp`](crate::Stack::llp), or from [`SocketStream::llp`]. Changes go out at the next egress.
#[derive(Debug)]
pub enum Llp<'a> {
    /// smoltcp's TCP.
    Tcp(TcpLlp<'a>),
    /// Weft's own TCP.
    Own(OwnLlp<'a>),
    /// The TCP of the kernel.
    Host(HostLlp<'a>),
    /// A TCP socket of smoltcp's, on an interface of the caller's.
    Socket(SocketLlp<'a>),
}

impl Llp<'_> {
    /// Returns the first received octets, as far as they lie in one piece; empty if there are none.
    pub fn readable(&mut self) -> &[u8] {
        match self {
            Self::Tcp(tcp) => tcp.readable(),
            Self::Own(own) => own.readable(),
            Self::Host(host) => host.readable(),
            Self::Socket(socket) => socket.readable(),
        }
    }

    /// Copies the first received octets, as many as `octets` holds, and returns how many there were. They stay where
    /// they are. The most is the size of the receive buffer.
    pub fn peek(&mut self, octets: &mut [u8]) -> usize {
        match self {
            Self::Tcp(tcp) => tcp.peek(octets),
            Self::Own(own) => own.peek(octets),
            Self::Host(host) => host.peek(octets),
            Self::Socket(socket) => socket.peek(octets),
        }
    }

    /// Returns how many received octets there are. If that is less than `wanted`, no more have come.
    pub fn unread(&mut self, wanted: usize) -> usize {
        match self {
            Self::Tcp(tcp) => tcp.unread(),
            Self::Own(own) => own.unread(),
            Self::Host(host) => host.unread(wanted),
            Self::Socket(socket) => socket.unread(),
        }
    }

    /// Takes the first `n` received octets away, at most as many as there are, which makes room for the peer.
    pub fn consume(&mut self, n: usize) {
        match self {
            Self::Tcp(tcp) => tcp.consume(n),
            Self::Own(own) => own.consume(n),
            Self::Host(host) => host.consume(n),
            Self::Socket(socket) => socket.consume(n),
        }
    }

    /// Hands `f` octets that lie behind a gap, each piece once, with their distance from what [`Llp::readable`] returns
    /// next. `f` adds the places in the piece of octets that it needs no more, in order. From then on
    /// [`Llp::placed`] counts them in their turn, one place after the other. The connection is reported when more octets
    /// lie behind a gap, from the first call on.
    ///
    /// Only Weft's own TCP has such octets.
    pub fn ahead(&mut self, f: impl FnMut((usize, &[u8]), &mut Vec<Range<usize>>)) {
        match self {
            Self::Own(own) => own.ahead(f),
            Self::Tcp(_) | Self::Host(_) | Self::Socket(_) => {}
        }
    }

    /// Returns how many octets come next whose place was given away by [`Llp::ahead`]. [`Llp::readable`] is empty then,
    /// and [`Llp::consume`] takes them away.
    #[must_use]
    pub fn placed(&self) -> usize {
        match self {
            Self::Own(own) => own.placed(),
            Self::Tcp(_) | Self::Host(_) | Self::Socket(_) => 0,
        }
    }

    /// Lets `f` write into free room: on Weft's own TCP the rest of the segment that is open, if that has at least
    /// `least` octets, and otherwise a new segment, so that the place never lies across two. Other kinds ignore `least`
    /// and offer the first free piece of the send buffer. The place is empty if the buffer is full.
    ///
    /// `f` returns how many octets to queue, and a result. Returns `None` without a call of `f` if nothing can be sent
    /// yet, or any more.
    pub fn transmit<R>(&mut self, least: usize, f: impl FnOnce(&mut [u8]) -> (usize, R)) -> Option<R> {
        match self {
            Self::Tcp(tcp) => tcp.transmit(f),
            Self::Own(own) => own.transmit(least, f),
            Self::Host(host) => host.transmit(f),
            Self::Socket(socket) => socket.transmit(f),
        }
    }

    /// Returns true if the place of [`Llp::transmit`] never lies across two segments.
    #[must_use]
    pub const fn keeps_segments(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    /// Queues as many of `octets` as there is room for, and returns how many.
    pub fn send_slice(&mut self, octets: &[u8]) -> usize {
        match self {
            Self::Tcp(tcp) => tcp.send_slice(octets),
            Self::Own(own) => own.send_slice(octets),
            Self::Host(host) => host.send_slice(octets),
            Self::Socket(socket) => socket.send_slice(octets),
        }
    }

    /// Returns true if [`Llp::send_directly`] works here.
    #[must_use]
    pub const fn sends_directly(&self) -> bool {
        matches!(self, Self::Host(_))
    }

    /// Returns true if [`Llp::send_directly`] may succeed now. After `false` the connection is reported again as soon
    /// as it may.
    #[must_use]
    pub fn takes_directly(&mut self) -> bool {
        match self {
            Self::Tcp(_) | Self::Own(_) | Self::Socket(_) => false,
            Self::Host(host) => host.takes_directly(),
        }
    }

    /// Lets `send` give `len` octets to the socket, behind those that are queued. Returns how many the kernel took. The
    /// caller has to queue the rest at once.
    pub fn send_directly(
        &mut self,
        len: usize,
        send: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> usize {
        match self {
            Self::Tcp(_) | Self::Own(_) | Self::Socket(_) => 0,
            Self::Host(host) => host.send_directly(len, send),
        }
    }

    /// Returns true if [`Llp::receive_directly`] works here.
    #[must_use]
    pub const fn receives_directly(&self) -> bool {
        matches!(self, Self::Host(_))
    }

    /// Returns true if received octets wait to be consumed. Then [`Llp::receive_directly`] receives nothing.
    #[must_use]
    pub const fn has_unread(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Own(_) | Self::Socket(_) => true,
            Self::Host(host) => host.has_unread(),
        }
    }

    /// Lets `receive` take octets off the socket. The next `len` octets may go to any place. Later ones go into the
    /// slice of `spare` octets that `receive` gets, and [`Llp::readable`] returns them. `receive` returns how many
    /// octets have come in all.
    ///
    /// Returns how many of the first `len` octets have come. This is 0 if none are there, or earlier octets are not
    /// consumed yet.
    pub fn receive_directly(
        &mut self,
        len: usize,
        spare: usize,
        receive: impl FnMut(BorrowedFd<'_>, &mut [u8]) -> io::Result<usize>,
    ) -> usize {
        match self {
            Self::Tcp(_) | Self::Own(_) | Self::Socket(_) => 0,
            Self::Host(host) => host.receive_directly(len, spare, receive),
        }
    }

    /// Closes the sending direction: FIN goes out behind what is queued. A connection that is not established yet is
    /// given up.
    pub fn shutdown(&mut self) {
        match self {
            Self::Tcp(tcp) => tcp.shutdown(),
            Self::Own(own) => own.shutdown(),
            Self::Host(host) => host.shutdown(),
            Self::Socket(socket) => socket.shutdown(),
        }
    }

    /// Ends the connection by RST. Queued octets are lost.
    pub fn abort(&mut self) {
        match self {
            Self::Tcp(tcp) => tcp.abort(),
            Self::Own(own) => own.abort(),
            Self::Host(host) => host.abort(),
            Self::Socket(socket) => socket.abort(),
        }
    }

    /// Returns the state of the connection.
    #[must_use]
    pub fn state(&self) -> LlpState {
        match self {
            Self::Tcp(tcp) => tcp.state(),
            Self::Own(own) => own.state(),
            Self::Host(host) => host.state(),
            Self::Socket(socket) => socket.state(),
        }
    }

    /// Returns how the connection ended, or `None` while it has not.
    #[must_use]
    pub fn cause(&self) -> Option<CloseCause> {
        match self {
            Self::Tcp(tcp) => tcp.cause(),
            Self::Own(own) => own.cause(),
            Self::Host(host) => host.cause(),
            Self::Socket(socket) => socket.cause(),
        }
    }

    /// Returns true if the peer's FIN has come and all octets before it were read.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.is_drained(),
            Self::Own(own) => own.is_drained(),
            Self::Host(host) => host.is_drained(),
            Self::Socket(socket) => socket.is_drained(),
        }
    }

    /// Returns true if the peer's FIN has come and all octets before it can be read or were read.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.is_complete(),
            Self::Own(own) => own.is_complete(),
            Self::Host(host) => host.is_complete(),
            Self::Socket(socket) => socket.is_complete(),
        }
    }

    /// Returns the free octets of the send buffer, in all its pieces; 0 if nothing can be sent.
    #[must_use]
    pub fn room(&self) -> usize {
        match self {
            Self::Tcp(tcp) => tcp.room(),
            Self::Own(own) => own.room(),
            Self::Host(host) => host.room(),
            Self::Socket(socket) => socket.room(),
        }
    }

    /// Returns the size of the send buffer in octets.
    #[must_use]
    pub fn capacity(&self) -> usize {
        match self {
            Self::Tcp(tcp) => tcp.capacity(),
            Self::Own(own) => own.capacity(),
            Self::Host(host) => host.capacity(),
            Self::Socket(socket) => socket.capacity(),
        }
    }

    /// Returns true if this many octets of the send buffer are free. After `false` the connection is reported again
    /// as soon as it has more room.
    #[must_use]
    pub fn has_room(&mut self, needed: usize) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.room() >= needed,
            Self::Own(own) => own.room() >= needed,
            Self::Host(host) => host.has_room(needed),
            Self::Socket(socket) => socket.room() >= needed,
        }
    }

    /// Returns how many queued octets, sent or not, the peer has not acknowledged. After a result above 0 the
    /// connection is reported again when there are fewer.
    #[must_use]
    pub fn unsent(&mut self) -> usize {
        match self {
            Self::Tcp(tcp) => tcp.unsent(),
            Self::Own(own) => own.unsent(),
            Self::Host(host) => host.unsent(),
            Self::Socket(socket) => socket.unsent(),
        }
    }

    /// Returns the effective maximum segment size: octets of payload in the largest segment that may be sent. It is
    /// the smaller one of two: the peer's MSS option (without it 536, or 1220 on IPv6), and the own MTU less the
    /// headers.
    #[must_use]
    pub fn emss(&self) -> usize {
        match self {
            Self::Tcp(tcp) => tcp.emss(),
            Self::Own(own) => own.emss(),
            Self::Host(host) => host.emss(),
            Self::Socket(socket) => socket.emss(),
        }
    }

    /// Returns how many more octets fit into the segment that will carry the next octet queued. This is [`Llp::emss`]
    /// if the segment begins there. If a caller ends a unit with that segment, the next segment begins with a unit.
    /// The result is a forecast, as segments are cut when they are sent. `None` if another TCP cuts segments.
    #[must_use]
    pub fn segment_room(&self) -> Option<usize> {
        match self {
            Self::Tcp(tcp) => Some(tcp.segment_room()),
            Self::Own(_) | Self::Host(_) | Self::Socket(_) => None,
        }
    }
}
