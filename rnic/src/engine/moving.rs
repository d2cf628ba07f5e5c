//! How a connection leaves an engine, and comes to another one of the same device.

use std::net::SocketAddr;

use weft_netif::{ConnectionId, Instant, Moved};

use crate::connection::state::Connection;
use crate::engine::tables::Engine;

impl Engine {
    /// Whether a connection of this serial is here.
    pub(crate) fn has(&self, serial: u64) -> bool {
        self.serials.contains_key(&serial)
    }

    /// Takes a connection without queue pair out, for another engine.
    pub(crate) fn take_out(&mut self, serial: u64) -> Option<(Connection, Moved)> {
        let id = *self.serials.get(&serial)?;
        self.connections.get(id).filter(|connection| connection.qp.is_none())?;
        let tcp = self.stack.take_out(id)?;
        self.forget(id).map(|connection| (*connection, tcp))
    }

    /// Takes a connection in that another engine has had.
    pub(crate) fn put_in(&mut self, mut connection: Connection, tcp: Moved) {
        let Some(llp) = self.stack.put_in(tcp) else {
            connection.withdraw_request();
            return;
        };
        connection.llp = llp;
        self.insert(connection);
    }

    /// Has TCP open a connection that another engine is to have.
    pub(crate) fn open_for_another(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        now: Instant,
    ) -> Option<Moved> {
        let id = self.stack.connect(remote, local, now).ok()?;
        self.stack.take_out(id)
    }

    /// Takes a TCP connection in that another engine has opened.
    pub(crate) fn put_in_tcp(&mut self, moved: Moved) -> Option<ConnectionId> {
        self.stack.put_in(moved)
    }

    /// Whether this engine listens for all engines, as the kernel's sockets have one listener.
    pub(crate) fn listens_for_all(&self) -> bool {
        self.stack.tcp().is_none()
    }
}
