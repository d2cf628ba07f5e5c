//! The memory that belongs to a stream.

use std::sync::Arc;

use weft_verbs::{
    Access, MemoryRegion, MemoryTable, PdId, Reach, Region, RegisterError, Registration, StreamId,
};

/// Says which memory a stream and its peer may reach (RFC 5041 section 8.2, RFC 5040 section 8.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Association {
    /// The protection domain. Memory of another domain is out of reach.
    pub pd: PdId,
    /// The stream. Memory that was registered for another stream is out of reach.
    pub stream: StreamId,
}

impl Association {
    /// Returns the association of a new stream in this domain.
    #[must_use]
    pub fn new(pd: PdId) -> Self {
        Self { pd, stream: StreamId::unique() }
    }

    /// Registers `region` for this stream alone. The tagged offset of its first octet is `iova`. `access` has the
    /// rights of this end's stream (local) and of the peer (remote). [`MemoryTable::deregister`] invalidates the STag.
    ///
    /// # Errors
    /// [`RegisterError`] if the rights contradict each other, the offsets wrap, or no STag is left.
    pub fn register(
        &self,
        memory: &mut MemoryTable,
        region: Region,
        iova: u64,
        access: Access,
    ) -> Result<Arc<MemoryRegion>, RegisterError> {
        let Self { pd, stream } = *self;
        memory.register(Registration { pd, stream: Some(stream), access, iova, region })
    }

    /// Returns the memory in reach.
    pub(super) const fn reach<'m>(&self, memory: &'m MemoryTable) -> Reach<'m> {
        Reach { memory, pd: self.pd, stream: self.stream }
    }
}
