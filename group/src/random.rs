//! Random octets of the kernel.

use std::fs::File;
use std::io::{self, Read};

/// Returns random octets.
///
/// # Errors
/// The kernel's.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut octets = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(octets)
}
