//! The address and port to listen on.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The address and port to listen on. A port alone (`4791.into()`) means all own addresses and the configured
/// backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listen {
    /// The own address. `None` or an unspecified address means all own addresses.
    pub address: Option<IpAddr>,
    /// The port; 0 chooses a free one.
    pub port: u16,
    /// The most connections that are half-open or not yet taken, at least 1. `None` means the configured backlog.
    pub backlog: Option<usize>,
}

impl Listen {
    /// Returns the wanted address and port. Both may be unspecified.
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
