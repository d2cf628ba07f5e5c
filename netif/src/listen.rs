//! What to listen on.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where to listen. A port alone (`4791.into()`) means all own addresses and the configured backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listen {
    /// The own address; all of them if none is given or it is unspecified.
    pub address: Option<IpAddr>,
    /// The port; 0 chooses a free one.
    pub port: u16,
    /// How many connections may be half-open or not yet taken, at least 1; the configured backlog if none is given.
    pub backlog: Option<usize>,
}

impl Listen {
    /// Returns the address and port asked for, both of which may be unspecified.
    pub(crate) fn wanted(&self) -> SocketAddr {
        SocketAddr::new(self.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), self.port)
    }
}

impl From<u16> for Listen {
    fn from(port: u16) -> Self {
        Self { port, ..Self::default() }
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self { address: Some(address.ip()), ..address.port().into() }
    }
}
