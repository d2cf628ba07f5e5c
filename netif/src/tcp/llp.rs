//! One connection as the lower layer protocol.

use core::ops::Range;

use weft_tcp::Micros;

use super::connection::Connection;
use super::pool::Pool;
use crate::llp::state::{CloseCause, LlpState};

/// A connection on Weft's own TCP, borrowed from its stack; used through [`Llp`](crate::Llp).
#[derive(Debug)]
pub struct OwnLlp<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) pool: &'a mut Pool,
    /// The time of the stack's last call.
    pub(super) now: Micros,
}

impl OwnLlp<'_> {
    pub(crate) fn readable(&self) -> &[u8] {
        self.connection.held.first()
    }

    pub(crate) fn peek(&self, octets: &mut [u8]) -> usize {
        self.connection.held.peek(octets)
    }

    pub(crate) const fn unread(&self) -> usize {
        self.connection.held.unread()
    }

    pub(crate) fn consume(&mut self, n: usize) {
        let len = self.connection.held.consume(n, self.pool);
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.connection.consumed = self.connection.consumed.saturating_add(len);
    }

    pub(crate) fn ahead(&mut self, mut f: impl FnMut((usize, &[u8]), &mut Vec<Range<usize>>)) {
        let Connection { held, tcp, wants_ahead, .. } = &mut *self.connection;
        *wants_ahead = true;
        held.visit_ahead(tcp.receiver().next(), self.pool, &mut f);
    }

    pub(crate) fn placed(&self) -> usize {
        self.connection.held.placed()
    }

    pub(crate) fn transmit<R>(&mut self, least: usize, f: impl FnOnce(&mut [u8]) -> (usize, R)) -> Option<R> {
        if !self.connection.may_send() {
            return None;
        }
        let limits = [self.connection.emss(), least, self.connection.room()];
        let (len, result) = self.connection.outbox.write(self.pool, limits, f);
        self.connection.queued += len;
        self.connection.is_urgent |= len > 0;
        Some(result)
    }

    pub(crate) fn send_slice(&mut self, octets: &[u8]) -> usize {
        let mut sent = 0;
        while sent < octets.len() {
            let rest = &octets[sent..];
            let step = self.transmit(1, |place| {
                let len = place.len().min(rest.len());
                place[..len].copy_from_slice(&rest[..len]);
                (len, len)
            });
            match step {
                None | Some(0) => break,
                Some(step) => sent += step,
            }
        }
        sent
    }

    pub(crate) fn shutdown(&mut self) {
        self.connection.shutdown(self.now);
    }

    pub(crate) fn abort(&mut self) {
        self.connection.abort(CloseCause::Aborted, self.pool, self.now);
    }

    pub(crate) const fn state(&self) -> LlpState {
        self.connection.state()
    }

    pub(crate) const fn cause(&self) -> Option<CloseCause> {
        self.connection.end
    }

    pub(crate) const fn is_drained(&self) -> bool {
        self.connection.peer_finished && self.connection.held.unread() == 0
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.connection.peer_finished
    }

    pub(crate) fn room(&self) -> usize {
        self.connection.room()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.connection.capacity()
    }

    pub(crate) const fn unsent(&self) -> usize {
        self.connection.queued
    }

    pub(crate) fn emss(&self) -> usize {
        self.connection.emss()
    }
}
