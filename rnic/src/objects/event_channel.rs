//! Where events of connection management go.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use crate::events::channel::Channel;
use crate::events::connection::{CmEvent, News, Notice};
use crate::objects::device::Device;
use crate::objects::wait::Until;

/// A queue of connection events of one device, with a file descriptor that poll and epoll understand.
#[derive(Clone, Debug)]
pub struct EventChannel {
    pub(crate) channel: Arc<Channel<Notice>>,
    pub(crate) device: Device,
}

/// A queue of connection events of any number of devices, which [`Device::events_on`] leads there. Its file
/// descriptor is readable exactly while a notice waits. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct EventQueue {
    pub(crate) channel: Arc<Channel<Notice>>,
}

impl Device {
    /// Makes a channel for connection events.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn create_event_channel(&self) -> io::Result<EventChannel> {
        Ok(self.events_on(&EventQueue::new()?))
    }

    /// The channel whose events go to `queue`, which may serve other devices too.
    pub fn events_on(&self, queue: &EventQueue) -> EventChannel {
        EventChannel { channel: Arc::clone(&queue.channel), device: self.clone() }
    }
}

impl EventChannel {
    /// The next event, without waiting.
    pub fn next(&self) -> Option<CmEvent> {
        if let Some(event) = self.pop() {
            return Some(event);
        }
        self.device.assist();
        self.pop()
    }

    /// Blocks until there is an event, at most for `timeout`, and returns it.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<CmEvent> {
        self.device.wait_until(
            self.channel.as_fd(),
            Until::timeout(timeout),
            || self.channel.hold(),
            || self.pop(),
        )
    }

    /// The next event of a device. Notices that the application has posted are thrown away.
    fn pop(&self) -> Option<CmEvent> {
        loop {
            if let News::Event(event) = self.channel.pop()?.news {
                return Some(event);
            }
        }
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl AsRawFd for EventChannel {
    /// For runtimes that take a bare number; it is open for as long as the channel lives.
    fn as_raw_fd(&self) -> RawFd {
        self.channel.as_fd().as_raw_fd()
    }
}

impl EventQueue {
    /// An empty queue.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { channel: Arc::new(Channel::new()?) })
    }

    /// The next notice, without waiting and without driving a device.
    pub fn pop(&self) -> Option<Notice> {
        self.channel.pop()
    }

    /// Puts a notice of the application's own at the end of the queue.
    pub fn post(&self, id: u64, code: u32) {
        self.channel.push(Notice { id, news: News::Posted(code) });
    }

    /// Takes all notices with this name away.
    pub fn discard(&self, id: u64) {
        self.channel.take_all(|notice| notice.id == id);
    }

    /// Blocks until `take` returns a value, and returns that. Meanwhile it sleeps on the descriptor, and drives
    /// `devices` unless other threads do.
    pub fn wait_for<T>(
        &self,
        devices: &[Device],
        until: Until<'_>,
        take: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        Device::wait_on(devices, self.channel.as_fd(), until, || self.channel.hold(), take)
    }
}

impl AsFd for EventQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
