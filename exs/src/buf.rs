//! Memory of this side that the device knows: buffers of the user, and blocks of slots.
//!
//! A [`Buf`] is with the user exactly while no request and no window names it. While it is in an operation it is a
//! [`Busy`], which has no slice. Nothing is borrowed across an operation.
#![allow(unsafe_code)]

use core::fmt;
use core::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use weft_rnic::{Access, Bind, Mr, Mw, Pd, Qp, Region, RegisterError, SendOpcode, Sge, Stag, WindowType};

/// Registered memory. It goes into an operation by value, and comes back with its outcome.
pub struct Buf(Busy);

/// The memory of a [`Buf`] in an operation.
pub(crate) struct Busy {
    /// The octets, for slices and copies.
    region: Region,
    memory: Mr,
    window: Mw,
    /// The key that the window gets next.
    key: u8,
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
    pub(crate) fn new(pd: &Pd, len: usize) -> Result<Self, RegisterError> {
        let Block { whole, memory } = Block::new(pd, len, Access::LOCAL_WRITE | Access::MW_BIND)?;
        let region = Region::part(&whole, 0..len).ok_or(RegisterError::OutOfMemory)?;
        let window = pd.alloc_mw(WindowType::Type2B)?;
        Ok(Self(Busy { region, memory, window, key: 0 }))
    }

    /// Gives the memory to an operation.
    pub(crate) fn into_busy(self) -> Busy {
        self.0
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is owned. The user has the buffer, so that no request and no bound window names it, and
        // what changed it before has been told by a completion, or is over since `Mw::revoke`. All copies take a
        // `Busy`.
        unsafe { self.0.region.as_slice() }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; and `self` is borrowed alone.
        unsafe { self.0.region.as_mut_slice() }
    }
}

impl Busy {
    /// Gives the memory back to the user. No request and no bound window names it.
    pub(crate) const fn into_buf(self) -> Buf {
        Buf(self)
    }

    /// Returns the STag that the window gets when it is next bound.
    pub(crate) fn stag(&self) -> Stag {
        self.window.stag(self.key)
    }

    /// Returns the request that binds the window over these octets. Its tagged offsets are those of the memory, from 0
    /// on.
    pub(crate) fn bind(&mut self, at: usize, len: u32, access: Access) -> SendOpcode {
        let window = self.stag();
        self.key = self.key.wrapping_add(1);
        let (addr, length) = (at as u64, u64::from(len));
        SendOpcode::BindWindow(Bind { window, region: self.memory.rkey(), addr, length, access })
    }

    /// Takes the window out of use, at once.
    pub(crate) fn revoke(&self, qp: &Qp) {
        self.window.revoke(qp);
    }

    pub(crate) fn sge(&self, at: usize, len: u32) -> Sge {
        self.memory.sge(at, len)
    }

    /// Copies octets in. Returns whether they are within the memory.
    pub(crate) fn copy_in(&self, at: usize, octets: &[u8]) -> bool {
        self.region.copy_in(at, octets)
    }

    pub(crate) const fn len(&self) -> usize {
        self.region.len()
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

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} octets)", self.0.len())
    }
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Busy({} octets)", self.len())
    }
}
