//! Memory of the program that the peer writes by an offset (`riomap`).

use rustix::io::Errno;
use weft_rnic::{Access, Mr, Region};

use super::link::Link;
use super::place::{Mapping, Place};
use super::socket::Socket;
use super::state::Phase;
use crate::errno::errno;

/// The mappings of a socket.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    mapped: Vec<Mapped>,
}

#[derive(Debug)]
struct Mapped {
    mr: Mr,
    /// The address at which the program has it.
    addr: u64,
    offset: u64,
    /// The entry of the peer's table, for what the peer may write.
    index: Option<u16>,
    is_told: bool,
}

impl Mappings {
    /// Tells the peer of those that it does not know, as far as it can be told.
    pub(super) fn tell(&mut self, link: &mut Link) {
        for mapped in self.mapped.iter_mut().filter(|mapped| !mapped.is_told) {
            let Some(index) = mapped.index else { continue };
            if !link.can_tell() {
                return;
            }
            let len = u32::try_from(mapped.mr.len()).unwrap_or(u32::MAX);
            let place = Place { addr: mapped.mr.addr(), key: mapped.mr.rkey(), len };
            link.tell_mapping(index, &Mapping { offset: mapped.offset, place });
            mapped.is_told = true;
        }
    }

    /// Whether the peer knows all.
    pub(super) fn is_told(&self) -> bool {
        self.mapped.iter().all(|mapped| mapped.is_told)
    }
}

impl Socket {
    /// Maps memory, for the peer to write if it `is_remote`, and answers the offset: `offset`, or its address. The peer hears of it before
    /// the next octets that are sent.
    ///
    /// # Errors
    /// `EINVAL` without a connection, `ENOMEM` when the peer holds no more.
    pub(crate) fn map(&self, region: Region, is_remote: bool, offset: Option<u64>) -> Result<u64, Errno> {
        let mut core = self.lock();
        if core.phase != Phase::Connected {
            return Err(Errno::INVAL);
        }
        let most = core.link()?.peer_mappings();
        let is_free = |index: &u16| !core.mappings.mapped.iter().any(|mapped| mapped.index == Some(*index));
        let index = if is_remote { Some((0..most).find(is_free).ok_or(Errno::NOMEM)?) } else { None };
        let addr = region.address();
        let offset = offset.unwrap_or(addr);
        let remote = if is_remote { Access::REMOTE_WRITE } else { Access::LOCAL_READ };
        let access = Access::LOCAL_WRITE | remote;
        let mr = core.link()?.pd.register_at(region, access, addr).map_err(|error| errno(error.errno()))?;
        core.mappings.mapped.push(Mapped { mr, addr, offset, index, is_told: !is_remote });
        Ok(offset)
    }

    /// Takes a mapping back. The peer is not told; what it writes there ends the connection.
    ///
    /// # Errors
    /// `EINVAL` for what is not mapped.
    pub(crate) fn unmap(&self, addr: u64, len: usize) -> Result<(), Errno> {
        let mut core = self.lock();
        let mapped = &mut core.mappings.mapped;
        let index = mapped.iter().position(|one| one.addr == addr && one.mr.len() == len);
        mapped.remove(index.ok_or(Errno::INVAL)?);
        Ok(())
    }

    /// Waits until a connection stands, for calls that want one and do not wait otherwise.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`.
    pub(crate) fn stand(&self) -> Result<(), Errno> {
        self.settle(self.lock(), self.patience(true)).map(drop)
    }
}
