//! Descriptors of this library's own in the program's table.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

use crate::{calls, real};

/// A descriptor that stays open as long as the program lets it.
///
/// It stands above three quarters of the numbers that the process may use, out of the way of the lowest free ones. A program
/// that closes all descriptors closes this one, too, and may open its own file in that place. No hook sees a system call
/// that it makes by itself: so the open file has a mark, and each use looks for that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    number: c_int,
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
        calls::set_signal(high.as_raw_fd(), MARK).map_err(Errno::from_raw_os_error)?;
        Ok(Self { number: high.into_raw_fd() })
    }

    /// Returns the descriptor, if the program has not closed it.
    #[inline]
    pub(crate) fn borrow(&self) -> Option<BorrowedFd<'static>> {
        (calls::signal(self.number) == Ok(MARK)).then(|| real::borrow(self.number))
    }

    /// Closes the descriptor, if the program has not done so.
    pub(crate) fn close(self) {
        if self.borrow().is_some() {
            real::close(self.number);
        }
    }
}

/// A place for a descriptor of this library's own that comes and goes.
///
/// A thread that looks while another one changes the place may see none.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The descriptor plus 1, or 0.
    number: AtomicU32,
}

impl Place {
    /// An empty place.
    pub(crate) const fn new() -> Self {
        Self { number: AtomicU32::new(0) }
    }

    /// Puts a descriptor into the place, and closes the one before.
    pub(crate) fn put(&self, own: Own) {
        self.close();
        self.number.store(own.number.cast_unsigned() + 1, Ordering::Release);
    }

    /// Closes what is in the place.
    pub(crate) fn close(&self) {
        if let Some(own) = self.take() {
            own.close();
        }
    }

    /// Empties the place and leaves the descriptor open.
    pub(crate) fn take(&self) -> Option<Own> {
        let number = self.number.swap(0, Ordering::AcqRel).checked_sub(1)?;
        Some(Own { number: number.cast_signed() })
    }

    /// Returns the descriptor, if there is one and the program has not closed it.
    pub(crate) fn borrow(&self) -> Option<BorrowedFd<'static>> {
        let number = self.number.load(Ordering::Acquire).checked_sub(1)?;
        Own { number: number.cast_signed() }.borrow()
    }
}

/// The mark: the signal that the kernel would send for input. No file of this library's asks for signals, and hardly any
/// program chooses this one.
const MARK: c_int = 63;
/// Numbers from here on cost the kernel memory for its own table.
const HIGHEST: u64 = 4096;
