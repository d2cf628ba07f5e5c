//! The end of connections.

use super::Sockets;
use super::connection::Connection;
use crate::llp::state::CloseCause;
use crate::table::ConnectionId;

impl Sockets {
    pub(crate) fn remove(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id).filter(|connection| !connection.is_removed) else {
            return;
        };
        connection.is_removed = true;
        connection.socket_mut().close();
        self.lingering_count += 1;
        self.lingering.push_back(id);
        self.mark_dirty(id);
        self.bound_lingering();
    }

    pub(crate) fn is_settled(&self) -> bool {
        !self.wire.wants_write()
            && self.table.ids().all(|id| self.table.get(id).is_none_or(Connection::is_in_time_wait))
    }

    pub(crate) fn reset_all(&mut self) {
        let ids: Vec<_> = self.table.ids().collect();
        for id in ids {
            if let Some(connection) =
                self.table.get_mut(id).filter(|connection| !connection.is_in_time_wait())
            {
                connection.abort(CloseCause::Aborted);
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
        let own = self.config.ip.address;
        let ids: Vec<_> = self.table.ids().collect();
        for id in ids {
            if let Some(connection) = self.table.get_mut(id)
                && connection.remote().ip() != own
                && connection.loses_peer()
            {
                connection.abort(CloseCause::Unreachable);
                self.mark_ready(id);
                self.mark_dirty(id);
            }
        }
    }

    /// Frees a connection and all references to it, except in queues, which skip its id later.
    pub(super) fn release(&mut self, id: ConnectionId) {
        self.unmap(id);
        let Some(connection) = self.table.remove(id) else { return };
        self.wheel.cancel(id.index());
        connection.tally.count_end(&mut self.tcp);
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
}
