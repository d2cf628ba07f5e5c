//! Completion queues and completion channels.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use weft_verbs::{Completion, CompletionQueue};

use crate::channel::Channel;
use crate::device::Device;

/// A completion queue. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Cq {
    pub(crate) shared: Arc<CqShared>,
    pub(crate) device: Device,
}

/// What the engine and the application share of a completion queue.
#[derive(Debug)]
pub(crate) struct CqShared {
    pub(crate) id: CqId,
    pub(crate) queue: Arc<CompletionQueue>,
    pub(crate) channel: Option<Arc<Channel<CqId>>>,
    /// The engine has seen that the queue is overrun.
    pub(crate) overrun_seen: AtomicBool,
    /// The device's completion queues, this one among them.
    pub(crate) count: Arc<AtomicUsize>,
}

impl Drop for CqShared {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Names a completion queue in the events of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CqId(pub(crate) u64);

/// Announces completions by a file descriptor that poll and epoll understand; any number of queues may share one.
#[derive(Clone, Debug)]
pub struct CompChannel {
    pub(crate) channel: Arc<Channel<CqId>>,
    pub(crate) device: Device,
}

impl Cq {
    /// Takes up to `out.len()` completions, oldest first, and answers how many there were. On a device with manual
    /// progress an empty queue makes this call drive the engine.
    pub fn poll(&self, out: &mut [Completion]) -> usize {
        let taken = self.shared.queue.poll(out);
        if taken > 0 || !self.device.is_manual() {
            return taken;
        }
        self.device.progress();
        self.shared.queue.poll(out)
    }

    /// Takes one completion.
    pub fn poll_one(&self) -> Option<Completion> {
        let mut out = [EMPTY];
        (self.poll(&mut out) == 1).then_some(out[0])
    }

    /// Asks for one event on the queue's channel at the next completion, or at the next solicited or failed one. What is
    /// in the queue already makes no event: arm, poll once more, and only then wait.
    pub fn request_notification(&self, solicited_only: bool) {
        self.shared.queue.request_notification(solicited_only);
    }

    /// Whether a completion was lost because the queue was full. Its queue pairs are brought down then.
    pub fn is_overrun(&self) -> bool {
        self.shared.queue.is_overrun()
    }

    /// Completions that fit.
    pub fn capacity(&self) -> u64 {
        self.shared.queue.capacity()
    }

    /// The name by which a channel announces this queue.
    pub fn id(&self) -> CqId {
        self.shared.id
    }
}

impl CqShared {
    /// Whether the queue was overrun since the last call.
    pub(crate) fn is_newly_overrun(&self) -> bool {
        self.queue.is_overrun() && !self.overrun_seen.swap(true, Ordering::AcqRel)
    }

    /// Tells the channel, if a notification was asked for and is due.
    pub(crate) fn announce(&self) {
        if self.queue.take_event()
            && let Some(channel) = &self.channel
        {
            channel.push(self.id);
        }
    }
}

impl CompChannel {
    /// The next announced queue, without waiting.
    pub fn next(&self) -> Option<CqId> {
        if let Some(id) = self.channel.pop() {
            return Some(id);
        }
        if self.device.is_manual() {
            self.device.progress();
        }
        self.channel.pop()
    }

    /// The next announced queue; waits for it, with `timeout` at most so long.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<CqId> {
        self.device.wait_for(self.channel.as_fd(), timeout, || self.channel.pop())
    }
}

impl AsFd for CompChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

const EMPTY: Completion = Completion {
    wr_id: 0,
    status: weft_verbs::Status::General,
    opcode: weft_verbs::CompletionOpcode::Send,
    byte_len: 0,
    invalidated: None,
    immediate: None,
    qp_num: 0,
    vendor_err: 0,
    solicited: false,
    timestamp: 0,
};
