//! Descriptors of this library's own in the program's table.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

use crate::{calls, procfs, real};

/// A descriptor that stays open as long as the program lets it.
///
/// It stands above three quarters of the numbers that the process may use, out of the way of the lowest free ones. A program
/// that closes all descriptors closes this one, too, and may open its own file in that place. No hook sees a system call
/// that it makes by itself. So each use looks whether the number still shows the same file.
///
/// The word has the number, a bit for a [doorbell](Self::bell), and the [identity](identity) of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own(u64);

impl Own {
    /// Moves a descriptor out of the way.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn new(low: OwnedFd) -> Result<Self, Errno> {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(HIGHEST).min(HIGHEST);
        let least = c_int::try_from(limit / 4 * 3).unwrap_or(0);
        let high = fcntl_dupfd_cloexec(&low, least)?;
        let number = u64::try_from(high.as_raw_fd()).ok().filter(|number| *number <= NUMBER);
        let word = PRESENT | identity(high.as_fd())? | number.ok_or(Errno::MFILE)?;
        let _stays_open = high.into_raw_fd();
        Ok(Self(word))
    }

    /// As [`new`](Self::new), for a descriptor that is used at each sleep. The open file gets a mark, which the kernel
    /// tells faster than what the file is.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn bell(low: OwnedFd) -> Result<Self, Errno> {
        let own = Self::new(low)?;
        let _slower_without = calls::set_signal(own.number(), MARK);
        Ok(Self(own.0 | MARKED))
    }

    /// Returns the descriptor, if the program has not closed it.
    #[inline]
    pub(crate) fn borrow(&self) -> Option<BorrowedFd<'static>> {
        let is_marked = self.0 & MARKED != 0;
        if is_marked && calls::signal(self.number()) == Ok(MARK) {
            return Some(real::borrow(self.number()));
        }
        self.is_same().then(|| {
            if is_marked {
                // Another process that has the open file has taken the mark away.
                let _slower_without = calls::set_signal(self.number(), MARK);
            }
            real::borrow(self.number())
        })
    }

    /// Closes the descriptor, if the program has not done so.
    pub(crate) fn close(self) {
        if self.is_same() {
            real::close(self.number());
        }
    }

    /// True if the number still shows the same file.
    #[cold]
    fn is_same(&self) -> bool {
        identity(real::borrow(self.number())) == Ok(self.0 & IDENTITY)
    }

    #[inline]
    fn number(&self) -> c_int {
        c_int::try_from(self.0 & NUMBER).unwrap_or(0)
    }
}

/// Tells files apart by what no other process can change: a socket and a piece of memory by the inode, and eventfds, which
/// have one inode together, by the number that the kernel gives each.
fn identity(descriptor: BorrowedFd<'_>) -> Result<u64, Errno> {
    let stat = fstat(descriptor)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let is_nameless = !matches!(kind, FileType::Socket | FileType::RegularFile);
    let event = is_nameless.then(|| procfs::eventfd(descriptor.as_raw_fd())).flatten().unwrap_or(0);
    let mix = |word: u64, more: u64| (word ^ more).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    Ok(mix(mix(mix(0, stat.st_dev), stat.st_ino), event) & IDENTITY)
}

/// A place for a descriptor of this library's own that comes and goes.
///
/// A thread that looks while another one changes the place may see none.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The descriptor, or 0.
    own: AtomicU64,
}

impl Place {
    /// An empty place.
    pub(crate) const fn new() -> Self {
        Self { own: AtomicU64::new(0) }
    }

    /// Puts a descriptor into the place, and closes the one before.
    pub(crate) fn put(&self, own: Own) {
        self.close();
        self.own.store(own.0, Ordering::Release);
    }

    /// Closes what is in the place.
    pub(crate) fn close(&self) {
        if let Some(own) = self.take() {
            own.close();
        }
    }

    /// Empties the place and leaves the descriptor open.
    pub(crate) fn take(&self) -> Option<Own> {
        let word = self.own.swap(0, Ordering::AcqRel);
        (word != 0).then_some(Own(word))
    }

    /// Returns the descriptor, if there is one and the program has not closed it.
    #[inline]
    pub(crate) fn borrow(&self) -> Option<BorrowedFd<'static>> {
        let word = self.own.load(Ordering::Acquire);
        if word == 0 { None } else { Own(word).borrow() }
    }
}

/// The mark: the signal that the kernel would send for input. No file of this library's asks for signals, and hardly any
/// program chooses this one.
const MARK: c_int = 63;
/// Numbers from here on cost the kernel memory for its own table.
const HIGHEST: u64 = 4096;
/// The parts of the word.
const NUMBER: u64 = (1 << 24) - 1;
const MARKED: u64 = 1 << 24;
const PRESENT: u64 = 1 << 25;
const IDENTITY: u64 = u64::MAX << 26;

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};
    use weft_sockets::Status;

    use super::*;
    use crate::family;

    fn eventfds() -> OwnedFd {
        eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd")
    }

    fn memory() -> OwnedFd {
        Status::create().expect("memory").0
    }

    #[test]
    fn a_process_that_has_a_file_too_does_not_hide_it() {
        let files = [(eventfds(), Own::bell as fn(_) -> _), (memory(), Own::new)];
        for (file, make) in files {
            let own = make(file.try_clone().expect("a descriptor")).expect("an own one");
            // The open file is the same in the other process.
            calls::set_signal(file.as_raw_fd(), 0).expect("a file");
            assert!(own.borrow().is_some());
            calls::set_signal(file.as_raw_fd(), 0).expect("a file");
            own.close();
            assert!(own.borrow().is_none(), "it is closed");
        }
    }

    #[test]
    fn another_file_in_the_place_of_an_own_one_is_left_alone() {
        let _turn = family::turn();
        for (first, second) in [(memory(), memory()), (memory(), eventfds()), (eventfds(), eventfds())] {
            let own = Own::new(first).expect("an own one");
            let number = own.borrow().expect("it is there").as_raw_fd();
            real::close(number);
            let other = fcntl_dupfd_cloexec(&second, number).expect("a descriptor");
            assert_eq!(other.as_raw_fd(), number, "another test took the number");
            calls::set_signal(number, MARK).expect("a file");
            assert!(own.borrow().is_none());
            own.close();
            assert!(fstat(&other).is_ok());
        }
    }
}
