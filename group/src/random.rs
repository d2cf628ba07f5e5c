//! Random octets.

use std::fs::File;
use std::io::{self, Read};

/// Where the random octets of a server come from.
pub(crate) enum Source {
    Kernel,
    /// A simulation's generator.
    Generator(Box<dyn FnMut() -> u64 + Send>),
}

impl Source {
    /// Returns random octets.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn draw<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let Self::Generator(draw) = self else { return random() };
        let mut octets = [0; N];
        for word in octets.chunks_mut(8) {
            word.copy_from_slice(&draw().to_le_bytes()[..word.len()]);
        }
        Ok(octets)
    }
}

impl core::fmt::Debug for Source {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(if matches!(self, Self::Kernel) { "Kernel" } else { "Generator" })
    }
}

/// Returns random octets of the kernel.
///
/// # Errors
/// The kernel's.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut octets = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(octets)
}
