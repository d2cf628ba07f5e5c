//! Moves of connections between the stacks of a device.

use super::Sockets;
use super::connection::Connection;
use crate::table::ConnectionId;

/// A connection between two stacks.
#[derive(Debug)]
pub(crate) struct MovingSocket(Box<Connection>);

impl Sockets {
    pub(crate) fn take_out(&mut self, id: ConnectionId) -> Option<MovingSocket> {
        self.table.get(id).filter(|connection| !connection.is_removed && connection.listener.is_none())?;
        self.wheel.cancel(id.index());
        // Its frames come here until the other stack has it, so that no third stack gets them.
        self.table.remove(id).map(MovingSocket)
    }

    pub(crate) fn put_in(&mut self, MovingSocket(mut connection): MovingSocket) -> ConnectionId {
        connection.is_dirty = false;
        connection.is_ready = false;
        connection.is_waiting = false;
        connection.is_moved = self.wire.claim_connection(connection.tuple);
        let id = self.table.insert(*connection);
        self.mark_dirty(id);
        self.mark_ready(id);
        id
    }

    /// Frees the 4-tuple of a connection for another one.
    pub(super) fn unmap(&mut self, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id).filter(|connection| connection.is_moved) {
            connection.is_moved = false;
            self.wire.forget_connection(&connection.tuple);
        }
        self.table.unmap(id);
    }
}
