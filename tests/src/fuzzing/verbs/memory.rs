//! Registered memory, and its model.

use weft_rnic::{Access, FastMr, Mr, Sge, Stag, Violation};

use super::ops::{SgeChoice, Target};
use super::windows::Window;

/// Names a queue pair in both worlds: side, and number in the order of creation.
pub(super) type End = (usize, usize);

/// A memory region with its model.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) backing: Backing,
    /// The STag of its last registration.
    pub(super) stag: Stag,
    /// The tagged offset of the first registered octet, the place of that octet in the content, and the number of
    /// registered octets.
    pub(super) base: u64,
    pub(super) first: usize,
    pub(super) len: usize,
    pub(super) pd: usize,
    pub(super) access: Access,
    /// The only queue pair that may use it, if there is one.
    pub(super) only: Option<End>,
    pub(super) is_invalid: bool,
    pub(super) content: Vec<u8>,
}

/// The real memory.
#[derive(Debug)]
pub(super) enum Backing {
    Mr(Mr),
    Fast(FastMr),
}

impl Backing {
    pub(super) fn read(&self, offset: usize, octets: &mut [u8]) -> Result<(), Violation> {
        match self {
            Self::Mr(mr) => mr.read(offset, octets),
            Self::Fast(fast) => fast.read(offset, octets),
        }
    }

    pub(super) fn write(&self, offset: usize, octets: &[u8]) -> Result<(), Violation> {
        match self {
            Self::Mr(mr) => mr.write(offset, octets),
            Self::Fast(fast) => fast.write(offset, octets),
        }
    }

    fn is_invalid(&self) -> bool {
        match self {
            Self::Mr(mr) => mr.is_invalidated(),
            Self::Fast(fast) => !fast.is_valid(),
        }
    }
}

/// The regions and windows of one side.
#[derive(Debug, Default)]
pub(super) struct Memories {
    pub(super) list: Vec<Memory>,
    pub(super) windows: Vec<Window>,
    /// Region, offset and octets that an engine may or may not have placed before a later error.
    pub(super) maybe: Vec<(usize, usize, Vec<u8>)>,
}

/// The queue pair or peer that asks for memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) end: End,
    pub(super) pd: usize,
}

/// The memory does not exist, or the asker may not use it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused;

impl Memories {
    /// Returns the region of an access and the offset in it.
    pub(super) fn check(
        &self,
        asker: Asker,
        stag: Stag,
        right: Access,
        (to, len): (u64, usize),
    ) -> Result<(usize, usize), Refused> {
        let found = self.list.iter().position(|memory| memory.stag == stag && !memory.is_invalid);
        let Some(index) = found else { return self.check_window(asker, stag, right, (to, len)) };
        let memory = &self.list[index];
        let is_ours = memory.pd == asker.pd && memory.only.is_none_or(|only| only == asker.end);
        let first = u128::from(memory.base);
        let end = first + memory.len as u128;
        let inside = u128::from(to) >= first && u128::from(to) + len as u128 <= end;
        if !is_ours || !inside || !memory.access.contains(right) {
            return Err(Refused);
        }
        let offset = usize::try_from(to - memory.base).map_err(|_| Refused)?;
        Ok((index, memory.first + offset))
    }

    /// Copies `octets` into the elements. Octets before a bad element stay placed.
    pub(super) fn scatter(&mut self, asker: Asker, sges: &[Sge], mut octets: &[u8]) -> Result<(), Refused> {
        for sge in sges {
            let (piece, rest) = octets.split_at((sge.length as usize).min(octets.len()));
            octets = rest;
            if !piece.is_empty() {
                let place = (sge.addr, piece.len());
                let (index, offset) = self.check(asker, sge.lkey, Access::LOCAL_WRITE, place)?;
                self.put(index, offset, piece);
            }
        }
        Ok(())
    }

    /// Returns the octets of the elements.
    pub(super) fn gather(&self, asker: Asker, sges: &[Sge]) -> Result<Vec<u8>, Refused> {
        let mut octets = Vec::new();
        for sge in sges.iter().filter(|sge| sge.length > 0) {
            let place = (sge.addr, sge.length as usize);
            let (index, offset) = self.check(asker, sge.lkey, Access::LOCAL_READ, place)?;
            octets.extend_from_slice(&self.list[index].content[offset..offset + sge.length as usize]);
        }
        Ok(octets)
    }

    pub(super) fn put(&mut self, index: usize, offset: usize, octets: &[u8]) {
        self.list[index].content[offset..offset + octets.len()].copy_from_slice(octets);
    }

    /// Compares the real memory with the model.
    pub(super) fn compare(&mut self) {
        for (index, offset, octets) in core::mem::take(&mut self.maybe) {
            let mut found = vec![0; octets.len()];
            self.list[index].backing.read(offset, &mut found).expect("inside the region");
            if found == octets {
                self.put(index, offset, &octets);
            }
        }
        for memory in &self.list {
            let mut octets = vec![0; memory.content.len()];
            memory.backing.read(0, &mut octets).expect("the whole region");
            assert_eq!(octets, memory.content, "memory {}", memory.stag);
            assert_eq!(memory.backing.is_invalid(), memory.is_invalid, "memory {}", memory.stag);
        }
        for window in &self.windows {
            assert_eq!(window.mw.rkey(), window.stag);
            assert_eq!(window.mw.is_bound(), window.bound.is_some(), "window {}", window.stag);
        }
    }

    /// Returns an element by choice. Most are valid.
    pub(super) fn sge(&self, choice: SgeChoice, others: &Self) -> Sge {
        let SgeChoice { region, offset, length, twist } = choice;
        let Some(memory) = self.pick(region) else {
            return Sge { addr: u64::from(offset), length: length.into(), lkey: Stag(region.into()) };
        };
        let size = memory.len;
        let offset = usize::from(offset) % (size + 1);
        let length = usize::from(length) % (size - offset + 1);
        let at = |offset: usize| memory.base.wrapping_add(offset as u64);
        let length32 = u32::try_from(length).unwrap_or(0);
        let right = Sge { addr: at(offset), length: length32, lkey: memory.stag };
        match twist {
            0..4 => Sge { lkey: Stag(right.lkey.0 ^ 1), ..right },
            4..8 => Sge { lkey: others.pick(region).map_or(Stag(0), |other| other.stag), ..right },
            8..12 => Sge { length: u32::MAX, ..right },
            12..16 => Sge { length: right.length + 1, addr: at(size - length), ..right },
            16..20 => Sge { addr: right.addr.wrapping_sub(1 + offset as u64), ..right },
            20..24 => Sge { lkey: self.windows.first().map_or(Stag(0), |window| window.stag), ..right },
            _ => right,
        }
    }

    /// Returns a place by choice, as a peer names it. Most are valid.
    pub(super) fn target(&self, choice: Target, len: usize) -> (Stag, u64) {
        let Target { region, offset, twist } = choice;
        let places = self.list.iter().map(|memory| (memory.stag, memory.base, memory.len));
        let windows = self.windows.iter().map(|window| {
            let (base, len) = window.bound.map_or((0, 0), |bound| (bound.base, bound.len));
            (window.stag, base, len)
        });
        let places: Vec<_> = places.chain(windows).collect();
        let Some(index) = usize::from(region).checked_rem(places.len()) else {
            return (Stag(region.into()), offset.into());
        };
        let (stag, base, size) = places[index];
        let room = size.saturating_sub(len);
        let to = base.wrapping_add((usize::from(offset) % (room + 1)) as u64);
        match twist {
            0..4 => (Stag(stag.0 ^ 0x100), to),
            4..8 => (stag, to.wrapping_add(room as u64 + 1)),
            8..12 => (stag, base.wrapping_sub(1)),
            12..16 => (stag, u64::MAX),
            // An Atomic may be here.
            16..96 => (stag, base.wrapping_add(u64::from(offset) % (room as u64 + 1) / 8 * 8)),
            96..100 => (Stag(stag.0 ^ 1), to),
            _ => (stag, to),
        }
    }

    pub(super) fn pick(&self, choice: u8) -> Option<&Memory> {
        self.list.get(usize::from(choice).checked_rem(self.list.len())?)
    }
}
