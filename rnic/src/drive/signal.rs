//! What wakes a driver thread that stands by.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::drive::ready::wait_ready;
use crate::events::channel::Wakeup;

/// A wake-up for one thread. It is kept until the thread sleeps.
#[derive(Debug)]
pub(crate) struct Signal(Wakeup);

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        Wakeup::new().map(Self)
    }

    pub(crate) fn wake(&self) {
        self.0.wake();
    }

    /// Sleeps until there is a wake-up, which it takes, or `timeout` is over.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        wait_ready(&mut [PollFd::new(&self.0.as_fd(), PollFlags::IN)], timeout);
        self.0.clear();
    }
}
