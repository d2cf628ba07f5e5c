//! Either TCP behind one set of methods.

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

/// Whose TCP carries the connections. Whoever drives it need not know; the methods are those of [`Stack`].
#[derive(Debug)]
pub enum Transport {
    /// The TCP of this process, on a wire.
    Tcp(Box<Stack>),
    /// The TCP of the kernel.
    Host(Box<HostStack>),
}

/// Where a [`Transport`] is to run.
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
    /// A transport on `ground`. An MTU above the wire's is brought down to it.
    ///
    /// # Errors
    /// `InvalidInput` when the configuration makes no sense there, `AddrInUse` when the address on a wire is the host's own, else
    /// what the system says.
    pub fn open(ground: Ground, config: &StackConfig, now: Instant) -> io::Result<Self> {
        let mut opened = Self::open_several(ground, config, 1, now)?;
        opened.pop().ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// As many transports as are asked for, with the same addresses. Connections go from one to another by
    /// [`Transport::take_out`]. On a wire all of them have to listen alike ([`Wire::share`]); on the sockets of the kernel one
    /// does.
    ///
    /// # Errors
    /// As [`Transport::open`], and `InvalidInput` when there are neither one queue nor one for each.
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

    /// Takes a connection out, for [`Transport::put_in`] of another one of those that were opened together; see
    /// [`Stack::take_out`].
    pub fn take_out(&mut self, id: ConnectionId) -> Option<Moved> {
        match self {
            Self::Tcp(stack) => stack.take_out(id).map(Moved::Tcp),
            Self::Host(stack) => stack.take_out(id).map(Moved::Host),
        }
    }

    /// Puts a connection in that another transport has had. It is ready. None when the system has no memory to watch its socket, or it
    /// is of another kind: then it is over.
    pub fn put_in(&mut self, moved: Moved) -> Option<ConnectionId> {
        match (self, moved) {
            (Self::Tcp(stack), Moved::Tcp(moving)) => Some(stack.put_in(moving)),
            (Self::Host(stack), Moved::Host(moving)) => stack.put_in(moving),
            _ => None,
        }
    }

    /// Copies of the descriptors to sleep on; see [`Wire::wait_fds`].
    #[must_use]
    pub fn wait_fds(&self) -> Option<Vec<(Arc<OwnedFd>, bool)>> {
        match self {
            Self::Tcp(stack) => stack.wire().wait_fds(),
            Self::Host(stack) => Some(vec![(stack.shared_fd(), false)]),
        }
    }

    /// Whether somebody else in this process has closed what it hears by of its sockets.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Host(stack) => stack.is_lost(),
        }
    }

    /// Takes what has come; see [`Stack::ingress`].
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

    /// Keeps a port; see [`Stack::bind`].
    ///
    /// # Errors
    /// As there.
    pub fn bind(&mut self, local: SocketAddr) -> Result<SocketAddr, ListenError> {
        match self {
            Self::Tcp(stack) => stack.bind(local),
            Self::Host(stack) => stack.bind(local),
        }
    }

    /// Ends what `bind` began; see [`Stack::unbind`].
    pub fn unbind(&mut self, local: SocketAddr) {
        match self {
            Self::Tcp(stack) => stack.unbind(local),
            Self::Host(stack) => stack.unbind(local),
        }
    }

    /// By how many bits of a prefix a way to `remote` is known; see [`IpSetting::route_to`](crate::IpSetting::route_to). The
    /// kernel knows its routes itself, so that its TCP leads everywhere, if only by 0 bits.
    #[must_use]
    pub fn route_to(&self, remote: IpAddr) -> Option<u8> {
        let ip = &self.config().ip;
        let is_kernels = matches!(self, Self::Host(_));
        let takes_all = ip.address.is_unspecified() || ip.address.is_ipv4() == remote.is_ipv4();
        ip.route_to(remote).or_else(|| (is_kernels && takes_all).then_some(0))
    }

    /// The own address for connections to `remote`, if there is a way.
    #[must_use]
    pub fn source_to(&self, remote: SocketAddr) -> Option<IpAddr> {
        match self {
            Self::Host(_) if self.config().ip.address.is_unspecified() => HostStack::source_to(remote),
            _ => Some(self.config().ip.address),
        }
    }

    /// Takes connections from now on; see [`Stack::listen`].
    ///
    /// # Errors
    /// As there.
    pub fn listen(&mut self, listen: impl Into<Listen>) -> Result<SocketAddr, ListenError> {
        match self {
            Self::Tcp(stack) => stack.listen(listen),
            Self::Host(stack) => stack.listen(listen),
        }
    }

    /// Ends what `listen` began; see [`Stack::unlisten`].
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

    /// The next connection with news; see [`Stack::next_ready`].
    pub fn next_ready(&mut self) -> Option<ConnectionId> {
        match self {
            Self::Tcp(stack) => stack.next_ready(),
            Self::Host(stack) => stack.next_ready(),
        }
    }

    /// The next connection to a listener, and the listener's name; see [`Stack::next_accepted`].
    pub fn next_accepted(&mut self) -> Option<(ConnectionId, SocketAddr)> {
        match self {
            Self::Tcp(stack) => stack.next_accepted(),
            Self::Host(stack) => stack.next_accepted(),
        }
    }

    /// The byte streams of a connection; see [`Stack::llp`].
    pub fn llp(&mut self, id: ConnectionId) -> Option<Llp<'_>> {
        match self {
            Self::Tcp(stack) => stack.llp(id),
            Self::Host(stack) => stack.llp(id),
        }
    }

    /// How far a connection has come; see [`Stack::state`].
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

    /// When to call again; see [`Stack::poll_at`].
    #[must_use]
    pub fn poll_at(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Tcp(stack) => stack.poll_at(now),
            Self::Host(stack) => stack.poll_at(now),
        }
    }

    /// Whether there may be something to tell; see [`Stack::has_news`].
    #[must_use]
    pub fn has_news(&self) -> bool {
        match self {
            Self::Tcp(stack) => stack.has_news(),
            Self::Host(stack) => stack.has_news(),
        }
    }

    /// What becomes readable when something has come; see [`Stack::poll_fd`].
    #[must_use]
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Tcp(stack) => stack.poll_fd(),
            Self::Host(stack) => Some(stack.poll_fd()),
        }
    }

    /// Whether that descriptor is to become writable, too; see [`Wire::wants_write`].
    #[must_use]
    pub fn wants_write(&self) -> bool {
        match self {
            Self::Tcp(stack) => stack.wire().wants_write(),
            Self::Host(_) => false,
        }
    }

    /// Whether somebody is at the other end of the wire, where that can be told; see [`Wire::has_carrier`].
    #[must_use]
    pub fn has_carrier(&self) -> Option<bool> {
        match self {
            Self::Tcp(stack) => stack.wire().has_carrier(),
            Self::Host(_) => None,
        }
    }

    /// The own end of a connection.
    #[must_use]
    pub fn local_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stack) => stack.local_addr(id),
            Self::Host(stack) => stack.local_addr(id),
        }
    }

    /// The peer's end of a connection.
    #[must_use]
    pub fn peer_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stack) => stack.peer_addr(id),
            Self::Host(stack) => stack.peer_addr(id),
        }
    }

    /// What the transport was set up with, as it came out.
    #[must_use]
    pub const fn config(&self) -> &StackConfig {
        match self {
            Self::Tcp(stack) => stack.config(),
            Self::Host(stack) => stack.config(),
        }
    }

    /// Whether all connections have ended at both ends: there is none, or TCP only remembers it (TIME-WAIT).
    #[must_use]
    pub fn is_settled(&self) -> bool {
        match self {
            Self::Tcp(stack) => stack.is_settled(),
            Self::Host(stack) => stack.counters().connections == 0,
        }
    }

    /// Ends by RST what TCP of this process still has to see to its end, at the next egress. The kernel sees to its own.
    pub fn reset_all(&mut self) {
        match self {
            Self::Tcp(stack) => stack.reset_all(),
            Self::Host(_) => {}
        }
    }

    /// What the transport holds, and has done as far as it deals with frames.
    #[must_use]
    pub fn counters(&self) -> Counters {
        match self {
            Self::Tcp(stack) => stack.counters(),
            Self::Host(stack) => stack.counters(),
        }
    }

    /// What the TCP of this process has done; nothing if it is not that.
    #[must_use]
    pub fn tcp_counters(&self) -> TcpCounters {
        self.tcp().map(Stack::tcp_counters).unwrap_or_default()
    }

    /// What the wire has done; nothing if there is none.
    #[must_use]
    pub fn wire_counters(&self) -> WireCounters {
        self.tcp().map(|stack| stack.wire().counters()).unwrap_or_default()
    }

    /// What was asked of the kernel; nothing if its TCP is not used.
    #[must_use]
    pub fn host_counters(&self) -> HostCounters {
        match self {
            Self::Tcp(_) => HostCounters::default(),
            Self::Host(stack) => stack.host_counters(),
        }
    }

    /// The TCP of this process, if it is that, for its wire.
    pub fn tcp_mut(&mut self) -> Option<&mut Stack> {
        match self {
            Self::Tcp(stack) => Some(stack),
            Self::Host(_) => None,
        }
    }

    /// The TCP of this process, if it is that.
    #[must_use]
    pub fn tcp(&self) -> Option<&Stack> {
        match self {
            Self::Tcp(stack) => Some(stack),
            Self::Host(_) => None,
        }
    }
}

/// Each has a seed of its own: two that choose the same ports would be taken for each other.
fn seed_of(index: usize, config: &StackConfig) -> u64 {
    config.seed.wrapping_add((index as u64).rotate_right(8))
}
