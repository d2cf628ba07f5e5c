//! What wakes a driver thread that stands by.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::drive::ready::poll_for;
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

    /// Sleeps until there is a wake-up, which it takes, `timeout` is over, or a signal of the system comes. The caller
    /// looks again in each case.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        let _woken = poll_for(&poll, &mut [PollFd::new(&self.0, PollFlags::IN)], timeout);
        self.0.clear();
    }
}
