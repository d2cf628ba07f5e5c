//! The octets that rping sends: the advertisement of a buffer, and the ping itself.

use weft_rnic::Stag;

/// The place of a buffer, as both sides send it: 16 octets, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advertisement {
    pub(crate) address: u64,
    pub(crate) rkey: Stag,
    pub(crate) size: u32,
}

impl Advertisement {
    pub(crate) fn emit(&self) -> [u8; ADVERTISEMENT_LEN] {
        let mut octets = [0; ADVERTISEMENT_LEN];
        octets[..8].copy_from_slice(&self.address.to_be_bytes());
        octets[8..12].copy_from_slice(&self.rkey.0.to_be_bytes());
        octets[12..].copy_from_slice(&self.size.to_be_bytes());
        octets
    }

    pub(crate) const fn parse(octets: &[u8; ADVERTISEMENT_LEN]) -> Self {
        let [a0, a1, a2, a3, a4, a5, a6, a7, k0, k1, k2, k3, s0, s1, s2, s3] = *octets;
        Self {
            address: u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            rkey: Stag(u32::from_be_bytes([k0, k1, k2, k3])),
            size: u32::from_be_bytes([s0, s1, s2, s3]),
        }
    }
}

/// Fills in the octets of ping number `index`: a name, then letters that start one further at each ping, then a zero.
pub(crate) fn fill(octets: &mut [u8], index: u64) {
    let name = format!("rdma-ping-{index}: ");
    let letters = usize::try_from(index % u64::from(LETTERS)).unwrap_or(0);
    let tail = (0..LETTERS).cycle().skip(letters).map(|letter| FIRST_LETTER + letter);
    for (octet, value) in octets.iter_mut().zip(name.bytes().chain(tail)) {
        *octet = value;
    }
    if let Some(last) = octets.last_mut() {
        *last = 0;
    }
}

/// Returns the octets of a ping as text, up to the first zero. A dot stands for an octet that cannot be printed.
pub(crate) fn text(octets: &[u8]) -> String {
    let end = octets.iter().position(|&octet| octet == 0).unwrap_or(octets.len());
    let printable = |octet: &u8| if matches!(octet, b' '..=b'~') { char::from(*octet) } else { '.' };
    octets[..end].iter().map(printable).collect()
}

pub(crate) const ADVERTISEMENT_LEN: usize = 16;
/// Octets of the largest ping. The real rping takes fewer. A server with all its clients needs at most 256 MiB for
/// pings.
pub(crate) const MAX_SIZE: u32 = 4 << 20;
const FIRST_LETTER: u8 = b'A';
/// From 'A' to 'z'.
const LETTERS: u8 = 58;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advertisements_are_big_endian() {
        let advertisement =
            Advertisement { address: 0x0102_0304_0506_0708, rkey: Stag(0x1112_1314), size: 0x2122_2324 };
        let octets = advertisement.emit();
        assert_eq!(octets, *b"\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x21\x22\x23\x24");
        assert_eq!(Advertisement::parse(&octets), advertisement);
    }

    #[test]
    fn pings_say_their_number_and_end_in_zero() {
        let mut octets = [b'?'; 30];
        fill(&mut octets, 2);
        assert_eq!(text(&octets), "rdma-ping-2: CDEFGHIJKLMNOPQR");
        assert_eq!(text(b"[\\]\x1b\0x"), "[\\].");
        fill(&mut octets[..1], 7);
        assert_eq!(octets[0], 0);
        fill(&mut [], 7);
    }
}
