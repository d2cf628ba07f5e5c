//! The channel of a device's asynchronous events.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::events::asynchronous::{AsyncEvent, AsyncQueue};
use crate::objects::device::Device;
use crate::objects::wait::Until;

/// The asynchronous events of a device. All handles take from the same queue: an event goes to the first that asks.
///
/// An event that waits already is not queued again, and events of an object that is destroyed are withdrawn. So there
/// are never more than a few for each object, even if the application reads none.
#[derive(Clone, Debug)]
pub struct AsyncChannel {
    device: Device,
}

impl Device {
    /// The channel of the device's asynchronous events.
    pub fn async_channel(&self) -> AsyncChannel {
        AsyncChannel { device: self.clone() }
    }
}

impl AsyncChannel {
    /// The next event, without waiting.
    pub fn next(&self) -> Option<AsyncEvent> {
        let queue = self.queue();
        if let Some(event) = queue.pop() {
            return Some(event);
        }
        self.device.assist();
        queue.pop()
    }

    /// Blocks until there is an event, at most for `timeout`, and returns it.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<AsyncEvent> {
        self.device.wait_until(self.as_fd(), Until::timeout(timeout), || (), || self.queue().pop())
    }

    fn queue(&self) -> &AsyncQueue {
        self.device.engines.async_events()
    }
}

impl AsFd for AsyncChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue().as_fd()
    }
}
