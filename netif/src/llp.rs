use smoltcp::socket::tcp::State;

use crate::connection::{CloseCause, Connection};

/// The lower layer protocol of one connection: a reliable byte stream in each direction. Borrowed from
/// [`Stack::llp`](crate::Stack::llp); what is changed here goes out at the next egress.
#[derive(Debug)]
pub enum Llp<'a> {
    /// The TCP of this process.
    Tcp(TcpLlp<'a>),
}

/// A connection of the user-space TCP, borrowed from its stack; used through [`Llp`].
#[derive(Debug)]
pub struct TcpLlp<'a> {
    pub(crate) connection: &'a mut Connection,
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlpState {
    /// The peer has not answered yet.
    Connecting,
    /// The peer may send. So it is after [`Llp::shutdown`] too, as long as the peer has not sent its FIN.
    Established,
    /// The peer's FIN has come; what it sent before may be still unread. This side may send.
    PeerClosed,
    /// Both sides have closed, and neither lost anything.
    Closed,
    /// Ended by RST, timeout or an abort; [`Llp::cause`] says which. What had arrived before can be read.
    Reset,
}

impl Llp<'_> {
    /// The received octets in front, as far as they lie in one piece; empty when there are none.
    pub fn readable(&mut self) -> &[u8] {
        let Self::Tcp(tcp) = self;
        // The only errors say that nothing is there and nothing will come.
        tcp.connection.socket_mut().peek(usize::MAX).unwrap_or_default()
    }

    /// Takes `n` received octets off the front, which makes room for the peer; at most as many as there are.
    pub fn consume(&mut self, mut n: usize) {
        let Self::Tcp(tcp) = self;
        let socket = tcp.connection.socket_mut();
        while n > 0 && socket.can_recv() {
            let step = socket.recv(|octets| (octets.len().min(n), octets.len().min(n)));
            n -= step.unwrap_or(n);
        }
    }

    /// Lets `f` write into the free part of the send buffer that lies in one piece (empty when the buffer is
    /// full), and queues as many octets as `f` says first. None, without a call of `f`, when nothing can be
    /// sent any more, or not yet.
    pub fn transmit<R>(&mut self, f: impl FnOnce(&mut [u8]) -> (usize, R)) -> Option<R> {
        let Self::Tcp(tcp) = self;
        let sent = tcp.connection.socket_mut().send(|room| {
            let (len, result) = f(room);
            let len = len.min(room.len());
            (len, (len, result))
        });
        let (len, result) = sent.ok()?;
        tcp.connection.mark.note_queued(len);
        Some(result)
    }

    /// Queues as much of `octets` as there is room for, and says how much that is.
    pub fn send_slice(&mut self, octets: &[u8]) -> usize {
        let Self::Tcp(tcp) = self;
        // An error says that nothing can be sent: the same as no room.
        let len = tcp.connection.socket_mut().send_slice(octets).unwrap_or(0);
        tcp.connection.mark.note_queued(len);
        len
    }

    /// Closes the sending direction: FIN after what is queued. A connection that is not established yet is
    /// given up.
    pub fn shutdown(&mut self) {
        let Self::Tcp(tcp) = self;
        let opening = tcp.connection.socket().state() == State::SynSent;
        tcp.connection.socket_mut().close();
        if opening {
            tcp.connection.end.get_or_insert(CloseCause::Aborted);
        }
    }

    /// Ends the connection by RST; what is queued is lost.
    pub fn abort(&mut self) {
        let Self::Tcp(tcp) = self;
        tcp.connection.abort(CloseCause::Aborted);
    }

    /// How far the connection has come.
    #[must_use]
    pub fn state(&self) -> LlpState {
        let Self::Tcp(tcp) = self;
        tcp.connection.llp_state()
    }

    /// How the connection ended; none while it has not.
    #[must_use]
    pub const fn cause(&self) -> Option<CloseCause> {
        let Self::Tcp(tcp) = self;
        tcp.connection.end
    }

    /// The peer's FIN has come, and everything before it was read.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let Self::Tcp(tcp) = self;
        tcp.connection.peer_finished && !tcp.connection.socket().can_recv()
    }

    /// Free octets of the send buffer, in all its pieces; 0 when nothing can be sent.
    #[must_use]
    pub fn room(&self) -> usize {
        let Self::Tcp(tcp) = self;
        let socket = tcp.connection.socket();
        if socket.may_send() { socket.send_capacity() - socket.send_queue() } else { 0 }
    }

    /// Octets that were queued and the peer has not acknowledged, sent or not.
    #[must_use]
    pub fn unsent(&self) -> usize {
        let Self::Tcp(tcp) = self;
        tcp.connection.socket().send_queue()
    }

    /// The effective maximum segment size: octets of payload in the largest segment that may be sent. The
    /// least of the peer's MSS option (without one 536, or 1220 on IPv6) and what the own MTU leaves.
    #[must_use]
    pub fn emss(&self) -> usize {
        let Self::Tcp(tcp) = self;
        tcp.connection.emss()
    }
}
