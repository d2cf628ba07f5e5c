//! Maps memory of the program that the peer writes by an offset (`riomap`).

use rustix::io::Errno;
use weft_rnic::{Access, Region};

use super::socket::Socket;
use super::state::Phase;
use crate::errno::errno;

impl Socket {
    /// Maps memory, for the peer to write if `is_remote`. Returns the offset: `offset`, or the address. The peer
    /// learns of it before the next octets.
    ///
    /// # Errors
    /// `EINVAL` without a connection, `ENOMEM` if the peer can hold no more mappings.
    pub(crate) fn map(&self, region: Region, is_remote: bool, offset: Option<u64>) -> Result<u64, Errno> {
        let mut core = self.lock();
        if core.phase != Phase::Connected {
            return Err(Errno::INVAL);
        }
        let most = core.link()?.peer_mappings();
        let index = if is_remote { Some(core.mappings.free_entry(most).ok_or(Errno::NOMEM)?) } else { None };
        let addr = region.address();
        let offset = offset.unwrap_or(addr);
        let remote = if is_remote { Access::REMOTE_WRITE } else { Access::LOCAL_READ };
        let access = Access::LOCAL_WRITE | remote;
        let mr = core.link()?.pd.register_at(region, access, addr).map_err(|error| errno(error.errno()))?;
        core.mappings.add(mr, addr, offset, index);
        Ok(offset)
    }

    /// Unmaps memory. The peer gets no message, and a later Write of the peer ends the connection.
    ///
    /// # Errors
    /// `EINVAL` for memory that is not mapped.
    pub(crate) fn unmap(&self, addr: u64, len: usize) -> Result<(), Errno> {
        self.lock().mappings.remove(addr, len)
    }

    /// Blocks until the connection is established.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`.
    pub(crate) fn stand(&self) -> Result<(), Errno> {
        self.settle(self.lock(), self.patience(true)).map(drop)
    }
}
