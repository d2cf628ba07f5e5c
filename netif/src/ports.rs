//! The ports of a station: which are listened on, which are bound, and which are free.

use core::net::SocketAddr;
use std::collections::{HashMap, HashSet};

use crate::demux::Tuple;
use crate::error::{ConnectError, ListenError};
use crate::ip::{IpSetting, is_station};
use crate::listen::Listen;
use crate::random::Random;

/// The ports of a station with one address.
#[derive(Debug)]
pub(crate) struct Ports {
    ip: IpSetting,
    listeners: HashMap<u16, Listener>,
    /// Ports that are kept for callers that have bound them.
    bound: HashSet<u16>,
    random: Random,
}

/// A listening port.
#[derive(Debug)]
struct Listener {
    backlog: usize,
    /// The number of connections that count against the backlog.
    waiting: usize,
}

impl Ports {
    pub(crate) fn new(ip: &IpSetting, seed: u64) -> Self {
        let (listeners, bound, random) = (HashMap::new(), HashSet::new(), Random::new(seed));
        Self { ip: ip.clone(), listeners, bound, random }
    }

    /// Returns `local` with the own address; `None` if it names another one.
    pub(crate) fn own(&self, local: SocketAddr) -> Option<SocketAddr> {
        let own = self.ip.address;
        (local.ip().is_unspecified() || local.ip() == own).then(|| SocketAddr::new(own, local.port()))
    }

    /// Does what [`Stack::bind`](crate::Stack::bind) does. `is_used` tells whether connections have a port.
    pub(crate) fn bind(
        &mut self,
        local: SocketAddr,
        is_used: impl Fn(u16) -> bool,
    ) -> Result<SocketAddr, ListenError> {
        let mut local = self.own(local).ok_or(ListenError::AddrNotAvailable)?;
        if local.port() == 0 {
            local.set_port(self.free_port(is_used)?);
        }
        if self.listens(local.port()) || !self.bound.insert(local.port()) {
            return Err(ListenError::AddrInUse);
        }
        Ok(local)
    }

    /// Frees a port that [`Self::bind`] reserved.
    pub(crate) fn unbind(&mut self, local: SocketAddr) {
        if self.own(local).is_some() {
            self.bound.remove(&local.port());
        }
    }

    /// Does what [`Stack::listen`](crate::Stack::listen) does.
    pub(crate) fn listen(
        &mut self,
        listen: Listen,
        backlog: usize,
        is_used: impl Fn(u16) -> bool,
    ) -> Result<SocketAddr, ListenError> {
        let mut local = self.own(listen.wanted()).ok_or(ListenError::AddrNotAvailable)?;
        if listen.port == 0 {
            local.set_port(self.free_port(is_used)?);
        }
        if self.listens(local.port()) {
            return Err(ListenError::AddrInUse);
        }
        let backlog = listen.backlog.unwrap_or(backlog).max(1);
        self.listeners.insert(local.port(), Listener { backlog, waiting: 0 });
        Ok(local)
    }

    /// Ends a listener. Returns its port if there was one.
    pub(crate) fn unlisten(&mut self, listener: SocketAddr) -> Option<u16> {
        self.own(listener)?;
        self.listeners.remove(&listener.port()).map(|_| listener.port())
    }

    /// Returns true if the port is listened on.
    pub(crate) fn listens(&self, port: u16) -> bool {
        self.listeners.contains_key(&port)
    }

    /// Counts one more connection against the backlog of a listener. Returns false if there is no listener, or no
    /// place left.
    pub(crate) fn take_place(&mut self, port: u16) -> bool {
        let place = self.listeners.get_mut(&port).filter(|listener| listener.waiting < listener.backlog);
        place.map(|listener| listener.waiting += 1).is_some()
    }

    /// Gives a place of the backlog back.
    pub(crate) fn release_place(&mut self, port: u16) {
        if let Some(listener) = self.listeners.get_mut(&port) {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }

    /// Returns the ends of a new connection to `remote`; see [`Stack::connect`](crate::Stack::connect). `is_free`
    /// tells whether no connection has these ends, and `is_ours` whether frames for them come to this stack.
    pub(crate) fn choose(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        (is_free, is_ours): (impl Fn(&Tuple) -> bool, impl Fn(&Tuple) -> bool),
    ) -> Result<Tuple, ConnectError> {
        let address = self.ip.address;
        if remote.port() == 0 || !is_station(remote.ip()) {
            return Err(ConnectError::Unaddressable);
        }
        if remote.is_ipv4() != address.is_ipv4() {
            return Err(ConnectError::FamilyMismatch);
        }
        if !self.ip.reaches(remote.ip()) {
            return Err(ConnectError::Unroutable);
        }
        if local.is_some_and(|local| self.own(local).is_none()) {
            return Err(ConnectError::AddrNotAvailable);
        }
        let remote = SocketAddr::new(remote.ip(), remote.port());
        let mut ports = ephemeral_ports(&mut self.random);
        let tuple = |port| Tuple { local: SocketAddr::new(address, port), remote };
        // The peer of a connection to this station is here too, and its tuple must be free as well.
        let is_free = |port| {
            let mirror = Tuple { local: remote, remote: tuple(port).local };
            tuple(port).local != remote
                && is_ours(&tuple(port))
                && !self.listeners.contains_key(&port)
                && is_free(&tuple(port))
                && (remote.ip() != address || is_free(&mirror))
        };
        if let Some(port) = local.map(|local| local.port()).filter(|&port| port != 0) {
            return if is_free(port) { Ok(tuple(port)) } else { Err(ConnectError::AddrInUse) };
        }
        let mut unbound = ports.by_ref().filter(|port| !self.bound.contains(port));
        unbound.find(|&port| is_free(port)).map(tuple).ok_or(ConnectError::NoPortFree)
    }

    /// Returns a port that is not listened on, bound or connected from.
    fn free_port(&mut self, is_used: impl Fn(u16) -> bool) -> Result<u16, ListenError> {
        let is_free =
            |port: &u16| !self.listeners.contains_key(port) && !self.bound.contains(port) && !is_used(*port);
        ephemeral_ports(&mut self.random).find(is_free).ok_or(ListenError::NoPortFree)
    }
}

/// Returns all ephemeral ports, beginning with a drawn one.
fn ephemeral_ports(random: &mut Random) -> impl Iterator<Item = u16> + use<> {
    let start = u16::try_from(random.below(u64::from(EPHEMERAL_COUNT))).unwrap_or(0);
    (0..EPHEMERAL_COUNT).map(move |step| EPHEMERAL_FIRST + (start + step) % EPHEMERAL_COUNT)
}

/// RFC 6335 section 6.
const EPHEMERAL_FIRST: u16 = 49_152;
const EPHEMERAL_COUNT: u16 = 16_384;
