//! The two kinds of TCP behind one set of methods.

use core::net::{IpAddr, SocketAddr};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use smoltcp::time::Instant;

use crate::config::StackConfig;
use crate::counters::{Counters, HostCounters, TcpCounters, WireCounters};
use crate::error::{ConnectError, ListenError};
use crate::host::{HostMoving, HostStack};
use crate::listen::Listen;
use crate::llp::Llp;
use crate::llp::state::LlpState;
use crate::stack::{Moving, Stack};
use crate::table::ConnectionId;
use crate::wire::Wire;

/// The TCP that carries the connections. Its methods are those of [`Stack`], so that a driver need not know the kind.
#[derive(Debug)]
pub enum Transport {
    /// The TCP of this process, on a wire.
    Tcp(Box<Stack>),
    /// The TCP of the kernel.
    Host(Box<HostStack>),
}

/// The ground of a [`Transport`]: a wire, several queues, or the kernel.
#[derive(Debug)]
pub enum Ground {
    /// On this wire, by the TCP of this process.
    Wire(Box<Wire>),
    /// On several queues of one device, by the TCP of this process.
    Queues(Vec<Wire>),
    /// On the sockets of the kernel.
    Host,
}

/// A connection between two transports; see [`Transport::take_out`].
#[derive(Debug)]
pub enum Moved {
    /// Of the TCP of this process.
    Tcp(Moving),
    /// Of the TCP of the kernel.
    Host(HostMoving),
}

impl From<Vec<Wire>> for Ground {
    fn from(queues: Vec<Wire>) -> Self {
        Self::Queues(queues)
    }
}

impl From<Wire> for Ground {
    fn from(wire: Wire) -> Self {
        Self::Wire(Box::new(wire))
    }
}

impl Transport {
    /// Opens a transport on `ground`. An MTU above the wire's is reduced to it.
    ///
    /// # Errors
    /// `InvalidInput` if the configuration is wrong, `AddrInUse` if the address on a wire is the host's own, otherwise
    /// the system's error.
    pub fn open(ground: Ground, config: &StackConfig, now: Instant) -> io::Result<Self> {
        let mut opened = Self::open_several(ground, config, 1, now)?;
        opened.pop().ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Opens `count` transports with the same addresses. [`Transport::take_out`] moves a connection to another one.
    /// On a wire all of them have to listen alike ([`Wire::share`]). With the kernel's sockets only one of them has
    /// to.
    ///
    /// # Errors
    /// As [`Transport::open`], and `InvalidInput` if there is neither one queue nor one for each transport.
    pub fn open_several(
        ground: Ground,
        config: &StackConfig,
        count: usize,
        now: Instant,
    ) -> io::Result<Vec<Self>> {
        let mut wires = match ground {
            Ground::Wire(wire) => vec![*wire],
            Ground::Queues(wires) => wires,
            Ground::Host => {
                let open = |seed| HostStack::new(StackConfig { seed, ..config.clone() }, now);
                return (0..count)
                    .map(|index| open(seed_of(index, config)).map(|stack| Self::Host(Box::new(stack))))
                    .collect();
            }
        };
        let mtu = wires.iter().map(Wire::mtu).fold(config.mtu, usize::min);
        let config = StackConfig { mtu, ..config.clone() };
        config.validate().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        for wire in &mut wires {
            wire.claim(config.mac, config.ip.address)?;
        }
        if count != 1 || wires.len() != 1 {
            wires = Wire::share(wires, count, &config)?;
        }
        let stack = |(index, wire)| {
            let config = StackConfig { seed: seed_of(index, &config), ..config.clone() };
            Self::Tcp(Box::new(Stack::new(wire, config, now)))
        };
        Ok(wires.into_iter().enumerate().map(stack).collect())
    }

    /// Takes a connection out, for [`Transport::put_in`] of a transport that was opened together with this one; see
    /// [`Stack::take_out`].
    pub fn take_out(&mut self, id: ConnectionId) -> Option<Moved> {
        match self {
            Self::Tcp(stack) => stack.take_out(id).map(Moved::Tcp),
            Self::Host(stack) => stack.take_out(id).map(Moved::Host),
        }
    }

    /// Puts a connection of another transport in. It is ready then. Returns `None`, and the connection is over, if
    /// the system has no memory to watch its socket, or the connection is of another kind.
    pub fn put_in(&mut self, moved: Moved) -> Option<ConnectionId> {
        match (self, moved) {
            (Self::Tcp(stack), Moved::Tcp(moving)) => Some(stack.put_in(moving)),
            (Self::Host(stack), Moved::Host(moving)) => stack.put_in(moving),
            _ => None,
        }
    }

    /// Returns copies of the descriptors to sleep on; see [`Wire::wait_fds`].
    #[must_use]
    pub fn wait_fds(&self) -> Option<Vec<(Arc<OwnedFd>, bool)>> {
        match self {
            Self::Tcp(stack) => stack.wire().wait_fds(),
            Self::Host(stack) => Some(vec![(stack.shared_fd(), false)]),
        }
    }

    /// Returns true if the program has closed the descriptor by which the transport watches its sockets.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Host(stack) => stack.is_lost(),
        }
    }

    /// Receives; see [`Stack::ingress`].
    pub fn ingress(&mut self, now: Instant) -> usize {
        match self {
            Self::Tcp(stack) => stack.ingress(now),
            Self::Host(stack) => stack.ingress(now),
        }
    }

    /// Sends; see [`Stack::egress`].
    pub fn egress(&mut self, now: Instant) -> usize {
        match self {
            Self::Tcp(stack) => stack.egress(now),
            Self::Host(stack) => stack.egress(now),
        }
    }

    /// Reserves a port; see [`Stack::bind`].
    ///
    /// # Errors
    /// As there.
    pub fn bind(&mut self, local: SocketAddr) -> Result<SocketAddr, ListenError> {
        match self {
            Self::Tcp(stack) => stack.bind(local),
            Self::Host(stack) => stack.bind(local),
        }
    }

    /// Frees a reserved port; see [`Stack::unbind`].
    pub fn unbind(&mut self, local: SocketAddr) {
        match self {
            Self::Tcp(stack) => stack.unbind(local),
            Self::Host(stack) => stack.unbind(local),
        }
    }

    /// Returns the length of the longest prefix that leads to `remote`; see
    /// [`IpSetting::route_to`](crate::IpSetting::route_to). The kernel has its own routes, so that its TCP reaches
    /// every address, by at least 0 bits.
    #[must_use]
    pub fn route_to(&self, remote: IpAddr) -> Option<u8> {
        let ip = &self.config().ip;
        let is_kernels = matches!(self, Self::Host(_));
        let takes_all = ip.address.is_unspecified() || ip.address.is_ipv4() == remote.is_ipv4();
        ip.route_to(remote).or_else(|| (is_kernels && takes_all).then_some(0))
    }

    /// Returns the own address of connections to `remote`, if a route leads there.
    #[must_use]
    pub fn source_to(&self, remote: SocketAddr) -> Option<IpAddr> {
        match self {
            Self::Host(_) if self.config().ip.address.is_unspecified() => HostStack::source_to(remote),
            _ => Some(self.config().ip.address),
        }
    }

    /// Accepts connections from now on; see [`Stack::listen`].
    ///
    /// # Errors
    /// As there.
    pub fn listen(&mut self, listen: impl Into<Listen>) -> Result<SocketAddr, ListenError> {
        match self {
            Self::Tcp(stack) => stack.listen(listen),
            Self::Host(stack) => stack.listen(listen),
        }
    }

    /// Stops listening; see [`Stack::unlisten`].
    pub fn unlisten(&mut self, listener: SocketAddr) {
        match self {
            Self::Tcp(stack) => stack.unlisten(listener),
            Self::Host(stack) => stack.unlisten(listener),
        }
    }

    /// Begins a connection; see [`Stack::connect`].
    ///
    /// # Errors
    /// As there.
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        now: Instant,
    ) -> Result<ConnectionId, ConnectError> {
        match self {
            Self::Tcp(stack) => stack.connect(remote, local, now),
            Self::Host(stack) => stack.connect(remote, local),
        }
    }

    /// Returns the next connection with news; see [`Stack::next_ready`].
    pub fn next_ready(&mut self) -> Option<ConnectionId> {
        match self {
            Self::Tcp(stack) => stack.next_ready(),
            Self::Host(stack) => stack.next_ready(),
        }
    }

    /// Returns the next connection to a listener, and the listener's name; see [`Stack::next_accepted`].
    pub fn next_accepted(&mut self) -> Option<(ConnectionId, SocketAddr)> {
        match self {
            Self::Tcp(stack) => stack.next_accepted(),
            Self::Host(stack) => stack.next_accepted(),
        }
    }

    /// Returns the byte streams of a connection; see [`Stack::llp`].
    pub fn llp(&mut self, id: ConnectionId) -> Option<Llp<'_>> {
        match self {
            Self::Tcp(stack) => stack.llp(id),
            Self::Host(stack) => stack.llp(id),
        }
    }

    /// Returns the state of a connection; see [`Stack::state`].
    #[must_use]
    pub fn state(&self, id: ConnectionId) -> Option<LlpState> {
        match self {
            Self::Tcp(stack) => stack.state(id),
            Self::Host(stack) => stack.state(id),
        }
    }

    /// Forgets a connection; see [`Stack::remove`].
    pub fn remove(&mut self, id: ConnectionId) {
        match self {
            Self::Tcp(stack) => stack.remove(id),
            Self::Host(stack) => stack.remove(id),
        }
    }

    /// Returns the time for the next calls; see [`Stack::poll_at`].
    #[must_use]
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Tcp(stack) => stack.poll_at(now),
            Self::Host(stack) => stack.poll_at(now),
        }
    }

    /// Returns true if a connection may have news; see [`Stack::has_news`].
    #[must_use]
    pub fn has_news(&self) -> bool {
        match self {
            Self::Tcp(stack) => stack.has_news(),
            Self::Host(stack) => stack.has_news(),
        }
    }

    /// Returns the descriptor that becomes readable when something arrives; see [`Stack::poll_fd`].
    #[must_use]
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Tcp(stack) => stack.poll_fd(),
            Self::Host(stack) => Some(stack.poll_fd()),
        }
    }

    /// Returns true if a sleeper has to wait for this descriptor to become writable, too; see [`Wire::wants_write`].
    #[must_use]
    pub fn wants_write(&self) -> bool {
        match self {
            Self::Tcp(stack) => stack.wire().wants_write(),
            Self::Host(_) => false,
        }
    }

    /// Returns whether a peer is at the other end of the wire, if the wire can tell; see [`Wire::has_carrier`].
    #[must_use]
    pub fn has_carrier(&self) -> Option<bool> {
        match self {
            Self::Tcp(stack) => stack.wire().has_carrier(),
            Self::Host(_) => None,
        }
    }

    /// Returns the own end of a connection.
    #[must_use]
    pub fn local_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stack) => stack.local_addr(id),
            Self::Host(stack) => stack.local_addr(id),
        }
    }

    /// Returns the peer's end of a connection.
    #[must_use]
    pub fn peer_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stack) => stack.peer_addr(id),
            Self::Host(stack) => stack.peer_addr(id),
        }
    }

    /// Returns the settings in effect.
    #[must_use]
    pub const fn config(&self) -> &StackConfig {
        match self {
            Self::Tcp(stack) => stack.config(),
            Self::Host(stack) => stack.config(),
        }
    }

    /// Returns true if all connections have ended at both ends. Those in TIME-WAIT count as ended.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        match self {
            Self::Tcp(stack) => stack.is_settled(),
            Self::Host(stack) => stack.counters().connections == 0,
        }
    }

    /// Resets all connections of this process's TCP at the next egress. The kernel closes its own.
    pub fn reset_all(&mut self) {
        match self {
            Self::Tcp(stack) => stack.reset_all(),
            Self::Host(_) => {}
        }
    }

    /// Returns the counters of the stack.
    #[must_use]
    pub fn counters(&self) -> Counters {
        match self {
            Self::Tcp(stack) => stack.counters(),
            Self::Host(stack) => stack.counters(),
        }
    }

    /// Returns the counters of this process's TCP; zeros for the kernel's.
    #[must_use]
    pub fn tcp_counters(&self) -> TcpCounters {
        self.tcp().map(Stack::tcp_counters).unwrap_or_default()
    }

    /// Returns the counters of the wire; zeros if there is none.
    #[must_use]
    pub fn wire_counters(&self) -> WireCounters {
        self.tcp().map(|stack| stack.wire().counters()).unwrap_or_default()
    }

    /// Returns the counters of calls to the kernel; zeros if its TCP is not used.
    #[must_use]
    pub fn host_counters(&self) -> HostCounters {
        match self {
            Self::Tcp(_) => HostCounters::default(),
            Self::Host(stack) => stack.host_counters(),
        }
    }

    /// Returns the TCP of this process, if it is used, for its wire.
    pub fn tcp_mut(&mut self) -> Option<&mut Stack> {
        match self {
            Self::Tcp(stack) => Some(stack),
            Self::Host(_) => None,
        }
    }

    /// Returns the TCP of this process, if it is used.
    #[must_use]
    pub fn tcp(&self) -> Option<&Stack> {
        match self {
            Self::Tcp(stack) => Some(stack),
            Self::Host(_) => None,
        }
    }
}

/// Returns the seed of one transport. With a common seed two transports would choose the same ports.
fn seed_of(index: usize, config: &StackConfig) -> u64 {
    config.seed.wrapping_add((index as u64).rotate_right(8))
}
