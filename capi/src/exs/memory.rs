//! Registered memory of the program.

use core::ops::Range;

/// Registered memory of the program.
#[derive(Debug)]
pub(crate) struct Memory {
    address: usize,
    memory: weft_exs::Memory,
}

impl Memory {
    /// `memory` begins at the address.
    pub(crate) const fn new(address: usize, memory: weft_exs::Memory) -> Self {
        Self { address, memory }
    }

    /// Returns where octets of the program lie in it, if they do.
    pub(crate) fn place(&self, address: usize, len: usize) -> Option<Range<usize>> {
        within(self.address, self.memory.len(), address, len)
    }

    pub(crate) fn shared(&self) -> weft_exs::Memory {
        self.memory.clone()
    }
}

fn within(start: usize, all: usize, address: usize, len: usize) -> Option<Range<usize>> {
    let at = address.checked_sub(start)?;
    let end = at.checked_add(len)?;
    (end <= all).then_some(at..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_lie_within_or_not() {
        assert_eq!(within(4096, 100, 4096, 100), Some(0..100));
        assert_eq!(within(4096, 100, 4196, 0), Some(100..100));
        assert_eq!(within(4096, 100, 4106, 90), Some(10..100));
        for (address, len) in [(4095, 1), (4096, 101), (4197, 0), (4100, usize::MAX), (usize::MAX, 2)] {
            assert_eq!(within(4096, 100, address, len), None, "{address} {len}");
        }
    }
}
