//! A place that was checked, and what can be done there.

use super::Violation;
use crate::payload::Payload;
use crate::region::Region;

/// A checked place in a memory region. The check covers the length that the caller gave. A longer copy is a fault of
/// the caller; the region refuses it only beyond its own bounds.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    pub(super) region: &'a Region,
    pub(super) offset: usize,
}

impl<'a> Span<'a> {
    pub(crate) const fn region(&self) -> &'a Region {
        self.region
    }

    pub(crate) const fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the place `octets` further on, which the check has to have covered.
    #[must_use]
    pub const fn skip(self, octets: usize) -> Self {
        Self { region: self.region, offset: self.offset.saturating_add(octets) }
    }
}

impl Span<'_> {
    /// Places `octets` here.
    ///
    /// # Errors
    /// [`Violation::Bounds`] when they reach beyond the region, [`Violation::Gone`] when some of the memory is not
    /// there any more.
    #[inline]
    pub fn copy_in(&self, octets: &[u8]) -> Result<(), Violation> {
        let is_done = self.region.copy_in(self.offset, octets);
        if is_done { Ok(()) } else { Err(self.region.violation(self.offset, octets.len())) }
    }

    /// Returns whether an Atomic can work here (RFC 7306 section 5.1).
    ///
    /// # Errors
    /// [`Violation::Unaligned`] when the place is not aligned to 8 octets in memory; its tagged offset does not matter.
    pub fn check_aligned(&self) -> Result<(), Violation> {
        if self.region.is_aligned(self.offset) { Ok(()) } else { Err(Violation::Unaligned) }
    }

    /// Replaces the 64 bits here, in the machine's byte order, by what `change` makes of them, and returns what they
    /// were. No other update of the same memory comes in between.
    ///
    /// # Errors
    /// [`Violation::Unaligned`] as in [`Self::check_aligned`], else as for [`Self::copy_in`].
    pub fn update(&self, change: impl Fn(u64) -> u64) -> Result<u64, Violation> {
        self.check_aligned()?;
        let original = self.region.update(self.offset, change);
        original.ok_or_else(|| self.region.violation(self.offset, size_of::<u64>()))
    }

    /// Reads `octets.len()` octets from here.
    ///
    /// # Errors
    /// As for [`Self::copy_in`].
    #[inline]
    pub fn copy_out(&self, octets: &mut [u8]) -> Result<(), Violation> {
        let is_done = self.region.copy_out(self.offset, octets);
        if is_done { Ok(()) } else { Err(self.region.violation(self.offset, octets.len())) }
    }

    /// Returns whether the first and the last of `len` octets, of which there are some, can be read.
    ///
    /// # Errors
    /// As for [`Self::copy_in`].
    pub(crate) fn check_there(&self, len: usize) -> Result<(), Violation> {
        let mut octet = [0];
        self.copy_out(&mut octet)?;
        self.skip(len - 1).copy_out(&mut octet)
    }

    /// Puts `len` octets from here into a segment's payload.
    ///
    /// # Errors
    /// As for [`Self::copy_in`]; [`Violation::Bounds`] too when the payload has no place for them.
    #[inline]
    pub fn put_into(&self, len: usize, payload: &mut Payload<'_>) -> Result<(), Violation> {
        payload.put_from(self.region, self.offset, len)
    }
}
