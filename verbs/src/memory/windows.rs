//! Memory windows and fast registration: STags that requests of the send queue make valid.
//!
//! The caller holds the engine back, so that nothing is copied through an STag while its meaning changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_ddp::Stag;

use super::keyed::{KeyedKind, KeyedStag, Mapping, WindowType};
use super::{MemoryTable, RegisterError, View, Violation, associated};
use crate::access::Access;
use crate::ids::{PdId, StreamId};
use crate::stag::StagPermutation;
use crate::work::{Bind, FastRegister};

impl MemoryTable {
    /// Makes an STag that is invalid until it is bound or registered.
    ///
    /// # Errors
    /// [`RegisterError::TableFull`] when no STags are left.
    pub fn alloc(
        &mut self,
        pd: PdId,
        stream: Option<StreamId>,
        kind: KeyedKind,
    ) -> Result<Arc<KeyedStag>, RegisterError> {
        let block = self.take_block()?;
        self.windows += usize::from(matches!(kind, KeyedKind::Window(_)));
        let keyed = Arc::new(KeyedStag::new(block, (pd, stream), kind, self.permutation));
        self.keyed.insert(block, Arc::clone(&keyed));
        Ok(keyed)
    }

    /// Takes what [`Self::alloc`] has made out of the table, bound or not.
    pub fn dealloc(&mut self, keyed: &KeyedStag) {
        if self.keyed.remove(&keyed.block()).is_some() {
            self.windows -= usize::from(matches!(keyed.kind, KeyedKind::Window(_)));
            self.unbind(keyed);
        }
    }

    /// Binds a window for `stream` of domain `pd`, or unbinds one of type 1.
    ///
    /// # Errors
    /// [`Violation`], and nothing has changed: no such window or region, another domain or stream, rights that a window
    /// cannot have or that the region does not let it have, not inside the region, or a window of type 2 that is bound
    /// already or is to be bound to nothing.
    pub fn bind(&self, bind: &Bind, pd: PdId, stream: StreamId) -> Result<(), Violation> {
        let window = self.keyed(bind.window).ok_or(Violation::InvalidStag)?;
        let KeyedKind::Window(kind) = window.kind else { return Err(Violation::InvalidStag) };
        associated((window.pd, None), pd, stream)?;
        if !bind.access.is_for_window() {
            return Err(Violation::Access);
        }
        let only = match kind {
            WindowType::Type1 if bind.length == 0 => {
                self.unbind(window);
                window.set(bind.window, None);
                return Ok(());
            }
            WindowType::Type1 => None,
            WindowType::Type2B if window.is_valid() => return Err(Violation::Bound),
            WindowType::Type2B if bind.length == 0 => return Err(Violation::Bounds),
            WindowType::Type2B => Some(stream),
        };
        let region = self.entry(bind.region).filter(|region| !region.is_invalidated());
        let region = region.ok_or(Violation::InvalidStag)?;
        associated((region.pd, region.stream), pd, stream)?;
        // A window does not open memory of one stream to all streams.
        if region.stream.is_some() && only.is_none() {
            return Err(Violation::WrongStream);
        }
        let may_change = region.access.contains(Access::LOCAL_WRITE) || !bind.access.is_remotely_writable();
        if !region.access.contains(Access::MW_BIND) || !may_change {
            return Err(Violation::Access);
        }
        let first = bind.addr.checked_sub(region.iova).ok_or(Violation::Bounds)?;
        let base = if bind.access.contains(Access::ZERO_BASED) { 0 } else { bind.addr };
        let mapping = mapping(bind.access, (base, bind.length), first, region.region.len())?;
        self.unbind(window);
        region.windows.fetch_add(1, Ordering::AcqRel);
        let generation = self.next_generation();
        window.set(bind.window, Some(Mapping { stream: only, region: bind.region, generation, ..mapping }));
        Ok(())
    }

    /// Makes the STag of a region for fast registration valid, for `stream` of domain `pd`.
    ///
    /// # Errors
    /// [`Violation`], and nothing has changed: no such region, another domain or stream, rights that make no sense, not
    /// inside the region, tagged offsets that wrap, or an STag that is valid already.
    pub fn fast_register(&self, request: &FastRegister, pd: PdId, stream: StreamId) -> Result<(), Violation> {
        let keyed = self.keyed(request.stag).ok_or(Violation::InvalidStag)?;
        let KeyedKind::Fast(region) = &keyed.kind else { return Err(Violation::InvalidStag) };
        associated((keyed.pd, keyed.stream), pd, stream)?;
        if keyed.is_valid() {
            return Err(Violation::Bound);
        }
        let access = request.access;
        let is_writable = region.is_writable() || !access.contains(Access::LOCAL_WRITE);
        if !access.is_valid() || access.contains(Access::MW_BIND) || !is_writable {
            return Err(Violation::Access);
        }
        let base = if access.contains(Access::ZERO_BASED) { 0 } else { request.iova };
        let mapping = mapping(access, (base, request.length), request.offset, region.len())?;
        let generation = self.next_generation();
        keyed.set(request.stag, Some(Mapping { stream: keyed.stream, generation, ..mapping }));
        Ok(())
    }

    /// Unbinds all windows of type 2 of a stream that is no more.
    pub fn unbind_stream(&self, stream: StreamId) {
        self.unbind_all(|mapping| mapping.stream == Some(stream));
    }

    /// Takes a window out of use, of whatever type and bound for whatever stream. It can be bound again.
    pub fn revoke(&mut self, window: &KeyedStag) {
        self.unbind(window);
    }

    /// Returns the number of memory windows.
    pub const fn windows(&self) -> usize {
        self.windows
    }

    /// Unbinds all windows of a region that is no more.
    pub(super) fn unbind_region(&self, region: Stag) {
        self.unbind_all(|mapping| mapping.region == region);
    }

    /// Takes a window or fast registration out of use.
    pub(super) fn unbind(&self, keyed: &KeyedStag) {
        let Some(mapping) = keyed.clear() else { return };
        // Memory of one stream is used by the engine of that stream only.
        if self.is_shared && mapping.stream.is_none() {
            self.revocations.fetch_add(1, Ordering::Relaxed);
        }
        if let (KeyedKind::Window(_), Some(region)) = (&keyed.kind, self.entry(mapping.region)) {
            region.windows.fetch_sub(1, Ordering::AcqRel);
        }
    }

    pub(super) fn keyed(&self, stag: Stag) -> Option<&KeyedStag> {
        self.keyed.get(&(stag.0 >> 8)).map(|keyed| &**keyed)
    }

    pub(super) fn find_keyed(&self, stag: Stag) -> Option<View<'_>> {
        let keyed = self.keyed(stag)?;
        let mapping = keyed.mapping(stag)?;
        let (region, is_window) = match &keyed.kind {
            KeyedKind::Fast(region) => (region, false),
            KeyedKind::Window(_) => {
                let below = self.entry(mapping.region).filter(|region| !region.is_invalidated())?;
                (&below.region, true)
            }
        };
        let Mapping { stream, access, base, first, len, .. } = mapping;
        Some(View { region, pd: keyed.pd, stream, access, base, first, len, is_window })
    }

    fn unbind_all(&self, is_meant: impl Fn(&Mapping) -> bool) {
        let windows = self.keyed.values().filter(|keyed| matches!(keyed.kind, KeyedKind::Window(_)));
        for window in windows {
            if window.mapping(window.current()).is_some_and(|mapping| is_meant(&mapping)) {
                self.unbind(window);
            }
        }
    }

    /// Returns the upper 24 bits of 256 STags that are not in use.
    fn take_block(&mut self) -> Result<u32, RegisterError> {
        for _ in 0..TRIES {
            let [key, place @ ..] = self.blocks.to_le_bytes();
            self.blocks = self.blocks.wrapping_add(1);
            // From the end of the slots, so that the STags of ordinary regions stay away for as long as possible.
            let slot = StagPermutation::SLOTS - 1 - u32::from_le_bytes([place[0], place[1], place[2], 0]);
            let block = self.permutation.stag(slot, key).0 >> 8;
            let is_free = |key| self.entry(Stag(block << 8 | key)).is_none();
            if block != 0 && !self.keyed.contains_key(&block) && (0..=0xFF).all(is_free) {
                return Ok(block);
            }
        }
        Err(RegisterError::TableFull)
    }
}

/// Returns the mapping of a part of memory of `size` octets. The caller adds its stream, region and generation.
fn mapping(access: Access, (base, len): (u64, u64), first: u64, size: usize) -> Result<Mapping, Violation> {
    if base.checked_add(len).is_none() {
        return Err(Violation::Wrap);
    }
    if first > size as u64 || len > size as u64 - first {
        return Err(Violation::Bounds);
    }
    let first = usize::try_from(first).map_err(|_| Violation::Bounds)?;
    Ok(Mapping { stream: None, access, base, first, len, region: Stag(0), generation: 0 })
}

/// So many blocks are looked at for a free one; with a million regions, one in 16 is taken.
const TRIES: u32 = 1 << 12;
