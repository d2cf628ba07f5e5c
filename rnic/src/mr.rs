//! Protection domains and memory regions.

use std::sync::Arc;

use weft_ddp::Stag;
use weft_verbs::{Access, MemoryRegion, PdId, Region, RegisterError, Registration, Sge, Violation};

use crate::device::Device;
use crate::qp::Qp;

/// A protection domain. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Pd {
    pub(crate) id: PdId,
    pub(crate) device: Device,
}

/// A memory region; dropping it deregisters it, after which no engine and no peer touches the memory any more.
#[derive(Debug)]
pub struct Mr {
    memory: Arc<MemoryRegion>,
    device: Device,
}

impl Pd {
    /// Allocates and registers `len` zeroed octets. The tagged offset of the first one is its address. All queue pairs of the
    /// domain share the STag, so that no peer can invalidate it (RFC 5040 section 8.1.1).
    ///
    /// # Errors
    /// [`RegisterError`] when the rights make no sense, or memory or STags are used up.
    pub fn register(&self, len: usize, access: Access) -> Result<Mr, RegisterError> {
        let region = Region::owned(len).ok_or(RegisterError::OutOfMemory)?;
        let iova = region.address();
        self.register_at(region, access, iova)
    }

    /// As [`Self::register`], for the stream of `qp` alone: no other queue pair of this domain, and no peer of one, can use
    /// the STag (RFC 5041 section 8.2). The peer of `qp` can invalidate it.
    ///
    /// # Errors
    /// As [`Self::register`], and when the queue pair is not of this domain.
    pub fn register_for(&self, qp: &Qp, len: usize, access: Access) -> Result<Mr, RegisterError> {
        let region = Region::owned(len).ok_or(RegisterError::OutOfMemory)?;
        let iova = region.address();
        if !qp.device.is_same(&self.device) || self.device.engine().pd_of(qp.slot) != Some(self.id) {
            return Err(RegisterError::ForeignQp);
        }
        let stream = Some(qp.queues.stream);
        self.add(Registration { pd: self.id, stream, access, iova, region })
    }

    /// Registers memory of the caller's making, whose first octet gets the tagged offset `iova`: [`Region::raw`] is how
    /// memory that somebody else owns comes in.
    ///
    /// # Errors
    /// [`RegisterError`] when the rights make no sense, the tagged offsets would wrap, or STags are used up.
    pub fn register_at(&self, region: Region, access: Access, iova: u64) -> Result<Mr, RegisterError> {
        self.add(Registration { pd: self.id, stream: None, access, iova, region })
    }

    fn add(&self, registration: Registration) -> Result<Mr, RegisterError> {
        let mut engine = self.device.engine();
        if engine.memory.len() >= engine.config.max_mrs {
            return Err(RegisterError::TableFull);
        }
        let memory = engine.memory.register(registration)?;
        drop(engine);
        Ok(Mr { memory, device: self.device.clone() })
    }
}

impl Mr {
    /// The STag for scatter-gather elements (lkey).
    pub fn lkey(&self) -> Stag {
        self.memory.stag
    }

    /// The STag that a peer names this memory by (rkey). The same as the lkey, as on all iWARP devices.
    pub fn rkey(&self) -> Stag {
        self.memory.stag
    }

    /// The tagged offset of the first octet: its address, unless [`Pd::register_at`] chose another one.
    pub fn addr(&self) -> u64 {
        self.memory.iova
    }

    /// The number of octets.
    pub fn len(&self) -> usize {
        self.memory.region.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.memory.region.is_empty()
    }

    /// A scatter-gather element for `length` octets at `offset`. It is checked when a request that holds it starts.
    pub fn sge(&self, offset: usize, length: u32) -> Sge {
        Sge { addr: self.memory.iova.wrapping_add(offset as u64), length, lkey: self.memory.stag }
    }

    /// Copies `octets` into the memory at `offset`.
    ///
    /// # Errors
    /// [`Violation::Bounds`]; nothing was copied then.
    pub fn write(&self, offset: usize, octets: &[u8]) -> Result<(), Violation> {
        if self.memory.region.copy_in(offset, octets) { Ok(()) } else { Err(Violation::Bounds) }
    }

    /// Copies from the memory at `offset` into `octets`.
    ///
    /// # Errors
    /// [`Violation::Bounds`]; nothing was copied then.
    pub fn read(&self, offset: usize, octets: &mut [u8]) -> Result<(), Violation> {
        if self.memory.region.copy_out(offset, octets) { Ok(()) } else { Err(Violation::Bounds) }
    }

    /// Takes the STag out of use, for the peer as for local requests; the memory stays. Once this has returned, nothing that
    /// arrives or is on its way changes an octet any more (RFC 5042 section 6.2.2).
    pub fn invalidate(&self) {
        // Whoever holds the engine's lock copies to or from no memory.
        let _engine = self.device.engine();
        self.memory.invalidate();
    }

    /// Whether the STag is out of use, by a Send with Invalidate of the peer or by [`Self::invalidate`].
    pub fn is_invalidated(&self) -> bool {
        self.memory.is_invalidated()
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // Whoever holds the engine's lock copies to or from no memory, so that after this nobody uses the region.
        self.device.engine().memory.deregister(self.memory.stag);
    }
}
