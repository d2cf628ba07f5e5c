//! The speed of memory itself: a copy alone, and a copy with a CRC32c over it.

use std::hint::black_box;

use weft_mpa::Crc32c;

use crate::case::{Effort, Sample, Side, Trouble};
use crate::octets::{compare, pattern, round_len};
use crate::watch::Watch;

/// Copies of pieces of memory, each to a place of its own. Every transfer needs at least this.
pub(crate) struct Copies {
    piece: usize,
    with_crc: bool,
    sent: Vec<u8>,
    came: Vec<u8>,
    /// The CRC32c of each piece, for the comparison with those of the timed part.
    sums: Vec<u32>,
}

impl Copies {
    /// Makes pieces of `piece` octets, and if wanted a CRC32c over each copy, as a second pass.
    pub(crate) fn new(piece: usize, with_crc: bool) -> Self {
        let sent = pattern(round_len(piece) * piece);
        let sums = sent.chunks_exact(piece).map(|octets| Crc32c::PORTABLE.checksum(octets)).collect();
        Self { piece, with_crc, came: vec![0; sent.len()], sent, sums }
    }

    fn round(&mut self) -> bool {
        let Self { piece, with_crc, sent, came, sums } = self;
        let pieces = sent.chunks_exact(*piece).zip(came.chunks_exact_mut(*piece)).zip(sums);
        let mut is_right = true;
        for ((from, to), sum) in pieces {
            black_box(&mut *to).copy_from_slice(black_box(from));
            is_right &= !*with_crc || Crc32c::ACCELERATED.checksum(to) == *sum;
        }
        is_right
    }
}

impl Side for Copies {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let mut watch = Watch::new(effort);
        while watch.goes_on() {
            self.came.fill(0);
            if !watch.time(|| self.round()) {
                return Err(Trouble::failed("a CRC32c is not what it should be"));
            }
            compare(&self.came, &self.sent)?;
            let pieces = self.sums.len() as u64;
            watch.count(pieces, self.sent.len() as u64, pieces);
        }
        Ok(watch.finish())
    }
}
