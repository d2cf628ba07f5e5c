//! The memory regions of a device and the checks that every access goes through.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use weft_ddp::Stag;

use crate::access::Access;
use crate::ids::{PdId, StreamId};
use crate::region::Region;
use crate::stag::{RecentSlots, StagPermutation};

pub use error::{RegisterError, Violation};
pub use keyed::{KeyedKind, KeyedStag, WindowType};
pub use list::{MemoryInfo, MemoryKind};
pub use span::Span;

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
    /// Memory windows that are bound to it.
    windows: AtomicUsize,
    generation: u64,
}

impl MemoryRegion {
    /// Takes the STag out of use. A caller that holds the table back meanwhile can be sure that no write follows.
    pub fn invalidate(&self) {
        self.invalidated.store(true, Ordering::Release);
    }

    /// Returns whether a local or remote invalidation has taken the STag out of use.
    #[inline]
    pub fn is_invalidated(&self) -> bool {
        self.invalidated.load(Ordering::Acquire)
    }

    /// Returns whether memory windows are bound to it.
    pub fn has_windows(&self) -> bool {
        self.windows.load(Ordering::Acquire) > 0
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
    /// The tagged offset of the first octet; usually [`Region::address`], and always 0 with [`Access::ZERO_BASED`].
    pub iova: u64,
    /// The memory.
    pub region: Region,
}

/// What is to change about a registration; what is `None` stays.
#[derive(Debug, Default)]
pub struct Change {
    /// Another protection domain.
    pub pd: Option<PdId>,
    /// Other rights.
    pub access: Option<Access>,
    /// Other memory, and the tagged offset of its first octet.
    pub region: Option<(Region, u64)>,
}

/// An access that a stream wants: the memory, the right it needs, and the stream.
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

/// All memory regions that one engine knows, or several that share the table, found by STag.
#[derive(Debug)]
pub struct MemoryTable {
    permutation: StagPermutation,
    recent: RecentSlots,
    slots: Vec<Slot>,
    /// Free slots, the one that has been free for the longest time first.
    free: VecDeque<u32>,
    /// Windows and regions for fast registration, by the upper 24 bits of their STags.
    keyed: HashMap<u32, Arc<KeyedStag>>,
    /// Those among them that are windows.
    windows: usize,
    /// Blocks of STags that were tried for them so far.
    blocks: u32,
    is_shared: bool,
    /// How often memory was taken out of use while another engine may have been copying; see
    /// [`Self::for_several_engines`].
    revocations: AtomicU64,
    /// How often an STag was given memory.
    generations: AtomicU64,
}

impl MemoryTable {
    /// Makes an empty table; `seed` makes its STags unpredictable.
    pub fn new(seed: u64) -> Self {
        Self {
            permutation: StagPermutation::new(seed),
            recent: RecentSlots::new(),
            slots: Vec::new(),
            free: VecDeque::new(),
            keyed: HashMap::new(),
            windows: 0,
            blocks: 0,
            is_shared: false,
            revocations: AtomicU64::new(0),
            generations: AtomicU64::new(0),
        }
    }

    /// Makes an empty table for engines that use it at the same time. A request that takes an STag out of use completes
    /// only when its engine has let the other engines finish their copies
    /// ([`QueuePair::is_revoking`](crate::QueuePair::is_revoking)).
    pub fn for_several_engines(seed: u64) -> Self {
        Self { is_shared: true, ..Self::new(seed) }
    }

    /// Adds a registration and gives it an STag.
    ///
    /// # Errors
    /// [`RegisterError`] when the rights contradict each other, the offsets wrap, or no STag is left.
    pub fn register(&mut self, registration: Registration) -> Result<Arc<MemoryRegion>, RegisterError> {
        let Registration { pd, stream, access, iova, region } = registration;
        let iova = check_registration(access, iova, &region)?;
        let slot = self.take_slot()?;
        let stag = self.name(slot);
        let (invalidated, windows) = (AtomicBool::new(false), AtomicUsize::new(0));
        let generation = self.next_generation();
        let memory =
            MemoryRegion { stag, pd, stream, access, iova, region, invalidated, windows, generation };
        let memory = Arc::new(memory);
        self.slots[slot as usize].memory = Some(Arc::clone(&memory));
        Ok(memory)
    }

    /// Takes a registration out of the table; the STag is unknown from now on, and windows that are bound to it are
    /// invalid. `None` when it was not in the table.
    pub fn deregister(&mut self, stag: Stag) -> Option<Arc<MemoryRegion>> {
        let (slot, key) = self.permutation.slot(stag);
        let entry = self.slots.get_mut(slot as usize).filter(|entry| entry.key == key)?;
        let memory = entry.memory.take()?;
        entry.key = entry.key.wrapping_add(1);
        self.free.push_back(slot);
        if memory.has_windows() {
            self.unbind_region(stag);
        }
        Some(memory)
    }

    /// Changes a registration in place: its STag stays the same. `Ok` holds the memory that it had before, if that has
    /// changed.
    ///
    /// # Errors
    /// As [`Self::register`]; [`RegisterError::Busy`] when windows are bound to it or another caller holds it at this
    /// moment, [`RegisterError::ForeignQp`] when memory of one stream would change its domain. Nothing has changed
    /// then.
    pub fn reregister(
        &mut self,
        memory: &mut Arc<MemoryRegion>,
        change: Change,
    ) -> Result<Option<Region>, RegisterError> {
        let Change { pd, access, region } = change;
        let (pd, access) = (pd.unwrap_or(memory.pd), access.unwrap_or(memory.access));
        let (next, iova) = region.map_or((None, memory.iova), |(region, iova)| (Some(region), iova));
        let iova = check_registration(access, iova, next.as_ref().unwrap_or(&memory.region))?;
        if memory.stream.is_some() && pd != memory.pd {
            return Err(RegisterError::ForeignQp);
        }
        let (slot, _) = self.permutation.slot(memory.stag);
        let entry = self.slots.get_mut(slot as usize).map(|slot| &mut slot.memory);
        let entry = entry.filter(|held| held.as_ref().is_some_and(|held| Arc::ptr_eq(held, memory)));
        let entry = entry.ok_or(RegisterError::Busy)?;
        if memory.has_windows() {
            return Err(RegisterError::Busy);
        }
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        // Without the table's own hold on it, only the caller can have one.
        *entry = None;
        let changed = Arc::get_mut(memory).map(|memory| {
            (memory.pd, memory.access, memory.iova, memory.generation) = (pd, access, iova, generation);
            next.map(|next| core::mem::replace(&mut memory.region, next))
        });
        *entry = Some(Arc::clone(memory));
        changed.ok_or(RegisterError::Busy)
    }

    /// Returns whether anything belongs to this domain.
    pub fn uses(&self, pd: PdId) -> bool {
        self.slots.iter().filter_map(|slot| slot.memory.as_ref()).any(|memory| memory.pd == pd)
            || self.keyed.values().any(|keyed| keyed.pd == pd)
    }

    /// Checks an access of `len` octets at tagged offset `to`, and returns their place.
    ///
    /// The caller leaves an access of length zero out: RFC 5041 section 5.2 wants no check of its STag.
    ///
    /// # Errors
    /// The [`Violation`] to blame, in the order in which RFC 5040 section 8.1 lists the checks.
    #[inline(always)]
    pub fn check(&self, claim: Claim, to: u64, len: usize) -> Result<Span<'_>, Violation> {
        match self.entry(claim.stag) {
            Some(memory) if !memory.is_invalidated() => View::of(memory).check(&claim, to, len),
            Some(_invalidated) => Err(Violation::InvalidStag),
            None => self.check_keyed(&claim, to, len),
        }
    }

    /// Returns a number that an STag has for as long as it stands for the same memory. It gets another one when it is
    /// registered or bound anew. `None` if the STag is unknown.
    pub fn generation(&self, stag: Stag) -> Option<u64> {
        match self.entry(stag) {
            Some(memory) => Some(memory.generation),
            None => self.keyed(stag)?.mapping(stag).map(|mapping| mapping.generation),
        }
    }

    /// Returns the number of registrations, those for fast registration included.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len() + self.keyed.len() - self.windows
    }

    /// Returns whether nothing is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a number that changes when memory is taken out of use while another engine may be copying.
    pub(crate) fn revocations(&self) -> u64 {
        self.revocations.load(Ordering::Relaxed)
    }

    fn next_generation(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns what `stag` stands for, if this stream of this domain may use it.
    fn find_associated(&self, stag: Stag, pd: PdId, stream: StreamId) -> Result<View<'_>, Violation> {
        let view = self.find(stag).ok_or(Violation::InvalidStag)?;
        associated((view.pd, view.stream), pd, stream)?;
        Ok(view)
    }

    #[inline(never)]
    fn check_keyed(&self, claim: &Claim, to: u64, len: usize) -> Result<Span<'_>, Violation> {
        self.find_keyed(claim.stag).ok_or(Violation::InvalidStag)?.check(claim, to, len)
    }

    fn find(&self, stag: Stag) -> Option<View<'_>> {
        match self.entry(stag) {
            Some(memory) => (!memory.is_invalidated()).then(|| View::of(memory)),
            None => self.find_keyed(stag),
        }
    }

    /// Returns what is registered under `stag`, invalidated or not.
    #[inline(always)]
    fn entry(&self, stag: Stag) -> Option<&MemoryRegion> {
        let (slot, key) = self.recent.slot(&self.permutation, stag);
        self.slots.get(slot as usize).filter(|entry| entry.key == key)?.memory.as_deref()
    }

    /// Returns the next STag of a slot that is not in use. STag 0 is never handed out: some peers treat it as special
    /// (wire doubt D4).
    fn name(&mut self, slot: u32) -> Stag {
        let entry = &mut self.slots[slot as usize];
        loop {
            let stag = self.permutation.stag(slot, entry.key);
            if stag != Stag(0) && !self.keyed.contains_key(&(stag.0 >> 8)) {
                return stag;
            }
            entry.key = entry.key.wrapping_add(1);
        }
    }

    /// Returns the slot that has been free for the longest time if enough slots are free, or else a slot that was never
    /// used.
    fn take_slot(&mut self) -> Result<u32, RegisterError> {
        let next = u32::try_from(self.slots.len()).ok().filter(|next| *next < StagPermutation::SLOTS);
        if let Some(next) = next.filter(|_| self.free.len() < STAG_REST) {
            self.slots.push(Slot { key: 0, memory: None });
            return Ok(next);
        }
        self.free.pop_front().ok_or(RegisterError::TableFull)
    }
}

/// What an STag stands for at this moment.
#[derive(Clone, Copy, Debug)]
struct View<'a> {
    region: &'a Region,
    pd: PdId,
    stream: Option<StreamId>,
    access: Access,
    /// The tagged offset of the first octet.
    base: u64,
    /// The first octet in the region.
    first: usize,
    len: u64,
    /// It is for peers only.
    is_window: bool,
}

impl<'a> View<'a> {
    #[inline(always)]
    fn of(memory: &'a MemoryRegion) -> Self {
        Self {
            region: &memory.region,
            pd: memory.pd,
            stream: memory.stream,
            access: memory.access,
            base: memory.iova,
            first: 0,
            len: memory.region.len() as u64,
            is_window: false,
        }
    }

    /// Returns where `len` octets at `to` are, if the claim is good for them.
    #[inline(always)]
    fn check(&self, claim: &Claim, to: u64, len: usize) -> Result<Span<'a>, Violation> {
        associated((self.pd, self.stream), claim.pd, claim.stream)?;
        let len = len as u64;
        if to.checked_add(len).is_none() {
            return Err(Violation::Wrap);
        }
        let offset = to.checked_sub(self.base).ok_or(Violation::Bounds)?;
        if offset > self.len || len > self.len - offset {
            return Err(Violation::Bounds);
        }
        if !self.grants(claim.right) {
            return Err(Violation::Access);
        }
        let offset = usize::try_from(offset).map_err(|_| Violation::Bounds)?;
        Ok(Span { region: self.region, offset: self.first + offset })
    }

    #[inline]
    const fn grants(&self, right: Access) -> bool {
        self.access.contains(right) && (!self.is_window || right.is_remote())
    }
}

/// Checks that the rights, the memory and its offsets go together, and returns the tagged offset of the first octet.
fn check_registration(access: Access, iova: u64, region: &Region) -> Result<u64, RegisterError> {
    if !access.is_valid() {
        return Err(RegisterError::Access);
    }
    if access.contains(Access::LOCAL_WRITE) && !region.is_writable() {
        return Err(RegisterError::Fault);
    }
    let iova = if access.contains(Access::ZERO_BASED) { 0 } else { iova };
    if iova.checked_add(region.len() as u64).is_none() {
        return Err(RegisterError::Wrap);
    }
    Ok(iova)
}

/// Checks that this stream of this domain may use memory of the owner.
#[inline]
fn associated(owner: (PdId, Option<StreamId>), pd: PdId, stream: StreamId) -> Result<(), Violation> {
    if owner.0 != pd {
        return Err(Violation::WrongPd);
    }
    if owner.1.is_some_and(|only| only != stream) {
        return Err(Violation::WrongStream);
    }
    Ok(())
}

#[derive(Debug)]
struct Slot {
    key: u8,
    memory: Option<Arc<MemoryRegion>>,
}

/// So many free slots are kept before a slot is used again. With 256 keys of each, an STag comes back after a quarter
/// of a million others at the earliest (RFC 5042 section 6.1.1 wants it as late as possible).
const STAG_REST: usize = 1024;

mod error;
mod invalidate;
mod keyed;
mod list;
mod span;
mod windows;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod windows_tests;
