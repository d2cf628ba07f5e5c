//! The memory that belongs to a stream.

use std::sync::Arc;

use weft_verbs::{
    Access, MemoryRegion, MemoryTable, PdId, Reach, Region, RegisterError, Registration, StreamId,
};

/// Which memory a stream and its peer may reach (RFC 5041 section 8.2, RFC 5040 section 8.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Association {
    /// The protection domain: memory of another one is out of reach.
    pub pd: PdId,
    /// The stream: memory that was registered for another one is out of reach.
    pub stream: StreamId,
}

impl Association {
    /// A stream of its own in this domain.
    #[must_use]
    pub fn new(pd: PdId) -> Self {
        Self { pd, stream: StreamId::unique() }
    }

    /// Registers `region` for this stream alone. The tagged offset of its first octet is `iova`; `access` says what
    /// this end's stream (local) and the peer (remote) may do. [`MemoryTable::deregister`] takes the STag out of use
    /// again.
    ///
    /// # Errors
    /// [`RegisterError`] when the rights contradict each other, the offsets wrap, or no STag is left.
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

    /// The memory in reach.
    pub(super) const fn reach<'m>(&self, memory: &'m MemoryTable) -> Reach<'m> {
        Reach { memory, pd: self.pd, stream: self.stream }
    }
}
