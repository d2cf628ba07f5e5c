//! Memory windows, fast registration and invalidation, by the model: a second implementation of the verbs' rules.

use weft_rnic::{Access, Bind, FastRegister, Mw, Stag, WindowType};

use super::memory::{Asker, Backing, End, Memories, Refused};

/// A memory window with its model.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) mw: Mw,
    pub(super) pd: usize,
    pub(super) stag: Stag,
    pub(super) bound: Option<Bound>,
}

/// The binding of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// The only queue pair that may use it, if there is one.
    pub(super) only: Option<End>,
    pub(super) access: Access,
    pub(super) base: u64,
    pub(super) len: usize,
    pub(super) region: Stag,
    pub(super) first: usize,
}

/// The object of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    Region(usize),
    Window(usize),
}

const REMOTE: [Access; 3] = [Access::REMOTE_READ, Access::REMOTE_WRITE, Access::REMOTE_ATOMIC];

impl Memories {
    /// Returns the region of an access through a window, and the offset in it.
    pub(super) fn check_window(
        &self,
        asker: Asker,
        stag: Stag,
        right: Access,
        (to, len): (u64, usize),
    ) -> Result<(usize, usize), Refused> {
        let window = self.windows.iter().find(|window| window.stag == stag).ok_or(Refused)?;
        let bound = window.bound.ok_or(Refused)?;
        let is_ours = window.pd == asker.pd && bound.only.is_none_or(|only| only == asker.end);
        let end = u128::from(bound.base) + bound.len as u128;
        let inside = to >= bound.base && u128::from(to) + len as u128 <= end;
        if !is_ours || !inside || !REMOTE.contains(&right) || !bound.access.contains(right) {
            return Err(Refused);
        }
        let region = self.list.iter().position(|memory| memory.stag == bound.region && !memory.is_invalid);
        let at = usize::try_from(to - bound.base).map_err(|_| Refused)?;
        Ok((region.ok_or(Refused)?, bound.first + at))
    }

    pub(super) fn bind(&mut self, asker: Asker, bind: Bind) -> Result<(), Refused> {
        let is_meant = |window: &Window| window.mw.stag(0).0 >> 8 == bind.window.0 >> 8;
        let index = self.windows.iter().position(is_meant).ok_or(Refused)?;
        let window = &self.windows[index];
        let is_sane = bind.access.bits() & !(0x0E | 0x20) == 0;
        if window.pd != asker.pd || !is_sane {
            return Err(Refused);
        }
        let is_first = window.mw.kind() == WindowType::Type1;
        if is_first && bind.length == 0 {
            (self.windows[index].stag, self.windows[index].bound) = (bind.window, None);
            return Ok(());
        }
        if !is_first && (window.bound.is_some() || bind.length == 0) {
            return Err(Refused);
        }
        let below = self.list.iter().find(|memory| memory.stag == bind.region && !memory.is_invalid);
        let below = below.filter(|memory| matches!(memory.backing, Backing::Mr(_))).ok_or(Refused)?;
        let is_ours = below.pd == asker.pd && below.only.is_none_or(|only| only == asker.end && !is_first);
        let changes = bind.access.bits() & 0x0A != 0;
        let is_granted = below.access.contains(Access::MW_BIND)
            && (!changes || below.access.contains(Access::LOCAL_WRITE));
        let end = u128::from(bind.addr) + u128::from(bind.length);
        let inside = bind.addr >= below.base && end <= u128::from(below.base) + below.len as u128;
        if !is_ours || !is_granted || !inside {
            return Err(Refused);
        }
        let bound = Bound {
            only: (!is_first).then_some(asker.end),
            access: bind.access,
            base: if bind.access.contains(Access::ZERO_BASED) { 0 } else { bind.addr },
            len: usize::try_from(bind.length).map_err(|_| Refused)?,
            region: bind.region,
            first: usize::try_from(bind.addr - below.base).map_err(|_| Refused)?,
        };
        (self.windows[index].stag, self.windows[index].bound) = (bind.window, Some(bound));
        Ok(())
    }

    pub(super) fn fast_register(&mut self, asker: Asker, request: FastRegister) -> Result<(), Refused> {
        let FastRegister { stag, offset, iova, length, access } = request;
        let memory = self.list.iter_mut().find(
            |memory| matches!(&memory.backing, Backing::Fast(fast) if fast.stag(0).0 >> 8 == stag.0 >> 8),
        );
        let memory = memory.ok_or(Refused)?;
        let is_ours = memory.pd == asker.pd && memory.only.is_none_or(|only| only == asker.end);
        let is_sane = access.bits() & 0x01 != 0 || access.bits() & 0x0A == 0;
        let base = if access.contains(Access::ZERO_BASED) { 0 } else { iova };
        let inside = u128::from(offset) + u128::from(length) <= memory.content.len() as u128;
        let wraps = base.checked_add(length).is_none();
        if !is_ours || !memory.is_invalid || !is_sane || access.contains(Access::MW_BIND) || !inside || wraps
        {
            return Err(Refused);
        }
        memory.first = usize::try_from(offset).map_err(|_| Refused)?;
        memory.len = usize::try_from(length).map_err(|_| Refused)?;
        (memory.stag, memory.base, memory.access, memory.is_invalid) = (stag, base, access, false);
        Ok(())
    }

    /// Returns the object that a peer of this queue pair invalidates by the STag, if it may.
    pub(super) fn invalidatable(&self, asker: Asker, stag: Stag) -> Option<Victim> {
        let region = self.list.iter().position(|memory| {
            memory.stag == stag
                && !memory.is_invalid
                && memory.pd == asker.pd
                && memory.only == Some(asker.end)
                && REMOTE.iter().any(|&right| memory.access.contains(right))
                && !self.has_windows(stag)
        });
        let window = self.windows.iter().position(|window| {
            let is_alive = |bound: Bound| {
                let is_below =
                    |memory: &super::memory::Memory| memory.stag == bound.region && !memory.is_invalid;
                bound.only == Some(asker.end) && self.list.iter().any(is_below)
            };
            window.stag == stag && window.pd == asker.pd && window.bound.is_some_and(is_alive)
        });
        region.map(Victim::Region).or_else(|| window.map(Victim::Window))
    }

    /// Returns the object that a Local Invalidate of this queue pair invalidates.
    pub(super) fn own(&self, asker: Asker, stag: Stag) -> Result<Victim, Refused> {
        let is_ours =
            |pd: usize, only: Option<End>| pd == asker.pd && only.is_none_or(|only| only == asker.end);
        if let Some(index) = self.list.iter().position(|memory| memory.stag == stag) {
            let memory = &self.list[index];
            let is_shared = memory.only.is_none() && matches!(memory.backing, Backing::Mr(_));
            let is_good = is_ours(memory.pd, memory.only) && !is_shared && !self.has_windows(stag);
            return if is_good { Ok(Victim::Region(index)) } else { Err(Refused) };
        }
        let index = self.windows.iter().position(|window| window.stag == stag).ok_or(Refused)?;
        let window = &self.windows[index];
        let only = window.bound.and_then(|bound| bound.only);
        let is_second = window.mw.kind() == WindowType::Type2B;
        if is_second && is_ours(window.pd, only) { Ok(Victim::Window(index)) } else { Err(Refused) }
    }

    pub(super) fn invalidate(&mut self, victim: Victim) {
        match victim {
            Victim::Region(index) => self.list[index].is_invalid = true,
            Victim::Window(index) => self.windows[index].bound = None,
        }
    }

    /// Returns true if windows are bound to the region.
    pub(super) fn has_windows(&self, region: Stag) -> bool {
        self.windows.iter().any(|window| window.bound.is_some_and(|bound| bound.region == region))
    }

    /// Unbinds all windows for which `is_meant` returns true.
    pub(super) fn unbind(&mut self, is_meant: impl Fn(&Bound) -> bool) {
        for window in &mut self.windows {
            window.bound = window.bound.filter(|bound| !is_meant(bound));
        }
    }
}
