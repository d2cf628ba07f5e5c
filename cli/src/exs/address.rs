//! Addresses as they are typed.

/// Reads an address with a port.
pub(super) fn address(text: &str) -> Result<std::net::SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is no address with a port, as 10.0.0.1:7475 is"))
}
