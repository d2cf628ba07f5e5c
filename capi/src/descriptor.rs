//! The descriptor that a program sees of a channel.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use weft_netif::Held;

/// A descriptor that is readable exactly while one of those below it is. It is an open file of its own: by its
/// O_NONBLOCK the program decides whether calls wait, and the descriptors below never block.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: Held,
}

impl Descriptor {
    /// # Errors
    /// When the system has no file descriptor left.
    pub(crate) fn over(below: &[BorrowedFd<'_>]) -> Result<Self, Errno> {
        let fd = create(CreateFlags::CLOEXEC)?;
        for &one in below {
            add(&fd, one, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Self { fd: Held::new(fd) })
    }

    /// Returns the number, for C.
    pub(crate) fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Returns whether the program wants EAGAIN instead of waiting.
    ///
    /// # Errors
    /// `EBADF` if the program has closed the descriptor.
    pub(crate) fn is_nonblocking(&self) -> Result<bool, Errno> {
        Ok(fcntl_getfl(self.fd.as_fd())?.contains(OFlags::NONBLOCK))
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
    use rustix::fs::fcntl_setfl;
    use rustix::io::{read, write};

    use super::*;

    fn readable(descriptor: &Descriptor) -> bool {
        let mut fds = [PollFd::new(&descriptor.fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn a_descriptor_is_readable_like_those_below_and_blocks_by_choice() {
        let below = [0, 1].map(|_| eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE).unwrap());
        let descriptor = Descriptor::over(&[below[0].as_fd(), below[1].as_fd()]).unwrap();
        assert!(!readable(&descriptor));
        write(&below[1], &2_u64.to_ne_bytes()).unwrap();
        for _ in 0..2 {
            assert!(readable(&descriptor));
            read(&below[1], &mut [0; 8]).unwrap();
        }
        assert!(!readable(&descriptor));
        assert_eq!(descriptor.is_nonblocking(), Ok(false));
        fcntl_setfl(&descriptor.fd, OFlags::NONBLOCK).unwrap();
        assert_eq!(descriptor.is_nonblocking(), Ok(true));
    }
}
