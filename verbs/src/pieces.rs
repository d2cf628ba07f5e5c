//! A message cut along the scatter-gather elements that hold it.

use crate::work::Sge;

/// A part of a message that lies in one SGE.
pub(crate) struct Piece {
    pub(crate) sge: Sge,
    pub(crate) to: u64,
    pub(crate) range: core::ops::Range<usize>,
}

/// Cuts `len` octets at `offset` of a message along the SGEs that hold it.
#[inline]
pub(crate) fn pieces(sges: &[Sge], offset: usize, len: usize) -> impl Iterator<Item = Piece> + '_ {
    let mut start = 0_usize;
    sges.iter().filter_map(move |&sge| {
        let (first, size) = (start, sge.length as usize);
        start += size;
        let begin = offset.max(first);
        let end = (offset + len).min(first + size);
        (begin < end).then(|| Piece {
            sge,
            to: sge.addr.wrapping_add((begin - first) as u64),
            range: begin - offset..end - offset,
        })
    })
}
