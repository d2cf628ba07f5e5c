//! The operations on memory, in both worlds.

use weft_rnic::{Access, Region, RegisterError, Stag, WindowType};

use super::memory::{Backing, Memory};
use super::ops::{Offset, Op, Place};
use super::windows::Window;
use super::world::World;

impl World {
    pub(super) fn apply_to_memory(&mut self, op: &Op) {
        match *op {
            Op::Register { side, pd, len, access, place } => {
                self.register(usize::from(side), usize::from(pd), (usize::from(len), access, place));
            }
            Op::Deregister { side, region, is_forced } => {
                if let Some(index) = self.region(side, region) {
                    self.deregister(usize::from(side), index, is_forced);
                }
            }
            Op::AllocMw { side, pd, is_first } => {
                let side = &mut self.sides[usize::from(side)];
                if side.memories.windows.len() < MAX_WINDOWS {
                    let kind = if is_first { WindowType::Type1 } else { WindowType::Type2B };
                    let mw = side.pds[usize::from(pd)].alloc_mw(kind).expect("room for a window");
                    let stag = mw.rkey();
                    side.memories.windows.push(Window { mw, pd: pd.into(), stag, bound: None });
                }
            }
            Op::DeallocMw { side, window } => {
                let windows = &mut self.sides[usize::from(side)].memories.windows;
                if let Some(index) = usize::from(window).checked_rem(windows.len()) {
                    drop(windows.swap_remove(index));
                }
            }
            Op::AllocFast { side, pd, len, only } => {
                self.alloc_fast(usize::from(side), pd.into(), len.into(), only);
            }
            Op::Invalidate { side, region } => {
                if let Some(index) = self.region(side, region) {
                    let memory = &mut self.sides[usize::from(side)].memories.list[index];
                    if let Backing::Mr(mr) = &memory.backing {
                        mr.invalidate();
                        memory.is_invalid = true;
                    }
                }
            }
            Op::Touch { side, region, offset, octets } => {
                if let Some(index) = self.region(side, region) {
                    let memory = &mut self.sides[usize::from(side)].memories.list[index];
                    let at = usize::from(offset);
                    let place = memory.content.get_mut(at..at + octets.len());
                    assert_eq!(memory.backing.write(at, &octets).is_ok(), place.is_some());
                    if let Some(place) = place {
                        place.copy_from_slice(&octets);
                    }
                }
            }
            _ => {}
        }
    }

    fn region(&self, side: bool, choice: u8) -> Option<usize> {
        usize::from(choice).checked_rem(self.sides[usize::from(side)].memories.list.len())
    }

    fn register(&mut self, side: usize, pd: usize, request: (usize, u8, Place)) {
        let (len, bits, place) = request;
        let access = Access::from_bits(bits & 0x1F).expect("these are rights");
        let is_sane = bits & 0x01 != 0 || bits & 0x0A == 0;
        let owner = match place {
            Place::For(qp) => self.sides[side].pick(qp).map(|index| (side, index)),
            _ => None,
        };
        let this = &mut self.sides[side];
        if this.memories.list.len() >= MAX_REGIONS {
            return;
        }
        let mut errors = if is_sane { Vec::new() } else { vec![RegisterError::Access] };
        let owned = || Region::owned(len).expect("memory");
        let registered = match (place, owner) {
            (Place::At(offset), _) => {
                let iova = iova_of(offset);
                if iova.checked_add(len as u64).is_none() {
                    errors.push(RegisterError::Wrap);
                }
                this.pds[pd].register_at(owned(), access, iova)
            }
            (Place::For(_), Some((_, index))) => {
                if this.pairs[index].pd != pd {
                    errors.push(RegisterError::ForeignQp);
                }
                let qp = this.pairs[index].qp.as_ref().expect("a live queue pair");
                this.pds[pd].register_for(qp, len, access)
            }
            (Place::Nowhere, _) => {
                errors.push(RegisterError::OutOfMemory);
                this.pds[pd].register(usize::MAX / 2, access)
            }
            (Place::Address | Place::For(_), _) => this.pds[pd].register(len, access),
        };
        match registered {
            Ok(mr) => {
                assert_eq!(errors, []);
                let (stag, base, is_invalid) = (mr.rkey(), mr.addr(), false);
                let backing = Backing::Mr(mr);
                let content = fill(&backing, stag, len);
                let memory = Memory {
                    backing,
                    stag,
                    base,
                    first: 0,
                    len,
                    pd,
                    access,
                    only: owner,
                    is_invalid,
                    content,
                };
                this.memories.list.push(memory);
            }
            Err(error) => {
                assert!(errors.contains(&error), "{error} instead of {errors:?}");
                self.note(error);
            }
        }
    }

    /// Deregisters a region by a drop, which removes its windows too, or by the call, which refuses if there are
    /// windows.
    fn deregister(&mut self, side: usize, index: usize, is_forced: bool) {
        let memories = &mut self.sides[side].memories;
        let memory = memories.list.swap_remove(index);
        let stag = memory.stag;
        let is_busy = memories.has_windows(stag);
        let Memory { backing: Backing::Mr(mr), .. } = memory else { return };
        if is_forced {
            drop(mr);
            memories.unbind(|bound| bound.region == stag);
            return;
        }
        match mr.deregister() {
            Ok(()) => assert!(!is_busy),
            Err((mr, error)) => {
                assert!(is_busy && error == RegisterError::Busy);
                memories.list.push(Memory { backing: Backing::Mr(mr), ..memory });
                self.note(error);
            }
        }
    }

    fn alloc_fast(&mut self, side: usize, pd: usize, len: usize, only: Option<u8>) {
        let owner = only.and_then(|qp| self.sides[side].pick(qp)).map(|index| (side, index));
        let this = &mut self.sides[side];
        if this.memories.list.len() >= MAX_REGIONS {
            return;
        }
        let is_foreign = owner.is_some_and(|(_, index)| this.pairs[index].pd != pd);
        let made = match owner {
            Some((_, index)) => {
                this.pds[pd].alloc_fast_mr_for(this.pairs[index].qp.as_ref().expect("a live queue pair"), len)
            }
            None => this.pds[pd].alloc_fast_mr(len),
        };
        match made {
            Ok(fast) => {
                assert!(!is_foreign);
                let stag = fast.rkey();
                let backing = Backing::Fast(fast);
                let (access, content) = (Access::LOCAL_READ, fill(&backing, stag, len));
                this.memories.list.push(Memory {
                    backing,
                    stag,
                    base: 0,
                    first: 0,
                    len,
                    pd,
                    access,
                    only: owner,
                    is_invalid: true,
                    content,
                });
            }
            Err(error) => {
                assert!(is_foreign && error == RegisterError::ForeignQp);
                self.note(error);
            }
        }
    }
}

/// Returns the tagged offset of this choice.
pub(super) const fn iova_of(offset: Offset) -> u64 {
    match offset {
        Offset::Zero => 0,
        Offset::Odd => 0x1_0001,
        Offset::FromEnd(distance) => u64::MAX - distance as u64,
    }
}

/// Fills a region with octets that are not zero and differ from those of other regions.
fn fill(backing: &Backing, stag: Stag, len: usize) -> Vec<u8> {
    let salt = stag.0.to_be_bytes()[0];
    let content: Vec<u8> = (1..=255).map(|octet: u8| octet.wrapping_mul(salt | 1)).take(len).collect();
    backing.write(0, &content).expect("the whole region");
    content
}

const MAX_WINDOWS: usize = 4;
const MAX_REGIONS: usize = 8;
