//! Octets as text.

use std::fmt::Write as _;

/// Returns octets as hexadecimal digits.
pub fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut out, octet| {
        let _ = write!(out, "{octet:02x}");
        out
    })
}
