//! Completion queues and completion channels.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use weft_verbs::{Completion, CompletionQueue, MAX_CQ_ENTRIES, ResizeError};

use crate::config::Progress;
use crate::engine::cq::CqShared;
use crate::error::{CreateError, check_size};
use crate::events::channel::{Channel, ChannelHold};
use crate::ids::CqId;
use crate::objects::device::Device;
use crate::objects::wait::Until;

/// A completion queue. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Cq {
    pub(crate) shared: Arc<CqShared>,
    pub(crate) device: Device,
}

/// Announces completions by a file descriptor that poll and epoll understand; any number of queues may share one.
#[derive(Clone, Debug)]
pub struct CompChannel {
    pub(crate) channel: Arc<Channel<CqId>>,
    pub(crate) device: Device,
}

/// As long as this lives, new events do not make their channel's descriptor readable ([`CompChannel::hold`]).
#[derive(Debug)]
pub struct CompHold<'a> {
    _hold: ChannelHold<'a, CqId>,
}

/// What a completion queue is made with. Start from [`CqInit::new`] and change what differs.
#[derive(Clone, Copy, Debug)]
pub struct CqInit<'a> {
    /// Completions that it holds at least.
    pub entries: u32,
    /// Where its events go.
    pub channel: Option<&'a CompChannel>,
    /// It never is in error: completions that are not polled in time are overwritten, oldest first. For queues that
    /// only count, as those that [`SendOpcode::Wait`](crate::SendOpcode::Wait) looks at. No thread has to poll: the
    /// place of a request in its work queue is free as soon as the request is done.
    pub ignore_overrun: bool,
    /// The engine of all queue pairs that use it. With `Config::engines` more than one, engines work at the same
    /// time, each for its queue pairs.
    pub comp_vector: usize,
}

impl CqInit<'_> {
    /// A queue without a channel that is in error when it is overrun.
    pub const fn new(entries: u32) -> Self {
        Self { entries, channel: None, ignore_overrun: false, comp_vector: 0 }
    }
}

impl Device {
    /// Makes a channel for completion events.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn create_comp_channel(&self) -> io::Result<CompChannel> {
        Ok(CompChannel { channel: Arc::new(Channel::new()?), device: self.clone() })
    }

    /// Makes a completion queue for at least `entries` completions, announced on `channel` if there is one.
    ///
    /// It cannot overrun, whatever the peers do, if it holds the sum of the granted sizes of all send and receive
    /// queues that use it (RFC 5042 section 6.4.3.2): a place there is free again when the completion of its request
    /// has been polled. Completions of destroyed queue pairs take no place: a full queue drops them.
    ///
    /// # Errors
    /// [`CreateError`] when the device holds as many completion queues as its settings allow, the queue is too large,
    /// or the channel is another device's.
    pub fn create_cq(&self, entries: u32, channel: Option<&CompChannel>) -> Result<Cq, CreateError> {
        self.create_cq_with(&CqInit { channel, ..CqInit::new(entries) })
    }

    /// As [`Self::create_cq`], on the engine `comp_vector` ([`CqInit::comp_vector`]).
    ///
    /// # Errors
    /// As [`Self::create_cq`], and when there is no such engine.
    pub fn create_cq_on(
        &self,
        comp_vector: usize,
        entries: u32,
        channel: Option<&CompChannel>,
    ) -> Result<Cq, CreateError> {
        self.create_cq_with(&CqInit { channel, comp_vector, ..CqInit::new(entries) })
    }

    /// Makes a completion queue with all that can be said of one (`ibv_create_cq_ex`).
    ///
    /// # Errors
    /// As [`Self::create_cq_on`].
    pub fn create_cq_with(&self, init: &CqInit<'_>) -> Result<Cq, CreateError> {
        let &CqInit { entries, channel, ignore_overrun, comp_vector } = init;
        self.engines.check_open()?;
        check_size("completions", entries as usize, MAX_CQ_ENTRIES as usize)?;
        if comp_vector >= self.num_comp_vectors() {
            let engines = self.num_comp_vectors();
            return Err(CreateError::NoSuchEngine { comp_vector, engines });
        }
        if channel.is_some_and(|channel| !self.is_same(&channel.device)) {
            return Err(CreateError::ForeignObject);
        }
        let make = |number| CompletionQueue::numbered(number, entries, ignore_overrun);
        let entry = self.engines.registry().add_cq(self.engines.config().max_cqs, channel.is_some(), make);
        let entry = entry.ok_or(CreateError::TooManyCqs)?;
        let (channel, events) =
            (channel.map(|channel| Arc::clone(&channel.channel)), Arc::clone(self.engines.async_events()));
        let shared = Arc::new(CqShared::new(entry, comp_vector, channel, events));
        Ok(Cq { shared, device: self.clone() })
    }
}

impl Cq {
    /// Takes up to `out.len()` completions, oldest first, and returns how many there were. This frees the places of
    /// their requests in the work queues, and of the requests before them that make no completion.
    ///
    /// On a device with manual progress this call drives the engine if the queue is empty. On a device with a driver
    /// thread it does so after a few calls in a row that have found nothing: the program waits by polling, and has
    /// the core that the thread would need.
    pub fn poll(&self, out: &mut [Completion]) -> usize {
        let taken = self.shared.queue.poll(out);
        if taken > 0 {
            self.shared.note_found();
            return taken;
        }
        let drives = match self.device.engines.config().progress {
            Progress::Manual => true,
            Progress::Thread => self.shared.note_vain_poll() >= PATIENT_POLLS,
            Progress::External => false,
        };
        if !drives {
            return 0;
        }
        self.device.engines.progress();
        self.shared.queue.poll(out)
    }

    /// Takes one completion.
    pub fn poll_one(&self) -> Option<Completion> {
        let mut out = [Completion::EMPTY];
        (self.poll(&mut out) == 1).then_some(out[0])
    }

    /// Asks for one event on the queue's channel at the next completion, or at the next solicited or failed one.
    /// Completions that are in the queue already make no event: arm, poll once more, and only then wait.
    pub fn request_notification(&self, solicited_only: bool) {
        self.shared.queue.request_notification(solicited_only);
        // The program is about to sleep, perhaps on a descriptor that the device does not know.
        self.device.engines.motors()[self.shared.engine].lead.end_polls();
    }

    /// Whether a completion was lost because the queue was full. Its queue pairs are brought down then.
    pub fn is_overrun(&self) -> bool {
        self.shared.queue.is_overrun()
    }

    /// Completions that fit.
    pub fn capacity(&self) -> u64 {
        self.shared.queue.capacity()
    }

    /// Gives the queue room for at least `entries` completions, more or fewer than before. No completion is lost or
    /// comes out of order, also while other threads poll and the engine goes on. The memory of a larger queue is kept
    /// for the next time.
    ///
    /// # Errors
    /// [`ResizeError`] when that is too large, or more completions are in the queue; nothing has changed then.
    pub fn resize(&self, entries: u32) -> Result<(), ResizeError> {
        // No engine makes completions while this thread holds the lock.
        let _engine = self.device.engines.at(self.shared.engine);
        self.shared.queue.resize(entries)
    }

    /// Has an event wait for `count` completions since the last one, or until `period` of the engine's time has
    /// passed since the first of them, whichever comes first (`ibv_modify_cq`). With a count of 0 only the period
    /// matters, with a period of 0 only the count, and with both 0 or a count of 1 no event waits. Polling does not
    /// change what an event waits for.
    pub fn modify_moderation(&self, count: u16, period: weft_netif::Duration) {
        let mut engine = self.device.engines.at(self.shared.engine);
        self.shared.queue.set_moderation(count.into(), period.total_micros());
        engine.announce_cq(&self.shared, self.device.engines.now());
        drop(engine);
        self.device.engines.kick();
    }

    /// The number by which [`SendOpcode::Wait`](crate::SendOpcode::Wait) names this queue.
    pub fn number(&self) -> u32 {
        self.shared.id.number()
    }

    /// The name by which a channel announces this queue.
    pub fn id(&self) -> CqId {
        self.shared.id
    }
}

impl CompChannel {
    /// The next announced queue, without waiting.
    pub fn next(&self) -> Option<CqId> {
        if let Some(id) = self.channel.pop() {
            return Some(id);
        }
        self.device.assist();
        self.channel.pop()
    }

    /// Throws away the announcements of one queue.
    pub fn discard(&self, cq: CqId) {
        self.channel.take_all(|&waiting| waiting == cq);
    }

    /// Has events be taken by [`Self::next`] only, without the two system calls that make the descriptor readable and
    /// unreadable again for each. Those that are left when this is dropped make it readable then.
    ///
    /// It is for a thread that drives the engine and takes at once what that brings ([`Device::wait_until`]): another
    /// thread that sleeps on the descriptor sleeps on.
    #[must_use]
    pub fn hold(&self) -> CompHold<'_> {
        CompHold { _hold: self.channel.hold() }
    }

    /// Blocks until a queue is announced, at most for `timeout`, and returns it.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<CqId> {
        self.wait_until(Until::timeout(timeout))
    }

    /// As [`Self::wait`], as long as `until` says.
    pub fn wait_until(&self, until: Until<'_>) -> Option<CqId> {
        let hold = || self.channel.hold();
        self.device.wait_until(self.channel.as_fd(), until, hold, || self.channel.pop())
    }
}

impl AsFd for CompChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl AsRawFd for CompChannel {
    /// For runtimes that take a bare number; it is open for as long as the channel lives.
    fn as_raw_fd(&self) -> RawFd {
        self.channel.as_fd().as_raw_fd()
    }
}

/// Polls that find nothing on the way into a wait.
const PATIENT_POLLS: u32 = 4;
