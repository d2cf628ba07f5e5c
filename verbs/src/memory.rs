//! The memory regions of a device and the checks that every access goes through.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_ddp::Stag;

use crate::{Access, Region, StagPermutation, StreamId};

/// A protection domain: objects of different domains do not work together (RFC 5040 section 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PdId(pub u64);

/// One registration: where the memory is, which tagged offsets name it and what may be done with it.
#[derive(Debug)]
pub struct MemoryRegion {
    /// The STag, used as lkey and as rkey.
    pub stag: Stag,
    /// The protection domain.
    pub pd: PdId,
    /// The only stream that may use the STag; without one, all of the protection domain (RFC 5041 section 8.2).
    pub stream: Option<StreamId>,
    /// The rights.
    pub access: Access,
    /// The tagged offset of the first octet.
    pub iova: u64,
    /// The memory.
    pub region: Region,
    invalidated: AtomicBool,
}

impl MemoryRegion {
    /// Takes the STag out of use. Whoever holds the table back meanwhile can be sure that nobody writes afterwards.
    pub fn invalidate(&self) {
        self.invalidated.store(true, Ordering::Release);
    }

    /// Whether a local or remote invalidation has taken the STag out of use.
    pub fn is_invalidated(&self) -> bool {
        self.invalidated.load(Ordering::Acquire)
    }
}

/// What is to be registered.
#[derive(Debug)]
pub struct Registration {
    /// The protection domain.
    pub pd: PdId,
    /// The only stream that may use the STag, if it is not for all of the protection domain.
    pub stream: Option<StreamId>,
    /// The rights; must be [`Access::is_valid`].
    pub access: Access,
    /// The tagged offset of the first octet; usually [`Region::address`].
    pub iova: u64,
    /// The memory.
    pub region: Region,
}

/// Who wants to do what with which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The STag that names the memory.
    pub stag: Stag,
    /// The right that is needed.
    pub right: Access,
    /// The protection domain of the queue pair that asks.
    pub pd: PdId,
    /// The stream of the queue pair that asks.
    pub stream: StreamId,
}

/// All memory regions that one engine knows, found by STag.
#[derive(Debug)]
pub struct MemoryTable {
    permutation: StagPermutation,
    slots: Vec<Slot>,
    /// Free slots, the one that has been free for the longest time first.
    free: VecDeque<u32>,
}

impl MemoryTable {
    /// An empty table; `seed` makes its STags unpredictable.
    pub fn new(seed: u64) -> Self {
        Self { permutation: StagPermutation::new(seed), slots: Vec::new(), free: VecDeque::new() }
    }

    /// Adds a registration and gives it an STag.
    ///
    /// # Errors
    /// [`RegisterError`] when the rights contradict each other, the offsets wrap, or no STag is left.
    pub fn register(&mut self, registration: Registration) -> Result<Arc<MemoryRegion>, RegisterError> {
        let Registration { pd, stream, access, iova, region } = registration;
        if !access.is_valid() {
            return Err(RegisterError::Access);
        }
        if iova.checked_add(region.len() as u64).is_none() {
            return Err(RegisterError::Wrap);
        }
        let slot = self.take_slot()?;
        let entry = &mut self.slots[slot as usize];
        // STag 0 is never handed out: some peers treat it as special (wire doubt D4).
        if self.permutation.stag(slot, entry.key) == Stag(0) {
            entry.key = entry.key.wrapping_add(1);
        }
        let stag = self.permutation.stag(slot, entry.key);
        let invalidated = AtomicBool::new(false);
        let memory = Arc::new(MemoryRegion { stag, pd, stream, access, iova, region, invalidated });
        entry.memory = Some(Arc::clone(&memory));
        Ok(memory)
    }

    /// Takes a registration out of the table; the STag is unknown from now on. `None` when it was not in the table.
    pub fn deregister(&mut self, stag: Stag) -> Option<Arc<MemoryRegion>> {
        let (slot, key) = self.permutation.slot(stag);
        let entry = self.slots.get_mut(slot as usize).filter(|entry| entry.key == key)?;
        let memory = entry.memory.take()?;
        entry.key = entry.key.wrapping_add(1);
        self.free.push_back(slot);
        Some(memory)
    }

    /// Checks an access of `len` octets at tagged offset `to` and answers where they are.
    ///
    /// An access of length zero is for the caller to leave out: RFC 5041 section 5.2 wants no check of its STag.
    ///
    /// # Errors
    /// The [`Violation`] to blame, in the order in which RFC 5040 section 8.1 lists the checks.
    pub fn check(&self, claim: Claim, to: u64, len: usize) -> Result<Span<'_>, Violation> {
        let Claim { stag, right, pd, stream } = claim;
        let memory = self.find_associated(stag, pd, stream)?;
        let len = len as u64;
        if to.checked_add(len).is_none() {
            return Err(Violation::Wrap);
        }
        let offset = to.checked_sub(memory.iova).ok_or(Violation::Bounds)?;
        let size = memory.region.len() as u64;
        if offset > size || len > size - offset {
            return Err(Violation::Bounds);
        }
        if !memory.access.contains(right) {
            return Err(Violation::Access);
        }
        let offset = usize::try_from(offset).map_err(|_| Violation::Bounds)?;
        Ok(Span { region: &memory.region, offset })
    }

    /// Invalidates `stag` on behalf of `stream` of domain `pd` (RFC 5040 section 5.3).
    ///
    /// # Errors
    /// [`Violation`] when there is no such STag, it is of another domain or stream, it is for all of the domain, or no peer may
    /// use it anyway.
    pub fn invalidate(&self, stag: Stag, pd: PdId, stream: StreamId) -> Result<(), Violation> {
        self.find_invalidatable(stag, pd, stream)?.invalidate();
        Ok(())
    }

    /// Whether [`Self::invalidate`] would do it.
    ///
    /// # Errors
    /// As [`Self::invalidate`].
    pub fn check_invalidate(&self, stag: Stag, pd: PdId, stream: StreamId) -> Result<(), Violation> {
        self.find_invalidatable(stag, pd, stream).map(|_| ())
    }

    /// The number of registrations.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether nothing is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find_invalidatable(&self, stag: Stag, pd: PdId, stream: StreamId) -> Result<&MemoryRegion, Violation> {
        let memory = self.find_associated(stag, pd, stream)?;
        // What several streams share, none of them may take from the others (RFC 5040 section 8.1.1).
        if !memory.access.is_remote() || memory.stream.is_none() {
            return Err(Violation::Access);
        }
        Ok(memory)
    }

    /// The memory that `stag` names, if this stream of this domain may use it.
    fn find_associated(&self, stag: Stag, pd: PdId, stream: StreamId) -> Result<&MemoryRegion, Violation> {
        let memory = self.find(stag).ok_or(Violation::InvalidStag)?;
        if memory.pd != pd {
            return Err(Violation::WrongPd);
        }
        if memory.stream.is_some_and(|only| only != stream) {
            return Err(Violation::WrongStream);
        }
        Ok(memory)
    }

    fn find(&self, stag: Stag) -> Option<&MemoryRegion> {
        let (slot, key) = self.permutation.slot(stag);
        let entry = self.slots.get(slot as usize).filter(|entry| entry.key == key)?;
        entry.memory.as_deref().filter(|memory| !memory.is_invalidated())
    }

    /// A slot that was never used or, when enough of them rest, the one that has rested for the longest time.
    fn take_slot(&mut self) -> Result<u32, RegisterError> {
        let next = u32::try_from(self.slots.len()).ok().filter(|next| *next < StagPermutation::SLOTS);
        if let Some(next) = next.filter(|_| self.free.len() < STAG_REST) {
            self.slots.push(Slot { key: 0, memory: None });
            return Ok(next);
        }
        self.free.pop_front().ok_or(RegisterError::TableFull)
    }
}

/// A checked place in a memory region. The check covers the length it was asked for, so that a copy that is longer is
/// refused by the region's own bounds or, inside the region, is a fault of the caller.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    region: &'a Region,
    offset: usize,
}

impl Span<'_> {
    /// Places `octets` here.
    ///
    /// # Errors
    /// [`Violation::Bounds`] when they reach beyond the region.
    pub fn copy_in(&self, octets: &[u8]) -> Result<(), Violation> {
        if self.region.copy_in(self.offset, octets) { Ok(()) } else { Err(Violation::Bounds) }
    }

    /// Whether an Atomic can work here (RFC 7306 section 5.1).
    ///
    /// # Errors
    /// [`Violation::Unaligned`] when the place is not aligned to 8 octets in memory; its tagged offset does not matter.
    pub fn check_aligned(&self) -> Result<(), Violation> {
        if self.region.is_aligned(self.offset) { Ok(()) } else { Err(Violation::Unaligned) }
    }

    /// Replaces the 64 bits here, in the machine's byte order, by what `change` makes of them, and answers what they were.
    /// No other update of the same memory comes in between.
    ///
    /// # Errors
    /// [`Violation::Unaligned`] as in [`Self::check_aligned`], [`Violation::Bounds`] when they reach beyond the region.
    pub fn update(&self, change: impl Fn(u64) -> u64) -> Result<u64, Violation> {
        self.check_aligned()?;
        self.region.update(self.offset, change).ok_or(Violation::Bounds)
    }

    /// Reads `octets.len()` octets from here.
    ///
    /// # Errors
    /// [`Violation::Bounds`] when they reach beyond the region.
    pub fn copy_out(&self, octets: &mut [u8]) -> Result<(), Violation> {
        if self.region.copy_out(self.offset, octets) { Ok(()) } else { Err(Violation::Bounds) }
    }
}

/// Why an access is refused. Who asked turns it into DDP's or RDMAP's error or into a local status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// No such STag, or it was invalidated.
    InvalidStag,
    /// The STag is of another protection domain.
    WrongPd,
    /// The STag is for another stream of this protection domain.
    WrongStream,
    /// Offset plus length wraps around 2^64.
    Wrap,
    /// Not inside the region.
    Bounds,
    /// The region does not grant this right.
    Access,
    /// The target of an Atomic is not aligned to 8 octets.
    Unaligned,
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::InvalidStag => "the STag names no registered memory",
            Self::WrongPd => "the STag belongs to another protection domain",
            Self::WrongStream => "the STag belongs to another stream",
            Self::Wrap => "offset plus length wraps around 2^64",
            Self::Bounds => "the access is outside of the memory region",
            Self::Access => "the memory region does not grant this access",
            Self::Unaligned => "the target of an Atomic is not aligned to 8 octets",
        })
    }
}

impl core::error::Error for Violation {}

/// Why memory cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterError {
    /// Remote write and Atomics need local write.
    Access,
    /// The tagged offsets would wrap around 2^64.
    Wrap,
    /// The queue pair is of another device or protection domain.
    ForeignQp,
    /// There is not that much memory.
    OutOfMemory,
    /// All 2^24 STags are in use, or as many as the device allows.
    TableFull,
}

impl core::fmt::Display for RegisterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Access => "remote write and atomic access need local write access as well",
            Self::Wrap => "the tagged offsets of the region would wrap around 2^64",
            Self::ForeignQp => "the queue pair belongs to another device or protection domain",
            Self::OutOfMemory => "not enough memory for a region of that length",
            Self::TableFull => "all STags are in use",
        })
    }
}

impl core::error::Error for RegisterError {}

#[derive(Debug)]
struct Slot {
    key: u8,
    memory: Option<Arc<MemoryRegion>>,
}

/// So many slots rest before one is used again. With 256 keys of each, an STag comes back after a quarter of a million
/// others at the earliest (RFC 5042 section 6.1.1 wants it as late as possible).
const STAG_REST: usize = 1024;

#[cfg(test)]
mod tests;
