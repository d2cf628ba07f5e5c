//! Contents that identify their sender, their message, and the place of each octet. The guest's `peer_pattern.c`
//! makes the same.

use weft_rnic::Mr;

/// The side that made the octets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Guest = 1,
    Host = 2,
}

/// The purpose of the octets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Send = 0,
    Write = 1,
    Read = 2,
    Private = 3,
}

/// The octets of one message, without end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern(u32);

impl Pattern {
    pub(crate) const fn new(side: Side, kind: Kind, round: usize, index: usize) -> Self {
        Self(u32::from_be_bytes([side as u8, kind as u8, round.to_le_bytes()[0], index.to_le_bytes()[0]]))
    }

    /// Returns the first `len` octets.
    pub(crate) fn octets(self, len: usize) -> Vec<u8> {
        (0..len).map(|place| self.octet(place)).collect()
    }

    /// Writes the first `len` octets to `offset` of `memory`.
    pub(crate) fn fill(self, memory: &Mr, offset: usize, len: usize) -> Result<(), String> {
        memory.write(offset, &self.octets(len)).map_err(|error| format!("{error:?}"))
    }

    /// Compares `octets` with the first ones of this pattern.
    pub(crate) fn check(self, octets: &[u8], what: &str) -> Result<(), String> {
        let wrong = octets.iter().enumerate().find(|&(place, &octet)| octet != self.octet(place));
        wrong.map_or(Ok(()), |(place, octet)| {
            let (len, wanted) = (octets.len(), self.octet(place));
            Err(format!("{what}: octet {place} of {len} is {octet:02x}, not {wanted:02x}"))
        })
    }

    /// Compares `len` octets at `offset` of `memory` with the first ones of this pattern.
    pub(crate) fn check_memory(
        self,
        memory: &Mr,
        offset: usize,
        len: usize,
        what: &str,
    ) -> Result<(), String> {
        let mut octets = vec![0; len];
        memory.read(offset, &mut octets).map_err(|error| format!("{error:?}"))?;
        self.check(&octets, what)
    }

    const fn octet(self, place: usize) -> u8 {
        let [a, b, c, d, ..] = place.to_le_bytes();
        let place = u32::from_le_bytes([a, b, c, d]);
        let mixed = self.0.wrapping_mul(2_654_435_761).wrapping_add(place.wrapping_mul(2_246_822_519));
        let mixed = mixed ^ mixed >> 15;
        mixed.wrapping_mul(3_266_489_917).to_be_bytes()[0]
    }
}
