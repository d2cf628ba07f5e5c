//! Registered memory, and what the model knows of it.

use weft_rnic::{Access, Mr, Sge, Stag};

use super::ops::{SgeChoice, Target};

/// Names a queue pair in both worlds: side and number of creation.
pub(super) type End = (usize, usize);

/// A memory region with its model.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) mr: Mr,
    pub(super) pd: usize,
    pub(super) access: Access,
    /// The only queue pair that may use it.
    pub(super) only: Option<End>,
    pub(super) is_invalid: bool,
    pub(super) content: Vec<u8>,
}

/// The regions of one side.
#[derive(Debug, Default)]
pub(super) struct Memories {
    pub(super) list: Vec<Memory>,
    /// Region, offset and octets that may have been placed before an error that came behind them, or not.
    pub(super) maybe: Vec<(usize, usize, Vec<u8>)>,
}

/// Who asks for memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) end: End,
    pub(super) pd: usize,
}

/// The memory is not there, or not for whoever asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused;

impl Memories {
    /// The region and the offset in it that an access is about.
    pub(super) fn check(
        &self,
        asker: Asker,
        stag: Stag,
        right: Access,
        (to, len): (u64, usize),
    ) -> Result<(usize, usize), Refused> {
        let found = self.list.iter().position(|memory| memory.mr.rkey() == stag && !memory.is_invalid);
        let index = found.ok_or(Refused)?;
        let memory = &self.list[index];
        let is_ours = memory.pd == asker.pd && memory.only.is_none_or(|only| only == asker.end);
        let first = u128::from(memory.mr.addr());
        let end = first + memory.content.len() as u128;
        let inside = u128::from(to) >= first && u128::from(to) + len as u128 <= end;
        if !is_ours || !inside || !memory.access.contains(right) {
            return Err(Refused);
        }
        let offset = usize::try_from(to - memory.mr.addr()).map_err(|_| Refused)?;
        Ok((index, offset))
    }

    /// Copies into the elements, as far as `octets` go; what is before a bad element has been placed then.
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

    /// What the elements hold.
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

    /// Whether a peer of this queue pair may invalidate the STag, and which region that is.
    pub(super) fn invalidatable(&self, asker: Asker, stag: Stag) -> Option<usize> {
        let is_remote = |access: Access| {
            [Access::REMOTE_READ, Access::REMOTE_WRITE, Access::REMOTE_ATOMIC]
                .iter()
                .any(|&right| access.contains(right))
        };
        self.list.iter().position(|memory| {
            memory.mr.rkey() == stag
                && !memory.is_invalid
                && memory.pd == asker.pd
                && memory.only == Some(asker.end)
                && is_remote(memory.access)
        })
    }

    /// The real memory is as the model says.
    pub(super) fn compare(&mut self) {
        for (index, offset, octets) in core::mem::take(&mut self.maybe) {
            let mut found = vec![0; octets.len()];
            self.list[index].mr.read(offset, &mut found).expect("inside the region");
            if found == octets {
                self.put(index, offset, &octets);
            }
        }
        for memory in &self.list {
            let mut octets = vec![0; memory.content.len()];
            memory.mr.read(0, &mut octets).expect("the whole region");
            assert_eq!(octets, memory.content, "memory {}", memory.mr.rkey());
            assert_eq!(memory.mr.is_invalidated(), memory.is_invalid);
        }
    }

    /// An element by choice; most are right.
    pub(super) fn sge(&self, choice: SgeChoice, others: &Self) -> Sge {
        let SgeChoice { region, offset, length, twist } = choice;
        let Some(memory) = self.pick(region) else {
            return Sge { addr: u64::from(offset), length: length.into(), lkey: Stag(region.into()) };
        };
        let size = memory.content.len();
        let offset = usize::from(offset) % (size + 1);
        let length = usize::from(length) % (size - offset + 1);
        let right = memory.mr.sge(offset, u32::try_from(length).unwrap_or(0));
        match twist {
            0..4 => Sge { lkey: Stag(right.lkey.0 ^ 1), ..right },
            4..8 => Sge { lkey: others.pick(region).map_or(Stag(0), |other| other.mr.lkey()), ..right },
            8..12 => Sge { length: u32::MAX, ..right },
            12..16 => Sge { length: right.length + 1, addr: memory.mr.sge(size - length, 0).addr, ..right },
            16..20 => Sge { addr: right.addr.wrapping_sub(1 + offset as u64), ..right },
            _ => right,
        }
    }

    /// A place by choice, as a peer names it; most are right.
    pub(super) fn target(&self, choice: Target, len: usize) -> (Stag, u64) {
        let Target { region, offset, twist } = choice;
        let Some(memory) = self.pick(region) else { return (Stag(region.into()), offset.into()) };
        let room = memory.content.len().saturating_sub(len);
        let to = memory.mr.sge(usize::from(offset) % (room + 1), 0).addr;
        match twist {
            0..4 => (Stag(memory.mr.rkey().0 ^ 0x100), to),
            4..8 => (memory.mr.rkey(), to.wrapping_add(room as u64 + 1)),
            8..12 => (memory.mr.rkey(), memory.mr.addr().wrapping_sub(1)),
            12..16 => (memory.mr.rkey(), u64::MAX),
            // Where an Atomic may be.
            16..96 => (memory.mr.rkey(), memory.mr.addr() + u64::from(offset) % (room as u64 + 1) / 8 * 8),
            _ => (memory.mr.rkey(), to),
        }
    }

    fn pick(&self, choice: u8) -> Option<&Memory> {
        self.list.get(usize::from(choice).checked_rem(self.list.len())?)
    }
}
