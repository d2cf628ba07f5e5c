//! Which engine of a device has a connection, and how a connection comes to another one.
//!
//! Frames choose the engine of a connection that a peer opens. The application chooses the engine of a queue pair by
//! its completion queues. If they differ, the connection moves when it gets its queue pair, before MPA's stream has
//! begun.

use std::net::SocketAddr;
use std::sync::MutexGuard;

use weft_netif::ConnectionId;

use crate::drive::Engines;
use crate::engine::tables::Engine;

impl Engines {
    /// Locks the engine that has the connection of this serial, or that had it first.
    pub(crate) fn with(&self, serial: u64) -> MutexGuard<'_, Engine> {
        let motors = self.motors();
        let home = usize::try_from(serial % motors.len() as u64).unwrap_or(0);
        if motors.len() > 1 {
            for (index, motor) in motors.iter().enumerate() {
                let engine = motor.engine();
                if index != home && engine.has(serial) {
                    return engine;
                }
            }
        }
        self.at(home)
    }

    /// Locks the engine `to`, and moves the connection of this serial there if another engine has it and `may_come`
    /// allows it.
    pub(crate) fn bring(
        &self,
        serial: u64,
        to: usize,
        may_come: impl Fn(&Engine) -> bool,
    ) -> MutexGuard<'_, Engine> {
        for from in (0..self.len()).filter(|&from| from != to) {
            let (mut source, mut target) = self.two(from, to);
            if source.has(serial) && may_come(&source) {
                if let Some((connection, tcp)) = source.take_out(serial) {
                    target.put_in(connection, tcp);
                }
                return target;
            }
        }
        self.at(to)
    }

    /// Has TCP open a connection from a local end whose connections are another engine's, and brings it to the engine
    /// `to`.
    pub(crate) fn open_elsewhere(
        &self,
        to: usize,
        remote: SocketAddr,
        local: Option<SocketAddr>,
    ) -> Option<(MutexGuard<'_, Engine>, ConnectionId)> {
        for from in (0..self.len()).filter(|&from| from != to) {
            let (mut source, mut target) = self.two(from, to);
            if let Some(moved) = source.open_for_another(remote, local, self.now()) {
                let id = target.put_in_tcp(moved)?;
                return Some((target, id));
            }
        }
        None
    }

    /// The engines that are to listen: the kernel's sockets have one listener, whose connections move; on wires each
    /// engine has those that come to it.
    pub(crate) fn listening(&self) -> Vec<MutexGuard<'_, Engine>> {
        let mut engines = self.all();
        if engines.first().is_some_and(|engine| engine.listens_for_all()) {
            engines.truncate(1);
        }
        engines
    }

    /// Two different engines.
    fn two(&self, one: usize, other: usize) -> (MutexGuard<'_, Engine>, MutexGuard<'_, Engine>) {
        // Always in this order, so that two threads that do this do not wait for each other.
        let first = self.at(one.min(other));
        let second = self.at(one.max(other));
        if one < other { (first, second) } else { (second, first) }
    }
}
