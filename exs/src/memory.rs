//! Registered memory that operations take.

use core::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use weft_rnic::{Access, Mr, Pd, Region, RegisterError, Sge, Stag};

use crate::error::Error;

/// Registered memory that several operations may share. Clones are handles to the same memory.
///
/// The program reaches it by [`Self::read`] and [`Self::write`], at any time. Octets that the program or another
/// operation changes while an operation sends them arrive as they were before or after. The memory is deregistered
/// when the last handle is dropped, and no operation uses it any more.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Registered>);

/// Memory that an operation takes: a [`Buf`](crate::Buf), or a [`Memory`].
pub trait Octets: sealed::Sealed {}

/// Memory that is registered in the domain of a context. The tagged offset of its first octet is 0.
#[derive(Debug)]
#[expect(unnameable_types, reason = "nobody is to name it")]
pub struct Registered {
    memory: Mr,
    domain: Arc<()>,
}

/// The protection domain of a context, in which all of its memory is.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) pd: Pd,
    /// By this its memory is known.
    mark: Arc<()>,
}

/// The octets of an operation.
#[derive(Debug)]
pub(crate) struct Area {
    first: Piece,
    /// The other pieces, of a vectored send.
    more: Vec<Piece>,
    pub(crate) len: u32,
}

/// Octets that lie together.
#[derive(Debug)]
struct Piece {
    memory: Arc<Registered>,
    start: usize,
    len: u32,
}

impl Memory {
    pub(crate) const fn new(registered: Arc<Registered>) -> Self {
        Self(registered)
    }

    /// Copies octets from the memory, from this place on.
    ///
    /// # Errors
    /// [`Error::Range`]: nothing was copied.
    pub fn read(&self, at: usize, octets: &mut [u8]) -> Result<(), Error> {
        self.0.memory.read(at, octets).map_err(|_| Error::Range)
    }

    /// Copies octets into the memory, from this place on.
    ///
    /// # Errors
    /// [`Error::Range`]: nothing was copied, since they do not fit, or the memory cannot be written.
    pub fn write(&self, at: usize, octets: &[u8]) -> Result<(), Error> {
        self.0.memory.write(at, octets).map_err(|_| Error::Range)
    }

    /// Returns how many octets there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.memory.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether an operation uses the memory, or there is another handle.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Octets for Memory {}

impl sealed::Sealed for Memory {
    fn registered(&self) -> &Arc<Registered> {
        &self.0
    }
}

impl Domain {
    pub(crate) fn new(pd: Pd) -> Self {
        Self { pd, mark: Arc::default() }
    }
}

impl Registered {
    /// # Errors
    /// [`RegisterError`].
    pub(crate) fn new(domain: &Domain, region: Region, access: Access) -> Result<Arc<Self>, RegisterError> {
        let memory = domain.pd.register_at(region, access, 0)?;
        Ok(Arc::new(Self { memory, domain: Arc::clone(&domain.mark) }))
    }

    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }
}

impl Area {
    /// Takes a range of memory for an operation of this context, which writes there or does not.
    ///
    /// # Errors
    /// [`Error::Range`], [`Error::MessageSize`], [`Error::ForeignMemory`], [`Error::Memory`] if it cannot be written.
    pub(crate) fn new(
        memory: &impl Octets,
        range: &impl RangeBounds<usize>,
        domain: &Domain,
        writes: bool,
    ) -> Result<Self, Error> {
        let first = Piece::new(memory, range, domain)?;
        if writes && !first.memory.memory.access().contains(Access::LOCAL_WRITE) {
            return Err(RegisterError::Fault.into());
        }
        Ok(Self { len: first.len, first, more: Vec::new() })
    }

    /// Takes ranges of memory for a send of this context.
    ///
    /// # Errors
    /// [`Error::Range`], also for none, [`Error::MessageSize`], also for too many, [`Error::ForeignMemory`].
    pub(crate) fn of_parts<M: Octets>(parts: &[(M, Range<usize>)], domain: &Domain) -> Result<Self, Error> {
        let pieces = parts.iter().map(|(memory, range)| Piece::new(memory, range, domain));
        let mut more = pieces.collect::<Result<Vec<Piece>, Error>>()?;
        if more.len() > MAX_PIECES {
            return Err(Error::MessageSize);
        }
        let len = more.iter().try_fold(0_u32, |len, piece| len.checked_add(piece.len));
        let len = len.ok_or(Error::MessageSize)?;
        // Pieces without octets take no place in a request.
        more.retain(|piece| piece.len > 0 || parts.len() == 1);
        if more.is_empty() {
            return parts
                .first()
                .ok_or(Error::Range)
                .and_then(|(memory, _)| Self::new(memory, &(..0), domain, false));
        }
        Ok(Self { len, first: more.remove(0), more })
    }

    /// Returns a copy of the octets in one piece.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn together(&self, domain: &Domain) -> Result<Self, Error> {
        let region = Region::owned(self.len as usize).ok_or(RegisterError::OutOfMemory)?;
        let whole = Registered::new(domain, region, Access::LOCAL_WRITE | Access::MW_BIND)?;
        let (mut scratch, len) = ([0; SCRATCH], self.len as usize);
        for at in (0..len).step_by(SCRATCH) {
            let octets = &mut scratch[..SCRATCH.min(len - at)];
            if !self.copy_out(at, octets) || whole.memory.write(at, octets).is_err() {
                return Err(RegisterError::Fault.into());
            }
        }
        let first = Piece { memory: whole, start: 0, len: self.len };
        Ok(Self { first, more: Vec::new(), len: self.len })
    }

    /// Returns the number of pieces, which is at most 31.
    pub(crate) fn count(&self) -> u8 {
        u8::try_from(1 + self.more.len()).unwrap_or(u8::MAX)
    }

    /// Returns the tagged offset of the first octet.
    pub(crate) const fn tagged_offset(&self) -> u64 {
        self.first.start as u64
    }

    /// Returns the STag of the memory of the first octet.
    pub(crate) fn stag(&self) -> Stag {
        self.first.memory.memory.rkey()
    }

    /// Returns the elements for a request on these octets.
    pub(crate) fn elements(&self, at: u32, len: u32) -> impl Iterator<Item = Sge> {
        let (mut skipped, mut left) = (at, len);
        self.pieces().filter_map(move |piece| {
            let at = skipped.min(piece.len);
            let len = left.min(piece.len - at);
            skipped -= at;
            left -= len;
            (len > 0).then(|| piece.memory.memory.sge(piece.start + at as usize, len))
        })
    }

    /// Copies octets out of the pieces, from this octet of all on. Returns whether there are as many, and all are within
    /// the memory.
    pub(crate) fn copy_out(&self, at: usize, mut octets: &mut [u8]) -> bool {
        let mut skipped = at;
        for piece in self.pieces() {
            let from = skipped.min(piece.len as usize);
            skipped -= from;
            let len = octets.len().min(piece.len as usize - from);
            let Some((part, rest)) = octets.split_at_mut_checked(len) else { return false };
            if len > 0 && piece.memory.memory.read(piece.start + from, part).is_err() {
                return false;
            }
            octets = rest;
        }
        octets.is_empty()
    }

    /// Copies octets into the first piece. Returns whether they are within the memory.
    pub(crate) fn copy_in(&self, at: usize, octets: &[u8]) -> bool {
        self.first.memory.memory.write(self.first.start + at, octets).is_ok()
    }

    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        core::iter::once(&self.first).chain(&self.more)
    }
}

impl Piece {
    /// # Errors
    /// [`Error::Range`], [`Error::MessageSize`], [`Error::ForeignMemory`].
    fn new(memory: &impl Octets, range: &impl RangeBounds<usize>, domain: &Domain) -> Result<Self, Error> {
        let memory = memory.registered();
        let (start, len) = part(range, memory.len())?;
        if !Arc::ptr_eq(&memory.domain, &domain.mark) {
            return Err(Error::ForeignMemory);
        }
        Ok(Self { memory: Arc::clone(memory), start, len })
    }
}

/// Returns where a range begins, and how many octets it has.
///
/// # Errors
/// [`Error::Range`], [`Error::MessageSize`].
fn part(range: &impl RangeBounds<usize>, len: usize) -> Result<(usize, u32), Error> {
    let start = match range.start_bound() {
        Bound::Included(start) => Some(*start),
        Bound::Excluded(before) => before.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.checked_add(1),
        Bound::Excluded(end) => Some(*end),
        Bound::Unbounded => Some(len),
    };
    let (start, end) = start.zip(end).filter(|(_, end)| *end <= len).ok_or(Error::Range)?;
    let octets = end.checked_sub(start).ok_or(Error::Range)?;
    Ok((start, u32::try_from(octets).map_err(|_| Error::MessageSize)?))
}

pub(crate) mod sealed {
    use super::{Arc, Registered};

    /// What an operation needs of memory. No other types have it.
    #[expect(unnameable_types, reason = "nobody is to name it")]
    pub trait Sealed: Send + 'static {
        /// Returns the memory.
        fn registered(&self) -> &Arc<Registered>;
    }
}

/// Pieces of memory that one request gathers, beside the header of a message.
pub(crate) const MAX_PIECES: usize = 31;
/// Octets that are copied at a time.
const SCRATCH: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_within_the_buffer() {
        assert_eq!(part(&(..), 9), Ok((0, 9)));
        assert_eq!(part(&(..9), 9), Ok((0, 9)));
        assert_eq!(part(&(9..), 9), Ok((9, 0)));
        assert_eq!(part(&(2..=4), 9), Ok((2, 3)));
        assert_eq!(part(&(Bound::Excluded(2), Bound::Unbounded), 9), Ok((3, 6)));
        assert_eq!(part(&(..10), 9), Err(Error::Range));
        assert_eq!(part(&(10..), 9), Err(Error::Range));
        assert_eq!(part(&(0..=usize::MAX), 9), Err(Error::Range));
        #[expect(clippy::reversed_empty_ranges, reason = "a caller may err")]
        let reversed = 5..4;
        assert_eq!(part(&reversed, 9), Err(Error::Range));
        assert_eq!(part(&(..), 1 << 32), Err(Error::MessageSize));
    }
}
