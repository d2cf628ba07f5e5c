//! What a stream begins with: the result of MPA's startup, and the memory that belongs to the stream.

use std::sync::Arc;

use bytes::Bytes;
use weft_mpa::Negotiated;
use weft_verbs::{
    Access, MemoryRegion, MemoryTable, PdId, Reach, Region, RegisterError, Registration, StreamId,
};

/// What the two ends have agreed on in MPA's startup (RFC 5044 section 7.1.2, RFC 6581 section 9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// CRC, Markers, IRD, ORD, and how the stream begins.
    pub negotiated: Negotiated,
    /// This end has sent the Request, and sends first.
    pub initiator: bool,
    /// The IRD and ORD in the peer's frame, if it told them.
    pub peer_depths: Option<(u16, u16)>,
    /// The private data of the peer's frame.
    pub private_data: Bytes,
}

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
