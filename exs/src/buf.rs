//! Memory that is the program's alone outside of operations, and blocks of slots.
//!
//! A [`Buf`] is with the user exactly while no request and no window names it. An operation has an
//! [`Area`](crate::memory::Area) of its memory, which has no slice. Nothing is borrowed across an operation.
#![allow(unsafe_code)]

use core::fmt;
use core::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use weft_rnic::{Access, Mr, Pd, Region, RegisterError, Sge};

use crate::memory::{Domain, Octets, Registered, sealed};

/// Registered memory. It goes into an operation by value, and comes back with its outcome.
pub struct Buf {
    registered: Arc<Registered>,
    /// The octets, for slices.
    region: Region,
}

/// Memory of the socket's own, of which the parts are used at different times.
#[derive(Debug)]
pub(crate) struct Block {
    whole: Arc<Region>,
    memory: Mr,
}

impl Buf {
    /// Allocates and registers zeroed octets.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub(crate) fn new(domain: &Domain, len: usize) -> Result<Self, RegisterError> {
        let [whole, region] = twice(len)?;
        let registered = Registered::new(domain, whole, Access::LOCAL_WRITE | Access::MW_BIND)?;
        Ok(Self { registered, region })
    }
}

impl Octets for Buf {}

impl sealed::Sealed for Buf {
    fn registered(&self) -> &Arc<Registered> {
        &self.registered
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is owned. The user has the buffer, so that no request and no bound window names it, and
        // what changed it before has been told by a completion, or is over since `Mw::revoke`. All copies are made by
        // the `Area` of an operation, which is over before the buffer comes back.
        unsafe { self.region.as_slice() }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; and `self` is borrowed alone.
        unsafe { self.region.as_mut_slice() }
    }
}

impl Block {
    /// Allocates and registers zeroed octets, whose tagged offsets begin at 0.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub(crate) fn new(pd: &Pd, len: usize, access: Access) -> Result<Self, RegisterError> {
        let whole = Arc::new(Region::owned(len).ok_or(RegisterError::OutOfMemory)?);
        let part = Region::part(&whole, 0..len).ok_or(RegisterError::OutOfMemory)?;
        Ok(Self { memory: pd.register_at(part, access, 0)?, whole })
    }

    pub(crate) fn sge(&self, at: usize, len: u32) -> Sge {
        self.memory.sge(at, len)
    }

    /// Copies octets in. Returns whether they are within the block.
    pub(crate) fn copy_in(&self, at: usize, octets: &[u8]) -> bool {
        self.whole.copy_in(at, octets)
    }

    /// Returns octets that no request and no other thread uses as long as the part lives: those of a slot between its
    /// completion and its next posting. The block has no rights for a peer.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<Part> {
        Region::part(&self.whole, range).map(Part)
    }
}

/// Octets of a block that nobody changes.
#[derive(Debug)]
pub(crate) struct Part(Region);

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is owned, no peer has a right to it, and the socket does not post a slot of which a part
        // is out. The completion of the receive has been polled.
        unsafe { self.0.as_slice() }
    }
}

/// Allocates zeroed octets, and returns two handles to them.
fn twice(len: usize) -> Result<[Region; 2], RegisterError> {
    let whole = Arc::new(Region::owned(len).ok_or(RegisterError::OutOfMemory)?);
    let part = || Region::part(&whole, 0..len).ok_or(RegisterError::OutOfMemory);
    Ok([part()?, part()?])
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} octets)", self.len())
    }
}
