//! The octets of a ring, by positions of the stream.

use crate::memory::Octets;

/// A ring: the octet of position `p` lies at `p` modulo its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'a> {
    octets: Octets<'a>,
}

/// A stretch of a ring's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    at: usize,
    len: usize,
}

impl<'a> Ring<'a> {
    /// A ring of these octets. Their number is a power of two.
    #[inline]
    #[must_use]
    pub(crate) const fn new(octets: Octets<'a>) -> Self {
        Self { octets }
    }

    /// How many octets it has.
    #[inline]
    #[must_use]
    pub(crate) const fn size(&self) -> u64 {
        self.octets.len() as u64
    }

    /// Copies octets to `position` on. There are at most as many as the ring has.
    #[inline]
    pub(crate) fn write(&self, position: u64, octets: &[u8]) {
        let [first, second] = self.spans(position, octets.len());
        if let Some((head, tail)) = octets.split_at_checked(first.len) {
            let _written = self.octets.write(first.at, head);
            if second.len > 0 {
                let _written = self.octets.write(second.at, tail);
            }
        }
    }

    /// Copies the octets from `position` on. They are at most as many as the ring has.
    #[inline]
    pub(crate) fn read(&self, position: u64, octets: &mut [u8]) {
        let [first, second] = self.spans(position, octets.len());
        if let Some((head, tail)) = octets.split_at_mut_checked(first.len) {
            let _read = self.octets.read(first.at, head);
            if second.len > 0 {
                let _read = self.octets.read(second.at, tail);
            }
        }
    }

    /// Returns the memory of `len` octets from `position` on, for system calls: address and length. The second piece
    /// is empty unless the first reaches the ring's end.
    #[cfg(not(loom))]
    #[must_use]
    pub(crate) fn pieces(&self, position: u64, len: usize) -> [(*mut u8, usize); 2] {
        self.spans(position, len).map(|span| {
            let address = self.octets.address(span.at, span.len);
            address.map_or((core::ptr::null_mut(), 0), |address| (address, span.len))
        })
    }

    /// The stretches of `len` octets from `position` on; of the ring's size if `len` is more.
    #[inline]
    fn spans(&self, position: u64, len: usize) -> [Span; 2] {
        let size = self.octets.len();
        let at = index(position) & size.wrapping_sub(1);
        let len = len.min(size);
        let first = len.min(size - at);
        [Span { at, len: first }, Span { at: 0, len: len - first }]
    }
}

/// Octets that are copied between two publications: both ends copy at the same time. More by one `memcpy` leave the caches
/// of some processors, from where the other end has to fetch them.
pub(crate) const AT_A_TIME: usize = 32 << 10;

/// The low part of a number, as memory is indexed.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the programs are of 64 bits; a ring's index is masked")]
pub(crate) const fn index(number: u64) -> usize {
    number as usize
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::leg::RingPlace;
    use crate::memory::Link;

    #[test]
    fn octets_go_around_the_ring_and_nothing_beside_it_changes() {
        let link = Link::map(Link::create().unwrap()).unwrap();
        let ring = Ring::new(link.ring(RingPlace::new(65, 16).unwrap()));
        let octets: Vec<u8> = (0..ring.size()).map(|n| (n % 251) as u8 + 1).collect();
        for position in [0, 1, ring.size() - 3, ring.size(), u64::MAX - 1] {
            ring.write(position, &octets);
            let mut read = vec![0; octets.len()];
            ring.read(position, &mut read);
            assert_eq!(read, octets, "{position}");
        }
        for unit in [64, 66] {
            let mut beside = vec![9; 1 << 16];
            Ring::new(link.ring(RingPlace::new(unit, 16).unwrap())).read(0, &mut beside);
            assert!(beside.iter().all(|octet| *octet == 0), "{unit}");
        }
    }

    #[test]
    fn pieces_for_system_calls_end_with_the_ring() {
        let link = Link::map(Link::create().unwrap()).unwrap();
        let ring = Ring::new(link.ring(RingPlace::new(64, 16).unwrap()));
        let [(first, left), (second, rest)] = ring.pieces(ring.size() * 3 - 10, 25);
        assert_eq!((left, rest), (10, 15));
        assert_eq!(first.addr() - second.addr(), (1 << 16) - 10);
        let [(_, whole), (_, none)] = ring.pieces(5, usize::MAX);
        assert_eq!((whole, none), ((1 << 16) - 5, 5));
    }
}
