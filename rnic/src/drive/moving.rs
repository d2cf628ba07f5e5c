//! Several engines of one device: which one has a connection, and how a connection comes to another one.
//!
//! Frames choose the engine of a connection that a peer opens; the application chooses that of a queue pair, by its
//! completion queues. Where they differ, the connection moves when it gets its queue pair, before anything of MPA's stream
//! has come.

use std::net::SocketAddr;
use std::sync::MutexGuard;

use weft_netif::{ConnectionId, Moved};

use crate::connection::state::Connection;
use crate::engine::Engine;
use crate::objects::device::Device;

impl Device {
    /// The engine with a connection of this serial, or the one that had it.
    pub(crate) fn engine_with(&self, serial: u64) -> MutexGuard<'_, Engine> {
        let motors = self.motors();
        let home = usize::try_from(serial % motors.len() as u64).unwrap_or(0);
        if motors.len() > 1 {
            for (index, motor) in motors.iter().enumerate() {
                let engine = motor.engine();
                if index != home && engine.serials.contains_key(&serial) {
                    return engine;
                }
            }
        }
        self.engine_at(home)
    }

    /// The engine `to`, and in it the connection of this serial if it is in any and `may_come` there.
    pub(crate) fn engine_for(
        &self,
        serial: u64,
        to: usize,
        may_come: impl Fn(&Engine, ConnectionId) -> bool,
    ) -> MutexGuard<'_, Engine> {
        for from in (0..self.motors().len()).filter(|&from| from != to) {
            let (mut source, mut target) = self.two_engines(from, to);
            let id = source.serials.get(&serial).copied();
            if let Some(id) = id.filter(|&id| may_come(&source, id)) {
                if let Some((connection, tcp)) = source.take_out(id) {
                    target.put_in(connection, tcp);
                }
                return target;
            }
        }
        self.engine_at(to)
    }

    /// Connects from a local end whose connections are another engine's, and brings the connection to the engine `to`.
    pub(crate) fn connect_elsewhere(
        &self,
        to: usize,
        remote: SocketAddr,
        local: Option<SocketAddr>,
    ) -> Option<(MutexGuard<'_, Engine>, ConnectionId)> {
        for from in (0..self.motors().len()).filter(|&from| from != to) {
            let (mut source, mut target) = self.two_engines(from, to);
            if let Ok(id) = source.stack.connect(remote, local, self.now()) {
                let moved = source.stack.take_out(id)?;
                let id = target.stack.put_in(moved)?;
                return Some((target, id));
            }
        }
        None
    }

    /// How many of the engines listen: the kernel's sockets have one listener, whose connections move; on wires each engine has
    /// those that come to it.
    pub(crate) fn listening(&self, engines: &[MutexGuard<'_, Engine>]) -> usize {
        let is_host = engines.first().is_some_and(|engine| engine.stack.tcp().is_none());
        if is_host { 1 } else { engines.len() }
    }

    /// Two different engines.
    fn two_engines(&self, one: usize, other: usize) -> (MutexGuard<'_, Engine>, MutexGuard<'_, Engine>) {
        // Always in this order, so that two who do this do not wait for each other.
        let first = self.engine_at(one.min(other));
        let second = self.engine_at(one.max(other));
        if one < other { (first, second) } else { (second, first) }
    }
}

impl Engine {
    /// Takes a connection without queue pair out, for another engine.
    fn take_out(&mut self, id: ConnectionId) -> Option<(Connection, Moved)> {
        self.connections.get(id).filter(|connection| connection.qp.is_none())?;
        let tcp = self.stack.take_out(id)?;
        self.forget(id).map(|connection| (*connection, tcp))
    }

    fn put_in(&mut self, mut connection: Connection, tcp: Moved) {
        let Some(llp) = self.stack.put_in(tcp) else {
            connection.withdraw_request();
            return;
        };
        connection.llp = llp;
        self.insert(connection);
    }
}
