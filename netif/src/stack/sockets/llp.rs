//! One connection on smoltcp's TCP as the lower layer protocol.

use smoltcp::socket::tcp::State;

use super::connection::Connection;
use crate::llp::state::{CloseCause, LlpState};

/// A connection on smoltcp's TCP, borrowed from its stack; used through [`Llp`](crate::Llp).
#[derive(Debug)]
pub struct TcpLlp<'a> {
    pub(super) connection: &'a mut Connection,
}

impl TcpLlp<'_> {
    pub(crate) fn readable(&mut self) -> &[u8] {
        // An error means that no octets are there and none will come.
        self.connection.socket_mut().peek(usize::MAX).unwrap_or_default()
    }

    pub(crate) fn peek(&mut self, octets: &mut [u8]) -> usize {
        self.connection.socket_mut().peek_slice(octets).unwrap_or(0)
    }

    pub(crate) fn unread(&self) -> usize {
        self.connection.socket().recv_queue()
    }

    pub(crate) fn consume(&mut self, mut n: usize) {
        let socket = self.connection.socket_mut();
        while n > 0 && socket.can_recv() {
            let step = socket.recv(|octets| (octets.len().min(n), octets.len().min(n)));
            n -= step.unwrap_or(n);
        }
    }

    pub(crate) fn transmit<R>(&mut self, f: impl FnOnce(&mut [u8]) -> (usize, R)) -> Option<R> {
        let sent = self.connection.socket_mut().send(|room| {
            let (len, result) = f(room);
            let len = len.min(room.len());
            (len, (len, result))
        });
        let (len, result) = sent.ok()?;
        self.connection.note_queued(len, true);
        Some(result)
    }

    pub(crate) fn send_slice(&mut self, octets: &[u8]) -> usize {
        // An error means that nothing can be sent, as if there was no room.
        let len = self.connection.socket_mut().send_slice(octets).unwrap_or(0);
        self.connection.note_queued(len, false);
        len
    }

    pub(crate) fn shutdown(&mut self) {
        self.connection.is_urgent = true;
        let opening = self.connection.socket().state() == State::SynSent;
        self.connection.socket_mut().close();
        if opening {
            self.connection.end.get_or_insert(CloseCause::Aborted);
        }
    }

    pub(crate) fn abort(&mut self) {
        self.connection.is_urgent = true;
        self.connection.abort(CloseCause::Aborted);
    }

    pub(crate) fn state(&self) -> LlpState {
        self.connection.llp_state()
    }

    pub(crate) const fn cause(&self) -> Option<CloseCause> {
        self.connection.end
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.connection.peer_finished && !self.connection.socket().can_recv()
    }

    pub(crate) fn room(&self) -> usize {
        let socket = self.connection.socket();
        if socket.may_send() { socket.send_capacity() - socket.send_queue() } else { 0 }
    }

    pub(crate) fn unsent(&self) -> usize {
        self.connection.socket().send_queue()
    }

    pub(crate) fn emss(&self) -> usize {
        self.connection.emss()
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.connection.peer_finished
    }

    pub(crate) fn capacity(&self) -> usize {
        self.connection.socket().send_capacity()
    }

    pub(crate) fn segment_room(&self) -> usize {
        self.connection.segment_room()
    }
}
