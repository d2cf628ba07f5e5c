//! Descriptors of this library's own in the program's table.

use core::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::fstat;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

use crate::real;

/// A descriptor that stays open as long as the program lets it.
///
/// It stands above three quarters of the numbers that the process may use, out of the way of the lowest free ones. A program
/// that closes all descriptors closes this one, too, and may open its own file in that place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    number: c_int,
    inode: u64,
}

impl Own {
    /// Moves a descriptor out of the way.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn new(low: OwnedFd) -> Result<Self, Errno> {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(HIGHEST).min(HIGHEST);
        let least = c_int::try_from(limit / 4 * 3).unwrap_or(0);
        let high = fcntl_dupfd_cloexec(&low, least)?;
        let inode = fstat(&high)?.st_ino;
        let number = high.as_raw_fd();
        core::mem::forget(high);
        Ok(Self { number, inode })
    }

    /// Returns the descriptor, if the program has not closed it.
    pub(crate) fn borrow(&self) -> Option<BorrowedFd<'static>> {
        let descriptor = real::borrow(self.number);
        (fstat(descriptor).ok()?.st_ino == self.inode).then_some(descriptor)
    }
}

/// Numbers from here on cost the kernel memory for its own table.
const HIGHEST: u64 = 4096;
