//! A byte stream on a TCP socket of smoltcp's, whose interface is the caller's.

use smoltcp::socket::tcp::{Socket, State};

use super::state::{CloseCause, LlpState};

/// What is known of a connection on a socket of smoltcp's besides the socket. The caller owns interface, device and
/// sockets, keeps one of these for each connection, and borrows the connection after each poll of the interface.
///
/// A stream makes no promise of where segments begin. How long a silent peer is waited for is a setting of the socket
/// (`Socket::set_timeout`).
#[derive(Debug, Clone)]
pub struct SocketStream {
    emss: usize,
    last: State,
    peer_finished: bool,
    end: Option<CloseCause>,
}

/// A connection on a socket of smoltcp's, used through [`Llp::Socket`](crate::Llp::Socket).
#[derive(Debug)]
pub struct SocketLlp<'a> {
    socket: &'a mut Socket<'static>,
    stream: &'a mut SocketStream,
}

impl SocketStream {
    /// `emss` is the payload of the largest segment in octets: on Ethernet with IPv4 the MTU less 40. It decides how
    /// long FPDUs get (RFC 5044 section 4.5).
    #[must_use]
    pub const fn new(emss: usize) -> Self {
        Self { emss, last: State::Closed, peer_finished: false, end: None }
    }

    /// Borrows the connection. `socket` is the same one each time, and connects or listens already.
    pub fn llp<'a>(&'a mut self, socket: &'a mut Socket<'static>) -> SocketLlp<'a> {
        self.observe(socket.state());
        SocketLlp { socket, stream: self }
    }

    /// Learns how the connection ends from a change of the socket's state: a socket that is closed does not tell.
    fn observe(&mut self, state: State) {
        let last = core::mem::replace(&mut self.last, state);
        match state {
            State::CloseWait | State::Closing | State::LastAck => self.peer_finished = true,
            State::TimeWait => {
                self.peer_finished = true;
                self.end.get_or_insert(CloseCause::Graceful);
            }
            State::Closed => {
                self.end.get_or_insert(match last {
                    State::SynSent => CloseCause::Refused,
                    State::LastAck => CloseCause::Graceful,
                    _ => CloseCause::Reset,
                });
            }
            _ => {}
        }
    }
}

impl SocketLlp<'_> {
    pub(super) fn readable(&mut self) -> &[u8] {
        // An error means that no octets are there and none will come.
        self.socket.peek(usize::MAX).unwrap_or_default()
    }

    pub(super) fn peek(&mut self, octets: &mut [u8]) -> usize {
        self.socket.peek_slice(octets).unwrap_or(0)
    }

    pub(super) fn unread(&self) -> usize {
        self.socket.recv_queue()
    }

    pub(super) fn consume(&mut self, mut n: usize) {
        while n > 0 && self.socket.can_recv() {
            let step = self.socket.recv(|octets| (octets.len().min(n), octets.len().min(n)));
            n -= step.unwrap_or(n);
        }
    }

    pub(super) fn transmit<R>(&mut self, f: impl FnOnce(&mut [u8]) -> (usize, R)) -> Option<R> {
        let sent = self.socket.send(|room| {
            let (len, result) = f(room);
            (len.min(room.len()), result)
        });
        sent.ok()
    }

    pub(super) fn send_slice(&mut self, octets: &[u8]) -> usize {
        // An error means that nothing can be sent, as if there was no room.
        self.socket.send_slice(octets).unwrap_or(0)
    }

    pub(super) fn shutdown(&mut self) {
        if self.socket.state() == State::SynSent {
            self.stream.end.get_or_insert(CloseCause::Aborted);
        }
        self.socket.close();
        self.stream.observe(self.socket.state());
    }

    pub(super) fn abort(&mut self) {
        self.stream.end.get_or_insert(CloseCause::Aborted);
        self.socket.abort();
        self.stream.observe(self.socket.state());
    }

    pub(super) fn state(&self) -> LlpState {
        match (self.stream.end, self.socket.state()) {
            (Some(CloseCause::Graceful), _) | (None, State::TimeWait) => LlpState::Closed,
            (Some(_), _) | (None, State::Closed) => LlpState::Reset,
            (None, State::Listen | State::SynSent | State::SynReceived) => LlpState::Connecting,
            (None, State::Established | State::FinWait1 | State::FinWait2) => LlpState::Established,
            (None, State::CloseWait | State::Closing | State::LastAck) => LlpState::PeerClosed,
        }
    }

    pub(super) const fn cause(&self) -> Option<CloseCause> {
        self.stream.end
    }

    pub(super) fn is_drained(&self) -> bool {
        self.stream.peer_finished && !self.socket.can_recv()
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.stream.peer_finished
    }

    pub(super) fn room(&self) -> usize {
        if self.socket.may_send() { self.socket.send_capacity() - self.socket.send_queue() } else { 0 }
    }

    pub(super) fn capacity(&self) -> usize {
        self.socket.send_capacity()
    }

    pub(super) fn unsent(&self) -> usize {
        self.socket.send_queue()
    }

    pub(super) const fn emss(&self) -> usize {
        self.stream.emss
    }
}
