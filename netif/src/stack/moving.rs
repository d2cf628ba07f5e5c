//! Moves of connections between the stacks of a device.

use super::Stack;
use crate::connection::Connection;
use crate::table::ConnectionId;

/// A connection between two stacks.
#[derive(Debug)]
pub struct Moving(Box<Connection>);

impl Stack {
    /// Takes a connection out, for [`Stack::put_in`] of another stack on the same device
    /// ([`Wire::share`](crate::Wire::share)). The caller holds both stacks until it is in, since neither may process
    /// its frames meanwhile. Returns `None` if the id names no connection of a user.
    pub fn take_out(&mut self, id: ConnectionId) -> Option<Moving> {
        self.table.get(id).filter(|connection| !connection.is_removed && connection.listener.is_none())?;
        self.wheel.cancel(id.index());
        // Its frames come here until the other stack has it, so that no third stack gets them.
        self.table.remove(id).map(Moving)
    }

    /// Puts a connection of another stack in. It is ready then.
    pub fn put_in(&mut self, Moving(mut connection): Moving) -> ConnectionId {
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
