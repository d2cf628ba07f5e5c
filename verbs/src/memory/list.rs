//! What a table holds, to be shown.

use weft_ddp::Stag;

use super::{KeyedKind, MemoryTable, WindowType};
use crate::access::Access;
use crate::ids::{PdId, StreamId};

/// An STag and what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// The STag: a secret towards peers (RFC 5042 section 5.4).
    pub stag: Stag,
    /// What kind of object has it.
    pub kind: MemoryKind,
    /// The protection domain.
    pub pd: PdId,
    /// The only stream that may use it, if there is one.
    pub stream: Option<StreamId>,
    /// The rights; none while it stands for nothing.
    pub access: Access,
    /// The tagged offset of the first octet.
    pub iova: u64,
    /// Octets; of a region for fast registration that stands for nothing, those of its memory.
    pub len: u64,
    /// Whether it is in use: not invalidated, and bound or registered if it has to be.
    pub is_valid: bool,
}

/// The kinds of objects that have STags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// A memory region.
    Region,
    /// A memory region for fast registration.
    Fast,
    /// A memory window.
    Window(WindowType),
}

impl MemoryTable {
    /// Returns everything that has an STag: the regions first, each kind by its STags.
    pub fn list(&self) -> Vec<MemoryInfo> {
        let regions = self.slots.iter().filter_map(|slot| slot.memory.as_deref()).map(|memory| MemoryInfo {
            stag: memory.stag,
            kind: MemoryKind::Region,
            pd: memory.pd,
            stream: memory.stream,
            access: memory.access,
            iova: memory.iova,
            len: memory.region.len() as u64,
            is_valid: !memory.is_invalidated(),
        });
        let keyed = self.keyed.values().map(|keyed| {
            let stag = keyed.current();
            let mapping = keyed.mapping(stag);
            let (kind, size) = match &keyed.kind {
                KeyedKind::Window(kind) => (MemoryKind::Window(*kind), 0),
                KeyedKind::Fast(region) => (MemoryKind::Fast, region.len() as u64),
            };
            MemoryInfo {
                stag,
                kind,
                pd: keyed.pd,
                stream: mapping.map_or(keyed.stream, |mapping| mapping.stream),
                access: mapping.map_or_else(Access::default, |mapping| mapping.access),
                iova: mapping.map_or(0, |mapping| mapping.base),
                len: mapping.map_or(size, |mapping| mapping.len),
                is_valid: mapping.is_some(),
            }
        });
        let mut list: Vec<_> = regions.chain(keyed).collect();
        list.sort_unstable_by_key(|info| (info.kind != MemoryKind::Region, info.stag));
        list
    }
}
