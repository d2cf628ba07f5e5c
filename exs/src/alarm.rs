//! What wakes a thread that waits for an operation.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};

/// A descriptor that becomes readable when a task of the thread is woken.
#[derive(Debug)]
pub(crate) struct Alarm(OwnedFd);

impl Alarm {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Makes it not readable any more.
    pub(crate) fn clear(&self) {
        // It fails only if it is not readable.
        let _cleared = read(&self.0, &mut [0; 8]);
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It refuses only when its counter is at the top. Then it is readable already.
        let _readable = write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
