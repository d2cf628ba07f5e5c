//! From names to addresses.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use crate::core::Id;
use crate::error::Error;
use crate::manager::Cm;

/// What an id is made for in one step, as `struct rdma_addrinfo` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddrInfo {
    /// The own address: where to listen (passive), or from where to connect.
    pub source: Option<SocketAddr>,
    /// The peer; none for an id that is to listen.
    pub destination: Option<SocketAddr>,
}

/// Returns the addresses of a name like `host:7174`, `192.0.2.1:7174` or `[2001:db8::1]:7174`, from the system's
/// resolver, in the order in which they should be tried. It may wait for the network.
///
/// # Errors
/// [`Error::Name`] when it is no host and port, or has no address.
pub fn resolve(name: &str) -> Result<Vec<SocketAddr>, Error> {
    let addresses: Vec<_> = name.to_socket_addrs().map_err(|_| Error::Name)?.collect();
    if addresses.is_empty() { Err(Error::Name) } else { Ok(addresses) }
}

impl Cm {
    /// Makes a synchronous id that is bound (passive), or whose address and route are resolved; then the program makes
    /// a queue pair, and listens or connects.
    ///
    /// # Errors
    /// As [`Id::bind`], [`Id::resolve_addr`] and [`Id::resolve_route`]; [`Error::Name`] when both addresses are
    /// missing.
    pub fn create_ep(&self, info: &AddrInfo) -> Result<Id, Error> {
        let id = self.create_id(None)?;
        match (info.source, info.destination) {
            (source, Some(destination)) => {
                id.resolve_addr(source, destination, PATIENCE)?;
                id.resolve_route(PATIENCE)?;
            }
            (Some(source), None) => id.bind(source)?,
            (None, None) => return Err(Error::Name),
        }
        Ok(id)
    }
}

const PATIENCE: Duration = Duration::from_secs(2);
