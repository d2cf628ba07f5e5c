//! The memory regions of a device and the checks that every access goes through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_ddp::Stag;

use crate::{Access, Region, StagPermutation};

/// A protection domain: objects of different domains do not work together (RFC 5040 section 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PdId(pub u32);

/// One registration: where the memory is, which tagged offsets name it and what may be done with it.
#[derive(Debug)]
pub struct MemoryRegion {
    /// The STag, used as lkey and as rkey.
    pub stag: Stag,
    /// The protection domain.
    pub pd: PdId,
    /// The rights.
    pub access: Access,
    /// The tagged offset of the first octet.
    pub iova: u64,
    /// The memory.
    pub region: Region,
    invalidated: AtomicBool,
}

impl MemoryRegion {
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
}

/// All memory regions that one engine knows, found by STag.
#[derive(Debug)]
pub struct MemoryTable {
    permutation: StagPermutation,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl MemoryTable {
    /// An empty table; `seed` makes its STags unpredictable.
    pub fn new(seed: u64) -> Self {
        Self { permutation: StagPermutation::new(seed), slots: Vec::new(), free: Vec::new() }
    }

    /// Adds a registration and gives it an STag.
    ///
    /// # Errors
    /// [`RegisterError`] when the rights contradict each other, the offsets wrap, or no STag is left.
    pub fn register(&mut self, registration: Registration) -> Result<Arc<MemoryRegion>, RegisterError> {
        let Registration { pd, access, iova, region } = registration;
        if !access.is_valid() {
            return Err(RegisterError::Access);
        }
        if iova.checked_add(region.len() as u64).is_none() {
            return Err(RegisterError::Wrap);
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.grow()?,
        };
        let entry = &mut self.slots[slot as usize];
        // STag 0 is never handed out: some peers treat it as special (wire doubt D4).
        if self.permutation.stag(slot, entry.key) == Stag(0) {
            entry.key = entry.key.wrapping_add(1);
        }
        let stag = self.permutation.stag(slot, entry.key);
        let memory =
            Arc::new(MemoryRegion { stag, pd, access, iova, region, invalidated: AtomicBool::new(false) });
        entry.memory = Some(Arc::clone(&memory));
        Ok(memory)
    }

    /// Takes a registration out of the table; the STag is unknown from now on. `None` when it was not in the table.
    pub fn deregister(&mut self, stag: Stag) -> Option<Arc<MemoryRegion>> {
        let (slot, key) = self.permutation.slot(stag);
        let entry = self.slots.get_mut(slot as usize).filter(|entry| entry.key == key)?;
        let memory = entry.memory.take()?;
        entry.key = entry.key.wrapping_add(1);
        self.free.push(slot);
        Some(memory)
    }

    /// Checks an access of `len` octets at tagged offset `to` and answers where they are.
    ///
    /// An access of length zero is for the caller to leave out: RFC 5041 section 5.2 wants no check of its STag.
    ///
    /// # Errors
    /// The [`Violation`] to blame, in the order in which RFC 5040 section 8.1 lists the checks.
    pub fn check(&self, claim: Claim, to: u64, len: usize) -> Result<Span<'_>, Violation> {
        let Claim { stag, right, pd } = claim;
        let memory = self.find(stag).ok_or(Violation::InvalidStag)?;
        if memory.pd != pd {
            return Err(Violation::WrongPd);
        }
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

    /// Invalidates `stag` on behalf of a stream of domain `pd` (RFC 5040 section 5.3).
    ///
    /// # Errors
    /// [`Violation`] when there is no such STag, it is of another domain, or no peer may use it anyway.
    pub fn invalidate(&self, stag: Stag, pd: PdId) -> Result<(), Violation> {
        self.find_invalidatable(stag, pd)?.invalidated.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether [`Self::invalidate`] would do it.
    ///
    /// # Errors
    /// As [`Self::invalidate`].
    pub fn check_invalidate(&self, stag: Stag, pd: PdId) -> Result<(), Violation> {
        self.find_invalidatable(stag, pd).map(|_| ())
    }

    /// The number of registrations.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether nothing is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find_invalidatable(&self, stag: Stag, pd: PdId) -> Result<&MemoryRegion, Violation> {
        let memory = self.find(stag).ok_or(Violation::InvalidStag)?;
        if memory.pd != pd {
            return Err(Violation::WrongPd);
        }
        if !memory.access.contains(Access::REMOTE_READ) && !memory.access.contains(Access::REMOTE_WRITE) {
            return Err(Violation::Access);
        }
        Ok(memory)
    }

    fn find(&self, stag: Stag) -> Option<&MemoryRegion> {
        let (slot, key) = self.permutation.slot(stag);
        let entry = self.slots.get(slot as usize).filter(|entry| entry.key == key)?;
        entry.memory.as_deref().filter(|memory| !memory.is_invalidated())
    }

    fn grow(&mut self) -> Result<u32, RegisterError> {
        let slot = u32::try_from(self.slots.len()).map_err(|_| RegisterError::TableFull)?;
        if slot >= StagPermutation::SLOTS {
            return Err(RegisterError::TableFull);
        }
        self.slots.push(Slot { key: 0, memory: None });
        Ok(slot)
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
    /// Offset plus length wraps around 2^64.
    Wrap,
    /// Not inside the region.
    Bounds,
    /// The region does not grant this right.
    Access,
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::InvalidStag => "the STag names no registered memory",
            Self::WrongPd => "the STag belongs to another protection domain",
            Self::Wrap => "offset plus length wraps around 2^64",
            Self::Bounds => "the access is outside of the memory region",
            Self::Access => "the memory region does not grant this access",
        })
    }
}

impl core::error::Error for Violation {}

/// Why memory cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterError {
    /// Remote write needs local write.
    Access,
    /// The tagged offsets would wrap around 2^64.
    Wrap,
    /// There is not that much memory.
    OutOfMemory,
    /// All 2^24 STags are in use.
    TableFull,
}

impl core::fmt::Display for RegisterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Access => "remote write access needs local write access as well",
            Self::Wrap => "the tagged offsets of the region would wrap around 2^64",
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

#[cfg(test)]
mod tests {
    use super::*;

    const PD: PdId = PdId(1);

    fn table(access: Access, iova: u64) -> (MemoryTable, Stag) {
        let mut table = MemoryTable::new(1);
        let region = Region::owned(100).unwrap();
        let stag = table.register(Registration { pd: PD, access, iova, region }).unwrap().stag;
        (table, stag)
    }

    #[test]
    fn every_violation_by_name() {
        let (table, stag) = table(Access::LOCAL_WRITE | Access::REMOTE_WRITE, 1000);
        let check = |stag, right, pd, to, len| table.check(Claim { stag, right, pd }, to, len).map(|_| ());
        assert_eq!(check(stag, Access::REMOTE_WRITE, PD, 1000, 100), Ok(()));
        assert_eq!(check(stag, Access::REMOTE_WRITE, PD, 1100, 0), Ok(()));
        assert_eq!(check(stag, Access::REMOTE_WRITE, PD, 1000, 101), Err(Violation::Bounds));
        assert_eq!(check(stag, Access::REMOTE_WRITE, PD, 999, 1), Err(Violation::Bounds));
        assert_eq!(check(stag, Access::REMOTE_WRITE, PD, 1101, 0), Err(Violation::Bounds));
        assert_eq!(check(stag, Access::REMOTE_WRITE, PD, u64::MAX, 2), Err(Violation::Wrap));
        assert_eq!(check(stag, Access::REMOTE_READ, PD, 1000, 1), Err(Violation::Access));
        assert_eq!(check(stag, Access::REMOTE_WRITE, PdId(2), 1000, 1), Err(Violation::WrongPd));
        assert_eq!(check(Stag(stag.0 ^ 1), Access::REMOTE_WRITE, PD, 1000, 1), Err(Violation::InvalidStag));
        assert_eq!(
            check(Stag(stag.0 ^ 0x100), Access::REMOTE_WRITE, PD, 1000, 1),
            Err(Violation::InvalidStag)
        );
    }

    #[test]
    fn a_stag_does_not_come_back_at_once() {
        let (mut table, stag) = table(Access::ALL, 0);
        assert!(table.deregister(stag).is_some());
        assert!(table.deregister(stag).is_none());
        assert!(table.is_empty());
        let region = Region::owned(1).unwrap();
        let next = table.register(Registration { pd: PD, access: Access::ALL, iova: 0, region }).unwrap();
        assert_ne!(next.stag, stag);
        assert_eq!(
            table.check(Claim { stag, right: Access::LOCAL_READ, pd: PD }, 0, 1).map(|_| ()),
            Err(Violation::InvalidStag)
        );
    }

    #[test]
    fn invalidation_ends_all_access() {
        let (table, stag) = table(Access::ALL, 0);
        assert_eq!(table.invalidate(stag, PdId(9)), Err(Violation::WrongPd));
        assert_eq!(table.invalidate(stag, PD), Ok(()));
        assert_eq!(
            table.check(Claim { stag, right: Access::REMOTE_READ, pd: PD }, 0, 1).map(|_| ()),
            Err(Violation::InvalidStag)
        );
        assert_eq!(table.invalidate(stag, PD), Err(Violation::InvalidStag));
    }

    #[test]
    fn local_memory_is_not_the_peers_to_invalidate() {
        let (table, stag) = table(Access::LOCAL_WRITE, 0);
        assert_eq!(table.invalidate(stag, PD), Err(Violation::Access));
    }

    #[test]
    fn bad_registrations() {
        let mut table = MemoryTable::new(1);
        let mut register = |access, iova| {
            let region = Region::owned(16).unwrap();
            table.register(Registration { pd: PD, access, iova, region }).map(|_| ())
        };
        assert_eq!(register(Access::REMOTE_WRITE, 0), Err(RegisterError::Access));
        assert_eq!(register(Access::ALL, u64::MAX - 3), Err(RegisterError::Wrap));
    }
}
