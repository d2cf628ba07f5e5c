//! Descriptors that the surrounding program may close, and of which a child has copies after `fork`.
#![allow(unsafe_code)]

use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use rustix::fs::fstat;

/// A descriptor that its drop does not close if the program has closed it before, as daemons do. Another file may
/// have its number by then.
#[derive(Debug)]
pub struct Held {
    mark: Option<Mark>,
    fd: ManuallyDrop<OwnedFd>,
    file: Option<File>,
}

/// Device and inode. All eventfds have the same inode, but files and sockets have others.
type File = (u64, u64);

/// Marks a descriptor as one that ends with this process. The mark has to be dropped before the descriptor.
#[derive(Debug)]
pub(crate) struct Mark(RawFd);

impl Held {
    /// Holds a descriptor that children may have as well.
    #[must_use]
    pub fn new(fd: OwnedFd) -> Self {
        Self { mark: None, file: file_of(fd.as_fd()), fd: ManuallyDrop::new(fd) }
    }

    /// Holds a descriptor that ends with this process, such as a connection's. [`take_marked`] tells a child to close
    /// it.
    #[must_use]
    pub fn marked(fd: OwnedFd) -> Self {
        let mark = Some(Mark::new(&fd));
        let mut held = Self::new(fd);
        held.mark = mark;
        held
    }
}

impl Mark {
    pub(crate) fn new(fd: &impl AsRawFd) -> Self {
        let mark = Self(fd.as_raw_fd());
        if let Some((word, bit)) = place(mark.0) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        mark
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some((word, bit)) = place(self.0) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Held {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The mark goes before another file can have the number.
        self.mark = None;
        // SAFETY: the only owner ends here, and nothing reads the field any more.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        if self.file.is_none() || file_of(fd.as_fd()) != self.file {
            // The program has closed it. The number is free, or another file's.
            let _number = fd.into_raw_fd();
        }
    }
}

/// Takes the next marked descriptor, for a child to close. It only changes atomic words, so that it may be called
/// between `fork` and `exec` in a process with threads.
#[must_use]
pub fn take_marked() -> Option<RawFd> {
    MARKS.iter().zip(0..).find_map(|(word, index)| {
        let bit = word.load(Ordering::Relaxed).checked_ilog2()?;
        word.fetch_and(!(1 << bit), Ordering::Relaxed);
        RawFd::try_from(64 * index + bit).ok()
    })
}

fn file_of(fd: BorrowedFd<'_>) -> Option<File> {
    fstat(fd).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

/// Descriptors with larger numbers are not marked.
fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((MARKS.get(fd / 64)?, 1 << (fd % 64)))
}

/// A bit for each descriptor.
static MARKS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;
    use std::os::unix::net::UnixStream;

    use rustix::io::read;

    use super::*;

    #[test]
    fn a_descriptor_that_the_program_has_closed_is_left_alone() {
        let (one, other) = UnixStream::pair().unwrap();
        let held = Held::marked(one.into());
        let number = held.as_raw_fd();
        // SAFETY: programs do this. `Held` checks the descriptor before it closes it again.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
        drop(held);
        assert_eq!(read(&other, &mut [0]), Ok(0), "it was closed");
    }

    #[test]
    fn marks_are_those_of_open_descriptors() {
        let (one, other) = UnixStream::pair().unwrap();
        let (held, free) = (Held::marked(one.into()), Held::new(other.into()));
        let (number, free) = (held.as_raw_fd(), free.as_raw_fd());
        let is_marked = |fd| place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0);
        assert!(is_marked(number) && !is_marked(free));
        drop(held);
        assert!(!is_marked(number));
        assert!(place(-1).is_none() && place(RawFd::MAX).is_none());
    }
}
