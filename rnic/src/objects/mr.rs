//! Memory regions.

use std::sync::Arc;

use weft_ddp::Stag;
use weft_verbs::{Access, Change, MemoryRegion, PdId, Region, RegisterError, Registration, Sge, Violation};

use crate::objects::device::Device;
use crate::objects::pd::Pd;
use crate::objects::qp::Qp;

/// A memory region. Dropping it deregisters it. After that no engine and no peer touches the memory any more, and
/// memory windows that are bound to it are invalid. [`Mr::deregister`] refuses instead.
#[derive(Debug)]
pub struct Mr {
    memory: Arc<MemoryRegion>,
    pub(crate) device: Device,
}

/// What [`Mr::reregister`] is to change. A field that is `None` changes nothing.
#[derive(Debug, Default)]
pub struct Reregistration<'a> {
    /// Another protection domain.
    pub pd: Option<&'a Pd>,
    /// Other rights.
    pub access: Option<Access>,
    /// Other memory, and the tagged offset of its first octet.
    pub region: Option<(Region, u64)>,
}

impl Pd {
    /// Allocates and registers `len` zeroed octets. The tagged offset of the first one is its address, or 0 with
    /// [`Access::ZERO_BASED`]. All queue pairs of the
    /// domain share the STag, so that no peer can invalidate it (RFC 5040 section 8.1.1).
    ///
    /// # Errors
    /// [`RegisterError`] when the rights make no sense, or memory or STags are used up.
    pub fn register(&self, len: usize, access: Access) -> Result<Mr, RegisterError> {
        let region = Region::owned(len).ok_or(RegisterError::OutOfMemory)?;
        let iova = region.address();
        self.register_at(region, access, iova)
    }

    /// As [`Self::register`], for the stream of `qp` alone: no other queue pair of this domain, and no peer of one,
    /// can use the STag (RFC 5041 section 8.2). The peer of `qp` can invalidate it.
    ///
    /// # Errors
    /// As [`Self::register`], and when the queue pair is not of this domain.
    pub fn register_for(&self, qp: &Qp, len: usize, access: Access) -> Result<Mr, RegisterError> {
        let region = Region::owned(len).ok_or(RegisterError::OutOfMemory)?;
        let iova = region.address();
        if !qp.is_of(self) {
            return Err(RegisterError::ForeignQp);
        }
        let stream = Some(qp.queues.stream);
        self.add(Registration { pd: self.id, stream, access, iova, region })
    }

    /// Registers the entries of the send queue of `qp`, without its head and tail: with the right access a peer can
    /// write into requests that were posted and have not been started, such as those that [`crate::SendOpcode::Hold`]
    /// holds back, and so have this device work without a call of the application. Whatever changes an entry rings
    /// the queue pair's doorbell. [`Qp::send_queue_layout`] tells where what lies; docs/queues.md has the rules.
    ///
    /// A peer that may write entries acts in the name of this queue pair, with all memory of its domain that it can
    /// name.
    ///
    /// # Errors
    /// As [`Self::register`], and when the queue pair is not of this domain.
    pub fn register_send_queue(&self, qp: &Qp, access: Access) -> Result<Mr, RegisterError> {
        if !qp.is_of(self) {
            return Err(RegisterError::ForeignQp);
        }
        let doorbells = Arc::clone(self.device.engines.at(qp.engine).doorbells());
        let region = Region::send_queue(Arc::clone(&qp.queues), doorbells, qp.slot);
        let iova = region.address();
        self.register_at(region, access, iova)
    }

    /// Registers memory of the caller's making, whose first octet gets the tagged offset `iova`. [`Region::raw`] is
    /// how memory that somebody else owns comes in, [`Region::probed`] where it may not be there at all, and
    /// [`Region::shared`] is for what other processes map as well.
    ///
    /// # Errors
    /// [`RegisterError`] when the rights make no sense or the memory cannot be written as they say, the tagged
    /// offsets would wrap, or STags are used up.
    pub fn register_at(&self, region: Region, access: Access, iova: u64) -> Result<Mr, RegisterError> {
        self.add(Registration { pd: self.id, stream: None, access, iova, region })
    }

    fn add(&self, registration: Registration) -> Result<Mr, RegisterError> {
        self.device.prepare_syncs(&registration.region)?;
        let mut table = self.device.engines.memory();
        if table.len() >= self.device.engines.config().max_mrs {
            return Err(RegisterError::TableFull);
        }
        let memory = table.register(registration)?;
        drop(table);
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
        if !self.memory.region.copy_in(offset, octets) {
            return Err(Violation::Bounds);
        }
        if self.memory.region.is_send_queue() {
            self.device.engines.kick();
        }
        Ok(())
    }

    /// Copies from the memory at `offset` into `octets`.
    ///
    /// # Errors
    /// [`Violation::Bounds`]; nothing was copied then.
    pub fn read(&self, offset: usize, octets: &mut [u8]) -> Result<(), Violation> {
        if self.memory.region.copy_out(offset, octets) { Ok(()) } else { Err(Violation::Bounds) }
    }

    /// Deregisters the memory, unless memory windows are bound to it: `ibv_dereg_mr` answers EBUSY then.
    ///
    /// # Errors
    /// The region itself, which stays as it was, with [`RegisterError::Busy`].
    pub fn deregister(self) -> Result<(), (Self, RegisterError)> {
        let mut table = self.device.engines.memory();
        if self.memory.has_windows() {
            drop(table);
            return Err((self, RegisterError::Busy));
        }
        table.deregister(self.memory.stag);
        Ok(())
    }

    /// Changes rights, domain or memory in place, as `ibv_rereg_mr`: the STag stays the same, and so does its
    /// invalidation. After this call no engine and no peer uses what the STag stood for before.
    ///
    /// # Errors
    /// [`RegisterError`], and nothing has changed: as [`Pd::register_at`], [`RegisterError::Busy`] when memory
    /// windows are bound to it, [`RegisterError::ForeignQp`] when memory for one stream would change its domain, or
    /// the domain is another device's.
    pub fn reregister(&mut self, change: Reregistration<'_>) -> Result<(), RegisterError> {
        let Reregistration { pd, access, region } = change;
        if pd.is_some_and(|pd| !pd.device.is_same(&self.device)) {
            return Err(RegisterError::ForeignQp);
        }
        if let Some((region, _)) = &region {
            self.device.prepare_syncs(region)?;
        }
        let change = Change { pd: pd.map(|pd| pd.id), access, region };
        // Whoever holds the table: nobody copies to or from memory.
        let before = self.device.engines.memory().reregister(&mut self.memory, change)?;
        drop(before);
        Ok(())
    }

    /// What it may be used for.
    pub fn access(&self) -> Access {
        self.memory.access
    }

    /// The protection domain.
    pub(crate) fn pd(&self) -> PdId {
        self.memory.pd
    }

    /// Takes the STag out of use, for the peer and for local requests. The memory stays. After this call no message
    /// that arrives or is on its way changes an octet any more (RFC 5042 section 6.2.2).
    pub fn invalidate(&self) {
        // Whoever holds the table: nobody copies to or from memory.
        let _table = self.device.engines.memory();
        self.memory.invalidate();
    }

    /// Whether the STag is out of use, by a Send with Invalidate of the peer or by [`Self::invalidate`].
    pub fn is_invalidated(&self) -> bool {
        self.memory.is_invalidated()
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // No engine copies to or from memory while this thread holds the table.
        self.device.engines.memory().deregister(self.memory.stag);
    }
}

#[cfg(test)]
mod tests;
