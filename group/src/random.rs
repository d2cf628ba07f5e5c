//! Random octets.

use std::fs::File;
use std::io::{self, Read};

/// Where the random octets of a server come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Kernel,
    /// A simulation's seed (SplitMix64): the same seed gives the same octets.
    Seed(u64),
}

impl Source {
    /// Returns random octets.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn draw<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let Self::Seed(state) = self else { return random() };
        let mut octets = [0; N];
        for word in octets.chunks_mut(8) {
            *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = *state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            word.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes()[..word.len()]);
        }
        Ok(octets)
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
