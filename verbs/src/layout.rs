//! What a peer has to know of the registered entries of a send queue to write work there.

use crate::entry::EntryFormat;
use crate::work::{PostError, SendWr};

/// The layout of a send queue whose entries are registered as memory: entry after entry, each of `stride` octets.
///
/// Head and tail are not registered: only the owner says how many requests there are. `docs/queues.md` has the fields
/// of an entry. The owner tells these plain numbers to the peer that it grants the right to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendQueueLayout {
    /// Entries, a power of two.
    pub entries: u64,
    /// Octets of an entry, a power of two.
    pub stride: usize,
    /// Scatter-gather elements of an entry at most.
    pub max_sge: usize,
    /// Inline octets of an entry at most.
    pub max_inline: usize,
}

impl SendQueueLayout {
    /// Where the identifier of the request lies in an entry, in octets.
    pub const WR_ID: usize = 0;
    /// Where the word lies that releases a held entry: opcode, flags and lengths. It is aligned to 8 octets, and
    /// written last.
    pub const CONTROL: usize = 8;
    /// Where everything behind that word begins: the tagged offset, the STags, and the local data.
    pub const REST: usize = 16;

    /// Returns where the entry of a request begins, in octets; `index` is its number among all that were posted, from
    /// 0.
    pub fn offset(&self, index: u64) -> usize {
        let place = index & self.entries.saturating_sub(1);
        usize::try_from(place).unwrap_or(0).saturating_mul(self.stride)
    }

    /// Returns the octets of an entry that holds this request, up to the last one that means something.
    ///
    /// # Errors
    /// [`PostError`] when an entry of this queue cannot hold it.
    pub fn encode(&self, wr: &SendWr<'_>) -> Result<Vec<u8>, PostError> {
        let format = EntryFormat { max_sge: self.max_sge, max_inline: self.max_inline };
        let counts = format.validate(wr)?;
        let mut octets = Vec::new();
        EntryFormat::pack(wr, counts, |index, word| {
            let place = index * size_of::<u64>();
            octets.resize(octets.len().max(place + size_of::<u64>()), 0);
            octets[place..place + size_of::<u64>()].copy_from_slice(&word.to_le_bytes());
        });
        Ok(octets)
    }
}
