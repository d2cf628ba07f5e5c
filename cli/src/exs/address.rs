//! Addresses as they are typed, and why nobody is there.

use std::net::{SocketAddr, ToSocketAddrs};

use weft_exs::Error;
use weft_rnic::ConnectFailure;

use crate::failure::Failure;

/// Reads an address with a port. Of a name it takes the first IPv4 address, else the first one.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let unknown = || format!("`{text}` is no address with a port, as 10.0.0.1:7475 is");
    if !has_port {
        return Err(unknown());
    }
    let found: Vec<SocketAddr> =
        text.to_socket_addrs().map_err(|error| format!("`{text}`: {error}"))?.collect();
    found.iter().find(|address| address.is_ipv4()).or_else(|| found.first()).copied().ok_or_else(unknown)
}

/// Returns the failure of a connect, with a hint if the peer may be a program without EXS.
pub(super) fn not_connected(peer: SocketAddr, error: Error) -> Failure {
    let has_answered_otherwise = matches!(
        error,
        Error::TimedOut
            | Error::Connect(ConnectFailure::TimedOut | ConnectFailure::Closed | ConnectFailure::Protocol(_))
    );
    let hint = if has_answered_otherwise { " (perhaps it does not speak EXS)" } else { "" };
    Failure::work(format!("{peer}: {error}{hint}"))
}
