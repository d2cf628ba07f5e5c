//! The operations on memory, in both worlds.

use weft_rnic::{Access, Region, RegisterError};

use super::memory::Memory;
use super::ops::{Offset, Op, Place};
use super::world::World;

impl World {
    pub(super) fn apply_to_memory(&mut self, op: &Op) {
        match *op {
            Op::Register { side, pd, len, access, place } => {
                self.register(usize::from(side), usize::from(pd), (usize::from(len), access, place));
            }
            Op::Deregister { side, region } => {
                if let Some(index) = self.region(side, region) {
                    drop(self.sides[usize::from(side)].memories.list.swap_remove(index));
                }
            }
            Op::Invalidate { side, region } => {
                if let Some(index) = self.region(side, region) {
                    let memory = &mut self.sides[usize::from(side)].memories.list[index];
                    memory.mr.invalidate();
                    memory.is_invalid = true;
                }
            }
            Op::Touch { side, region, offset, octets } => {
                if let Some(index) = self.region(side, region) {
                    let memory = &mut self.sides[usize::from(side)].memories.list[index];
                    let at = usize::from(offset);
                    let place = memory.content.get_mut(at..at + octets.len());
                    assert_eq!(memory.mr.write(at, &octets).is_ok(), place.is_some());
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
        let rights = [Access::LOCAL_WRITE, Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC];
        let chosen = rights.iter().enumerate().filter(|(bit, _)| bits & 1 << bit != 0);
        let access = chosen.fold(Access::LOCAL_READ, |access, (_, &right)| access | right);
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
                let iova = match offset {
                    Offset::Zero => 0,
                    Offset::Odd => 0x1_0001,
                    Offset::FromEnd(distance) => u64::MAX - u64::from(distance),
                };
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
                // No two regions look alike, and nothing in them is zero.
                let salt = mr.rkey().0.to_be_bytes()[0];
                let content: Vec<u8> =
                    (1..=255).map(|octet: u8| octet.wrapping_mul(salt | 1)).take(len).collect();
                mr.write(0, &content).expect("the whole region");
                this.memories.list.push(Memory { mr, pd, access, only: owner, is_invalid: false, content });
            }
            Err(error) => {
                assert!(errors.contains(&error), "{error} instead of {errors:?}");
                self.note(error);
            }
        }
    }
}

const MAX_REGIONS: usize = 8;
