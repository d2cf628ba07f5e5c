//! The payload of a segment that is being built: where it goes, and the CRC that goes along.

use crate::crc;
use crate::memory::Violation;
use crate::region::Region;

/// A place that is filled from its beginning on, piece by piece. If the segment's FPDU has a CRC, each copy continues
/// it in the same pass.
#[derive(Debug)]
pub struct Payload<'o> {
    rest: &'o mut [u8],
    crc: Option<u32>,
}

impl<'o> Payload<'o> {
    /// Makes a place without a CRC that is made with the copies.
    pub const fn new(out: &'o mut [u8]) -> Self {
        Self { rest: out, crc: None }
    }

    /// Makes a place behind octets whose CRC32c is `crc`.
    pub const fn with_crc(out: &'o mut [u8], crc: u32) -> Self {
        Self { rest: out, crc: Some(crc) }
    }

    /// Puts `octets` behind what is there.
    ///
    /// # Errors
    /// [`Violation::Bounds`] when they are more than [`Self::left`]; nothing is put then.
    #[inline]
    pub fn put(&mut self, octets: &[u8]) -> Result<(), Violation> {
        self.fill(octets.len(), |place, crc| {
            match crc {
                Some(crc) => *crc = crc::copy(*crc, octets, place).ok_or(Violation::Bounds)?,
                None => place.copy_from_slice(octets),
            }
            Ok(())
        })
    }

    /// Puts `len` octets behind what is there, those at `offset` of a region.
    ///
    /// # Errors
    /// [`Violation::Bounds`] when they reach beyond the region, or are more than [`Self::left`]; [`Violation::Gone`]
    /// when some of its memory is not there any more. Nothing is put then.
    #[inline]
    pub(crate) fn put_from(&mut self, region: &Region, offset: usize, len: usize) -> Result<(), Violation> {
        self.fill(len, |place, crc| {
            let copied = match crc {
                Some(crc) => region.copy_out_with_crc(offset, place, *crc).map(|continued| *crc = continued),
                None => region.copy_out(offset, place).then_some(()),
            };
            copied.ok_or_else(|| region.violation(offset, len))
        })
    }

    /// Returns the number of octets that are still to be put.
    pub const fn left(&self) -> usize {
        self.rest.len()
    }

    /// Returns the CRC32c up to where the place is filled, if there is one.
    pub const fn crc(&self) -> Option<u32> {
        self.crc
    }

    #[inline]
    fn fill(
        &mut self,
        len: usize,
        copy: impl FnOnce(&mut [u8], Option<&mut u32>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let place = self.rest.get_mut(..len).ok_or(Violation::Bounds)?;
        copy(place, self.crc.as_mut())?;
        self.rest = &mut core::mem::take(&mut self.rest)[len..];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_from_anywhere_lie_behind_each_other_and_under_one_crc() {
        let octets: Vec<u8> = (0..=255).cycle().take(3000).collect();
        let region = Region::owned(3000).unwrap();
        assert!(region.copy_in(0, &octets));
        for with_crc in [false, true] {
            let mut out = vec![0; 2200];
            let mut payload = match with_crc {
                true => Payload::with_crc(&mut out, crc::append(0, b"before")),
                false => Payload::new(&mut out),
            };
            payload.put(b"head").unwrap();
            payload.put_from(&region, 5, 1300).unwrap();
            payload.put(b"").unwrap();
            payload.put_from(&region, 2111, 889).unwrap();
            assert_eq!(payload.left(), 7);
            payload.put(b"the end").unwrap();
            assert_eq!(payload.left(), 0);
            let crc = payload.crc();
            assert!(out == [b"head", &octets[5..1305], &octets[2111..], b"the end"].concat());
            assert_eq!(crc, with_crc.then(|| crc32c::crc32c(&[b"before", &out[..]].concat())));
        }
    }

    #[test]
    fn octets_without_a_place_are_refused_as_a_whole() {
        let region = Region::owned(8).unwrap();
        assert!(region.copy_in(0, b"12345678"));
        let mut out = [0; 6];
        let mut payload = Payload::with_crc(&mut out, 0);
        assert_eq!(payload.put(b"1234567"), Err(Violation::Bounds));
        assert_eq!(payload.put_from(&region, 0, 7), Err(Violation::Bounds));
        assert_eq!(payload.put_from(&region, 7, 2), Err(Violation::Bounds), "the region has one");
        assert_eq!((payload.left(), payload.crc()), (6, Some(0)));
        payload.put_from(&region, 1, 6).unwrap();
        assert_eq!((payload.left(), payload.crc()), (0, Some(crc32c::crc32c(b"234567"))));
        assert_eq!(payload.put(b"x"), Err(Violation::Bounds));
        payload.put(b"").unwrap();
        assert_eq!(&out, b"234567");
    }
}
