//! Event channels.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use weft_rnic::{EventQueue, Until};

use crate::core::{ChannelInner, Event, Manager};
use crate::error::Error;

/// A queue of events with a file descriptor that poll and epoll understand: readable exactly while an event waits.
/// Clones are handles to the same one; any number of threads may wait on it.
#[derive(Clone, Debug)]
pub struct EventChannel {
    pub(crate) inner: Arc<ChannelInner>,
}

impl EventChannel {
    pub(crate) fn new(manager: &Arc<Manager>) -> Result<Self, Error> {
        let queue = EventQueue::new().map_err(|error| {
            Error::System(error.raw_os_error().map_or(Errno::MFILE, Errno::from_raw_os_error))
        })?;
        let inner = ChannelInner { queue, manager: Arc::clone(manager), order: Mutex::new(()) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the next event, without waiting. Drives the devices whose progress is manual if there is none.
    pub fn next(&self) -> Option<Event> {
        if let Some(event) = self.inner.take() {
            return Some(event);
        }
        self.inner.manager.devices().iter().for_each(weft_rnic::Device::assist);
        self.inner.take()
    }

    /// Waits for the next event and returns it. With `timeout` it waits at most so long, in real time. Drives the
    /// devices whose progress is manual meanwhile; one on virtual time has to be driven by another thread.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<Event> {
        self.wait_until(Until::timeout(timeout))
    }

    /// As [`Self::wait`], but until `until`.
    pub fn wait_until(&self, until: Until<'_>) -> Option<Event> {
        let devices = self.inner.manager.devices();
        self.inner.queue.wait_for(&devices, until, || self.inner.take())
    }
}

impl ChannelInner {
    /// Keeps all other threads from taking events.
    pub(crate) fn lock_order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next event that means something to an id.
    fn take(&self) -> Option<Event> {
        let _order = self.lock_order();
        loop {
            if let Some(event) = self.manager.deliver(self.queue.pop()?) {
                return Some(event);
            }
        }
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.queue.as_fd()
    }
}

impl AsRawFd for EventChannel {
    /// Returns the bare number, for runtimes and C. It is open for as long as the channel lives.
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
