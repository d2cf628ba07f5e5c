//! One connection of the kernel's TCP, as its user sees it.

use std::io;
use std::os::fd::BorrowedFd;

use super::buffer::Pool;
use super::connection::{Connection, Received};
use crate::counters::HostCounters;
use crate::llp::state::{CloseCause, LlpState};

/// A connection of the kernel's TCP, borrowed from its stack. [`Llp`](crate::Llp) has its methods.
#[derive(Debug)]
pub struct HostLlp<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) pool: &'a mut Pool,
    pub(super) counters: &'a mut HostCounters,
}

impl HostLlp<'_> {
    pub(crate) fn readable(&mut self) -> &[u8] {
        self.connection.readable(self.pool, self.counters)
    }

    pub(crate) fn peek(&mut self, octets: &mut [u8]) -> usize {
        self.connection.fill_up_to(octets.len(), self.pool, self.counters);
        self.connection.inbox.copy_to(octets)
    }

    pub(crate) fn unread(&mut self, wanted: usize) -> usize {
        self.connection.fill_up_to(wanted, self.pool, self.counters);
        self.connection.inbox.len()
    }

    pub(crate) fn consume(&mut self, n: usize) {
        self.connection.inbox.pop(n);
    }

    pub(crate) fn transmit<R>(&mut self, f: impl FnOnce(&mut [u8]) -> (usize, R)) -> Option<R> {
        if !self.connection.may_send() {
            return None;
        }
        let full = self.connection.outbox.len() == self.pool.ring_len();
        let room = if full { &mut [][..] } else { self.connection.outbox.free_piece(self.pool) };
        let (len, result) = f(room);
        let len = len.min(room.len());
        self.connection.outbox.push(len);
        Some(result)
    }

    pub(crate) fn send_slice(&mut self, octets: &[u8]) -> usize {
        if !self.connection.may_send() {
            return 0;
        }
        let taken = self.connection.outbox.push_slice(octets, self.pool);
        self.connection.wants_room |= taken < octets.len();
        taken
    }

    pub(crate) fn takes_directly(&mut self) -> bool {
        let takes = self.connection.takes_more();
        self.connection.wants_room |= !takes;
        takes
    }

    pub(crate) fn send_directly(
        &mut self,
        len: usize,
        send: impl FnOnce(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> usize {
        self.connection.send_directly(len, send, self.counters)
    }

    pub(crate) const fn has_unread(&self) -> bool {
        !self.connection.inbox.is_empty()
    }

    pub(crate) fn receive_directly(
        &mut self,
        len: usize,
        spare: usize,
        mut receive: impl FnMut(BorrowedFd<'_>, &mut [u8]) -> io::Result<usize>,
    ) -> usize {
        let mut direct = 0;
        let receive = |socket: BorrowedFd<'_>, room: &mut [u8]| {
            let room = room.get_mut(..spare).unwrap_or_default();
            let received = receive(socket, room)?;
            direct = received.min(len);
            Ok(Received { octets: received, kept: received - direct, wanted: len + room.len() })
        };
        if !self.has_unread() {
            self.connection.receive_by(receive, self.pool, self.counters);
        }
        self.connection.is_awaited = direct < len;
        self.counters.octets_placed += direct as u64;
        direct
    }

    pub(crate) fn shutdown(&mut self) {
        self.connection.shutdown();
    }

    pub(crate) fn abort(&mut self) {
        self.connection.abort(CloseCause::Aborted);
    }

    pub(crate) fn state(&self) -> LlpState {
        self.connection.state()
    }

    pub(crate) const fn cause(&self) -> Option<CloseCause> {
        self.connection.end
    }

    pub(crate) const fn is_drained(&self) -> bool {
        self.connection.is_drained()
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.connection.is_at_end()
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.pool.ring_len()
    }

    pub(crate) const fn room(&self) -> usize {
        if self.connection.may_send() { self.pool.ring_len() - self.connection.outbox.len() } else { 0 }
    }

    pub(crate) const fn has_room(&mut self, needed: usize) -> bool {
        let has_room = self.room() >= needed;
        self.connection.wants_room |= !has_room;
        has_room
    }

    pub(crate) fn unsent(&mut self) -> usize {
        let unsent = self.connection.unsent();
        self.connection.wants_acknowledgement |= unsent > 0;
        unsent
    }

    pub(crate) const fn emss(&self) -> usize {
        self.connection.emss()
    }
}
