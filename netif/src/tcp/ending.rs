//! The end of connections, and their moves between the stacks of a device.

use weft_tcp::State;

use super::Own;
use super::connection::Connection;
use super::records::Waiting;
use crate::llp::state::CloseCause;
use crate::table::ConnectionId;

/// A connection between two stacks.
#[derive(Debug)]
pub(crate) struct MovingOwn(Box<Connection>);

impl Own {
    pub(crate) fn remove(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id).filter(|connection| !connection.is_removed) else {
            return;
        };
        connection.is_removed = true;
        connection.discard(&mut self.pool);
        connection.shutdown(self.now);
        self.lingering_count += 1;
        self.lingering.push_back(id);
        self.mark_dirty(id);
        self.bound_lingering();
    }

    pub(crate) fn is_settled(&self) -> bool {
        let is_over =
            |connection: &Connection| connection.is_over() || connection.tcp.state() == State::TimeWait;
        !self.line.wire.wants_write()
            && self.halves.len() == 0
            && self.table.ids().all(|id| self.table.get(id).is_none_or(is_over))
    }

    pub(crate) fn reset_all(&mut self) {
        let ids: Vec<_> = self.table.ids().collect();
        for id in ids {
            if let Some(connection) =
                self.table.get_mut(id).filter(|connection| connection.tcp.state() != State::TimeWait)
            {
                connection.abort(CloseCause::Aborted, &mut self.pool, self.now);
                self.mark_dirty(id);
            }
        }
    }

    /// Ends the connections across the wire, whose other end is gone. Three kinds stay:
    ///
    /// * connections to this station itself;
    /// * connections that have not heard of their peer yet, since it may come with the wire's next end;
    /// * connections whose peer has sent its FIN: their user knows of the end, and may have unread octets.
    pub(super) fn lose_peers(&mut self) {
        self.lose_halves();
        let own = self.config.ip.address;
        let ids: Vec<_> = self.table.ids().collect();
        for id in ids {
            if let Some(connection) = self.table.get_mut(id)
                && connection.remote() != own
                && connection.loses_peer()
            {
                connection.abort(CloseCause::Unreachable, &mut self.pool, self.now);
                self.mark_ready(id);
                self.mark_dirty(id);
            }
        }
    }

    /// Acts on a connection that is over: keeps a record of it in TIME-WAIT, and frees its 4-tuple, or all of it.
    pub(super) fn settle(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if let Some(record) = connection.tcp.time_wait(self.now).filter(|_| !connection.is_waited_for) {
            connection.is_waited_for = true;
            let (tuple, is_moved) = (connection.tuple, core::mem::take(&mut connection.is_moved));
            if self.waits.len() >= MOST_WAITING
                && let Some(oldest) = self.waits.pop_first()
            {
                self.end_wait(&oldest);
            }
            let due = record.next_timeout();
            self.waits.insert(tuple, Waiting { record, is_moved }, due);
        }
        let Some(connection) = self.table.get_mut(id).filter(|connection| connection.is_over()) else {
            return;
        };
        connection.outbox.clear(&mut self.pool);
        let nobody_has_it = connection.is_removed || connection.listener.is_some();
        self.timers.cancel(id.index());
        if nobody_has_it {
            self.release(id);
        } else {
            self.unmap(id);
        }
    }

    /// Frees a connection and all references to it, except in queues, which skip its id later.
    fn release(&mut self, id: ConnectionId) {
        self.unmap(id);
        let Some(mut connection) = self.table.remove(id) else { return };
        self.timers.cancel(id.index());
        connection.count_end(&mut self.tcp);
        connection.outbox.clear(&mut self.pool);
        if let Some(port) = connection.listener {
            self.ports.release_place(port);
        }
        if connection.is_removed {
            self.lingering_count -= 1;
        }
    }

    /// Releases the oldest closing connections if there are too many of them.
    fn bound_lingering(&mut self) {
        while let Some(&oldest) = self.lingering.front() {
            if self.table.get(oldest).is_some() {
                if self.lingering_count <= self.config.lingering {
                    break;
                }
                self.release(oldest);
            }
            self.lingering.pop_front();
        }
        // Many ended connections may be behind a slow one at the front.
        if self.lingering.len() > 2 * self.config.lingering + 16 {
            self.lingering.retain(|id| self.table.get(*id).is_some());
        }
    }

    pub(crate) fn take_out(&mut self, id: ConnectionId) -> Option<MovingOwn> {
        self.table.get(id).filter(|connection| !connection.is_removed && connection.listener.is_none())?;
        self.timers.cancel(id.index());
        // Its frames come here until the other stack has it, so that no third stack gets them.
        self.table.remove(id).map(MovingOwn)
    }

    pub(crate) fn put_in(&mut self, MovingOwn(mut connection): MovingOwn) -> ConnectionId {
        connection.is_dirty = false;
        connection.is_ready = false;
        connection.is_blocked = false;
        connection.is_moved = self.line.wire.claim_connection(connection.tuple);
        let id = self.table.insert(*connection);
        self.mark_dirty(id);
        self.mark_ready(id);
        id
    }

    /// Frees the 4-tuple of a connection for another one.
    fn unmap(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id).filter(|connection| connection.is_moved) {
            connection.is_moved = false;
            self.line.wire.forget_connection(&connection.tuple);
        }
        self.table.unmap(id);
    }
}

/// Connections in TIME-WAIT. One more ends the oldest.
const MOST_WAITING: usize = 16_384;
