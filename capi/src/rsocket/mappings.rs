//! The list of memory of the program that the peer writes by an offset.

use rustix::io::Errno;
use weft_rnic::Mr;

use super::link::Link;
use super::place::{Mapping, RemotePlace};

/// The mappings of a socket.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    mapped: Vec<Mapped>,
}

#[derive(Debug)]
struct Mapped {
    mr: Mr,
    /// The address that the program knows.
    addr: u64,
    offset: u64,
    /// The entry of the peer's table, if the peer may write.
    index: Option<u16>,
    is_told: bool,
}

impl Mappings {
    /// Reports mappings to the peer that it does not know yet, if there are credits.
    pub(super) fn tell(&mut self, link: &mut Link) {
        for mapped in self.mapped.iter_mut().filter(|mapped| !mapped.is_told) {
            let Some(index) = mapped.index else { continue };
            if !link.can_tell() {
                return;
            }
            let len = u32::try_from(mapped.mr.len()).unwrap_or(u32::MAX);
            let place = RemotePlace { addr: mapped.mr.addr(), key: mapped.mr.rkey(), len };
            link.tell_mapping(index, &Mapping { offset: mapped.offset, place });
            mapped.is_told = true;
        }
    }

    /// Returns the first free entry of the peer's table, which has `most` entries.
    pub(super) fn free_entry(&self, most: u16) -> Option<u16> {
        (0..most).find(|index| !self.mapped.iter().any(|mapped| mapped.index == Some(*index)))
    }

    /// Adds memory. The peer writes it by entry `index` of its table, or not at all.
    pub(super) fn add(&mut self, mr: Mr, addr: u64, offset: u64, index: Option<u16>) {
        self.mapped.push(Mapped { mr, addr, offset, index, is_told: index.is_none() });
    }

    /// # Errors
    /// `EINVAL` for memory that is not mapped.
    pub(super) fn remove(&mut self, addr: u64, len: usize) -> Result<(), Errno> {
        let index = self.mapped.iter().position(|one| one.addr == addr && one.mr.len() == len);
        self.mapped.remove(index.ok_or(Errno::INVAL)?);
        Ok(())
    }

    /// Returns true if the peer knows all mappings.
    pub(super) fn is_told(&self) -> bool {
        self.mapped.iter().all(|mapped| mapped.is_told)
    }
}
