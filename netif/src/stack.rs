//! The TCP/IP of this process, on one wire.

use core::net::SocketAddr;
use std::os::fd::BorrowedFd;

use smoltcp::time::Instant;

use crate::config::{StackConfig, Tcp};
use crate::counters::{Counters, TcpCounters};
use crate::error::{ConnectError, ListenError};
use crate::ip::IpSetting;
use crate::listen::Listen;
use crate::llp::Llp;
use crate::llp::state::LlpState;
use crate::table::ConnectionId;
use crate::tcp::{MovingOwn, Own};
use crate::wire::Wire;

mod sockets;

pub use sockets::TcpLlp;
use sockets::{MovingSocket, Sockets};

/// A user-space TCP/IP on one wire, with one address.
///
/// A driver calls its methods in this order:
///
/// 1. [`ingress`](Self::ingress) takes frames off the wire.
/// 2. [`next_accepted`](Self::next_accepted) and [`next_ready`](Self::next_ready) tell what happened, until they return
///    `None`.
/// 3. [`llp`](Self::llp) and the commands (`listen`, `connect`, `remove`) act.
/// 4. [`egress`](Self::egress) sends.
/// 5. [`poll_at`](Self::poll_at) and [`poll_fd`](Self::poll_fd) say how long to sleep.
///
/// The cost of a call grows with the connections that have work, not with all that exist. [`StackConfig::tcp`] says
/// whose TCP it is.
pub struct Stack(Engine);

/// The TCP of a stack.
enum Engine {
    Smoltcp(Box<Sockets>),
    Own(Box<Own>),
}

/// A connection between two stacks.
#[derive(Debug)]
pub struct Moving(Moved);

#[derive(Debug)]
enum Moved {
    Smoltcp(MovingSocket),
    Own(MovingOwn),
}

/// Calls the engine of a stack.
macro_rules! engine {
    ($engine:expr, $it:ident => $call:expr) => {
        match $engine {
            Engine::Smoltcp($it) => $call,
            Engine::Own($it) => $call,
        }
    };
}

impl Stack {
    /// Makes a stack on `wire`. The stack's MTU is the smaller one of the wire's and the setting's.
    ///
    /// # Panics
    /// If [`StackConfig::validate`] refuses `config`, or the wire's MTU is too small for IPv6.
    #[must_use]
    pub fn new(wire: Wire, config: StackConfig, now: Instant) -> Self {
        let config = StackConfig { mtu: config.mtu.min(wire.mtu()), ..config };
        if let Err(error) = config.validate() {
            panic!("stack configuration: {error}");
        }
        Self(match config.tcp {
            Tcp::Smoltcp => Engine::Smoltcp(Box::new(Sockets::new(wire, config, now))),
            Tcp::Own => Engine::Own(Box::new(Own::new(wire, config, now))),
        })
    }

    /// Takes frames off the wire, at most as many as configured, and gives each to its connection. Returns how many
    /// there were.
    pub fn ingress(&mut self, now: Instant) -> usize {
        engine!(&mut self.0, it => it.ingress(now))
    }

    /// Lets the connections with work send, each at most as many frames as configured, and sets their deadlines.
    /// Returns how many frames were sent.
    pub fn egress(&mut self, now: Instant) -> usize {
        engine!(&mut self.0, it => it.egress(now))
    }

    /// Reserves a port, or a free one for 0, until [`Stack::unbind`]. The port cannot be bound again, nor be chosen
    /// as an ephemeral one. A caller that names the returned address may listen on it and connect from it.
    ///
    /// # Errors
    /// If the address is not the own one, or the port is bound or listened on already.
    pub fn bind(&mut self, local: SocketAddr) -> Result<SocketAddr, ListenError> {
        engine!(&mut self.0, it => it.bind(local))
    }

    /// Frees the port that [`Stack::bind`] reserved. Its listeners and connections go on.
    pub fn unbind(&mut self, local: SocketAddr) {
        engine!(&mut self.0, it => it.unbind(local));
    }

    /// Accepts connections to a port from now on. [`Stack::next_accepted`] returns them. Returns the address and
    /// port, which name the listener.
    ///
    /// # Errors
    /// If the address is not the own one, or the port is listened on already.
    pub fn listen(&mut self, listen: impl Into<Listen>) -> Result<SocketAddr, ListenError> {
        engine!(&mut self.0, it => it.listen(listen.into()))
    }

    /// Stops listening. Connections that were not taken yet are reset.
    pub fn unlisten(&mut self, listener: SocketAddr) {
        engine!(&mut self.0, it => it.unlisten(listener));
    }

    /// Begins a connection to `remote` from `local`. There, an unspecified address or `None` means the own address,
    /// and port 0 or `None` an ephemeral port. The connection is ready when it is established or has failed.
    ///
    /// # Errors
    /// If an address or port is wrong, cannot be reached, or is in use.
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        now: Instant,
    ) -> Result<ConnectionId, ConnectError> {
        engine!(&mut self.0, it => it.connect(remote, local, now))
    }

    /// Returns the next connection whose readability, room or state may have changed since it was returned here last.
    pub fn next_ready(&mut self) -> Option<ConnectionId> {
        engine!(&mut self.0, it => it.next_ready())
    }

    /// Returns the next established connection to a listening port, and the name of the listener. The connection is
    /// also in `next_ready`.
    pub fn next_accepted(&mut self) -> Option<(ConnectionId, SocketAddr)> {
        engine!(&mut self.0, it => it.next_accepted())
    }

    /// Returns the byte streams of a connection, and marks it for the next egress. `None` if the id names no connection
    /// any more.
    pub fn llp(&mut self, id: ConnectionId) -> Option<Llp<'_>> {
        match &mut self.0 {
            Engine::Smoltcp(it) => it.llp(id).map(Llp::Tcp),
            Engine::Own(it) => it.llp(id).map(Llp::Own),
        }
    }

    /// Returns the state of a connection, without marking it. `None` as for [`Stack::llp`].
    #[must_use]
    pub fn state(&self, id: ConnectionId) -> Option<LlpState> {
        engine!(&self.0, it => it.state(id))
    }

    /// Forgets a connection. The stack still sends the queued octets and FIN, and closes it, within the configured
    /// number and time. A caller that does not want this aborts it first.
    pub fn remove(&mut self, id: ConnectionId) {
        engine!(&mut self.0, it => it.remove(id));
    }

    /// Returns true if each connection has ended at both ends, as in TIME-WAIT, and nothing waits for room on the
    /// wire.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        engine!(&self.0, it => it.is_settled())
    }

    /// Ends all connections by RST, except those in TIME-WAIT. The RSTs go out at the next egress.
    pub fn reset_all(&mut self) {
        engine!(&mut self.0, it => it.reset_all());
    }

    /// Takes a connection out, for [`Stack::put_in`] of another stack on the same device
    /// ([`Wire::share`](crate::Wire::share)) with the same TCP. The caller holds both stacks until it is in, since
    /// neither may process its frames meanwhile. Returns `None` if the id names no connection of a user.
    pub fn take_out(&mut self, id: ConnectionId) -> Option<Moving> {
        Some(Moving(match &mut self.0 {
            Engine::Smoltcp(it) => Moved::Smoltcp(it.take_out(id)?),
            Engine::Own(it) => Moved::Own(it.take_out(id)?),
        }))
    }

    /// Puts a connection of another stack in. It is ready then.
    ///
    /// # Panics
    /// If the other stack has another TCP.
    pub fn put_in(&mut self, Moving(moved): Moving) -> ConnectionId {
        match (&mut self.0, moved) {
            (Engine::Smoltcp(it), Moved::Smoltcp(moving)) => it.put_in(moving),
            (Engine::Own(it), Moved::Own(moving)) => it.put_in(moving),
            _ => panic!("a connection cannot move to a stack with another TCP"),
        }
    }

    /// Returns the time for the next [`Stack::ingress`] and [`Stack::egress`], if the device does not become readable
    /// before. That is `now` if there is work. Connections that wait in `next_ready` and `next_accepted` do not
    /// count; see [`Stack::has_news`].
    #[must_use]
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        engine!(&self.0, it => it.poll_at(now))
    }

    /// Returns true if `next_ready` or `next_accepted` may return a connection. Also an egress can change this, as it
    /// may find that a peer is gone.
    #[must_use]
    pub fn has_news(&self) -> bool {
        engine!(&self.0, it => it.has_news())
    }

    /// Returns the descriptor that becomes readable when a frame arrives; see [`Wire::poll_fd`].
    #[must_use]
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.wire().poll_fd()
    }

    /// Returns the own end of a connection.
    #[must_use]
    pub fn local_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        engine!(&self.0, it => it.local_addr(id))
    }

    /// Returns the peer's end of a connection.
    #[must_use]
    pub fn peer_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        engine!(&self.0, it => it.peer_addr(id))
    }

    /// Returns the wire, for its counters and its capture.
    pub const fn wire_mut(&mut self) -> &mut Wire {
        engine!(&mut self.0, it => it.wire_mut())
    }

    /// Returns the wire.
    #[must_use]
    pub const fn wire(&self) -> &Wire {
        engine!(&self.0, it => it.wire())
    }

    /// Returns the address setting.
    #[must_use]
    pub const fn ip(&self) -> &IpSetting {
        &self.config().ip
    }

    /// Returns the settings, with the MTU in effect.
    #[must_use]
    pub const fn config(&self) -> &StackConfig {
        engine!(&self.0, it => it.config())
    }

    /// Returns the counters of the stack.
    #[must_use]
    pub fn counters(&self) -> Counters {
        engine!(&self.0, it => it.counters())
    }

    /// Returns the counters of TCP.
    #[must_use]
    pub const fn tcp_counters(&self) -> TcpCounters {
        engine!(&self.0, it => it.tcp_counters())
    }
}

impl core::fmt::Debug for Stack {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Stack")
            .field("ip", self.ip())
            .field("wire", self.wire())
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver thread owns the stack that it drives.
    #[test]
    fn a_stack_can_be_sent_to_another_thread() {
        const fn is_send<T: Send>() {}
        is_send::<Stack>();
        is_send::<Wire>();
    }
}
