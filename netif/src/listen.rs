use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// What to listen on. A port alone (`4791.into()`) means all own addresses and the configured backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listen {
    /// The own address that connections are taken to; all of them if none or unspecified.
    pub address: Option<IpAddr>,
    /// The port; for 0 one is chosen that nobody uses.
    pub port: u16,
    /// Connections that are half-open or not yet taken, at most, instead of the configured backlog; at least 1.
    pub backlog: Option<usize>,
}

impl Listen {
    /// The address and port asked for, both of them possibly unspecified.
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
        Self { address: Some(address.ip()), port: address.port(), backlog: None }
    }
}
