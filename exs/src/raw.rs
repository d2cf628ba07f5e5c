//! Memory of the caller's, for operations.
#![allow(unsafe_code)]

use weft_rnic::{Access, Region};

use crate::context::Context;
use crate::error::Error;
use crate::memory::{Memory, Registered};

impl Memory {
    /// Registers memory of the caller, `len` octets from `start` on. Without `is_writable` it can only be sent.
    ///
    /// # Errors
    /// [`Error::Memory`]: some of it is not there, or cannot be written.
    ///
    /// # Safety
    /// If it is there, the memory stays mapped with the same rights, until no handle and no operation has it
    /// ([`Self::is_in_use`]). With a [guard](weft_rnic::guard_memory) it may fault instead. No code relies on its octets
    /// being stable: operations read and write them at any time, and so does the peer while a window is bound.
    pub unsafe fn raw(
        context: &Context,
        start: *mut u8,
        len: usize,
        is_writable: bool,
    ) -> Result<Self, Error> {
        // SAFETY: the caller promises the same.
        let region = unsafe { Region::probed(start, len, is_writable) }?;
        let writes = if is_writable { Access::LOCAL_WRITE } else { Access::LOCAL_READ };
        let domain = &context.service().domain;
        Ok(Self::new(Registered::new(domain, region, writes | Access::MW_BIND)?))
    }
}
