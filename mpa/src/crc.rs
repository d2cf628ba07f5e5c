//! CRC32c (RFC 5044 4.4), passed as a function value so that the layer itself needs no `std`.

use core::fmt;

/// A CRC32c implementation: polynomial 0x1EDC6F41, reflected, initial value and final XOR all ones (RFC 5044 4.4).
///
/// Two implementations must give the same values for all data. They may differ in speed only.
#[derive(Clone, Copy)]
pub struct Crc32c {
    update: fn(u32, &[u8]) -> u32,
}

impl Crc32c {
    /// The crate's own implementation with tables, eight octets a step. It runs everywhere.
    pub const PORTABLE: Self = Self::new(portable);

    /// The `crc32c` crate, which uses the CPU's CRC instructions if there are any.
    #[cfg(feature = "std")]
    pub const ACCELERATED: Self = Self::new(crc32c::crc32c_append);

    /// Makes a `Crc32c` of any implementation, such as a microcontroller's CRC unit.
    ///
    /// `update(crc, data)` gets the CRC of all octets before `data`, 0 at the start. It returns the CRC with `data`
    /// appended.
    pub const fn new(update: fn(u32, &[u8]) -> u32) -> Self {
        Self { update }
    }

    /// Returns the CRC of the octets that gave `crc` (0 at the start), followed by `data`.
    #[inline]
    pub fn update(self, crc: u32, data: &[u8]) -> u32 {
        (self.update)(crc, data)
    }

    /// Returns the CRC of `data` alone.
    #[inline]
    pub fn checksum(self, data: &[u8]) -> u32 {
        self.update(0, data)
    }
}

impl Default for Crc32c {
    /// [`Crc32c::ACCELERATED`] with the feature `std`, else [`Crc32c::PORTABLE`].
    fn default() -> Self {
        #[cfg(feature = "std")]
        {
            Self::ACCELERATED
        }
        #[cfg(not(feature = "std"))]
        {
            Self::PORTABLE
        }
    }
}

// The function's address tells a reader nothing, and it changes from build to build.
impl fmt::Debug for Crc32c {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crc32c").finish_non_exhaustive()
    }
}

fn portable(crc: u32, data: &[u8]) -> u32 {
    let mut state = !crc;
    let (words, tail) = data.as_chunks::<8>();
    for word in words {
        let [a, b, c, d, e, f, g, h] = *word;
        let [s0, s1, s2, s3] = state.to_le_bytes();
        state = TABLES[7][usize::from(a ^ s0)]
            ^ TABLES[6][usize::from(b ^ s1)]
            ^ TABLES[5][usize::from(c ^ s2)]
            ^ TABLES[4][usize::from(d ^ s3)]
            ^ TABLES[3][usize::from(e)]
            ^ TABLES[2][usize::from(f)]
            ^ TABLES[1][usize::from(g)]
            ^ TABLES[0][usize::from(h)];
    }
    for octet in tail {
        let [low, ..] = state.to_le_bytes();
        state = TABLES[0][usize::from(low ^ octet)] ^ (state >> 8);
    }
    !state
}

/// `TABLES[n][i]` is the effect of octet `i` on the remainder if `n` more octets follow it.
const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    let mut octet = 0;
    while i < 256 {
        let mut remainder: u32 = octet;
        let mut bit = 0;
        while bit < 8 {
            remainder = if remainder & 1 == 1 { (remainder >> 1) ^ POLYNOMIAL } else { remainder >> 1 };
            bit += 1;
        }
        tables[0][i] = remainder;
        i += 1;
        octet += 1;
    }
    let mut n = 1;
    while n < 8 {
        let mut i = 0;
        while i < 256 {
            let before = tables[n - 1][i];
            tables[n][i] = tables[0][(before & 0xFF) as usize] ^ (before >> 8);
            i += 1;
        }
        n += 1;
    }
    tables
}

/// 0x1EDC6F41 with its bits in reverse order, since the CRC takes the low bit of each octet first.
const POLYNOMIAL: u32 = 0x82F6_3B78;

static TABLES: [[u32; 256]; 8] = tables();

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;

    #[test]
    fn the_check_value_of_the_polynomial() {
        assert_eq!(Crc32c::PORTABLE.checksum(b"123456789"), 0xE306_9283);
        assert_eq!(Crc32c::default().checksum(b"123456789"), 0xE306_9283);
        assert_eq!(Crc32c::PORTABLE.checksum(b""), 0);
    }

    #[test]
    fn any_function_can_be_the_crc() {
        let counting = Crc32c::new(|crc, data| data.iter().fold(crc, |sum, octet| sum + u32::from(*octet)));
        assert_eq!(counting.update(counting.checksum(&[1, 2]), &[3]), 6);
    }

    #[test]
    fn debug_shows_no_address() {
        assert_eq!(format!("{:?}", Crc32c::PORTABLE), "Crc32c { .. }");
    }
}
