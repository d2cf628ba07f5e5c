//! The half of a queue pair that the application holds: both queues and the state.

use crate::ids::StreamId;
use crate::recv_queue::RecvQueue;
use crate::send_queue::SendQueue;
use crate::state::{QpEvent, QpState};
use crate::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
use crate::work::{PostError, RecvWr, SendWr};

/// What a queue pair can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpCapacity {
    /// Requests in the send queue.
    pub send_wr: u32,
    /// Requests in the receive queue.
    pub recv_wr: u32,
    /// Scatter-gather elements of a send request, at most [`crate::MAX_SGE`].
    pub send_sge: usize,
    /// Scatter-gather elements of a receive request, at most [`crate::MAX_SGE`].
    pub recv_sge: usize,
    /// Inline octets of a send request, at most [`crate::MAX_INLINE`].
    pub inline: usize,
}

impl Default for QpCapacity {
    fn default() -> Self {
        Self { send_wr: 128, recv_wr: 128, send_sge: 4, recv_sge: 4, inline: 64 }
    }
}

/// The queues and the state of a queue pair, shared by the application and the engine.
#[derive(Debug)]
pub struct QpQueues {
    /// The queue pair number.
    pub number: u32,
    /// The stream, which lives as long as the queue pair.
    pub stream: StreamId,
    /// Whether it knows Atomics and Immediate Data (RFC 7306).
    pub extensions: bool,
    /// The send queue.
    pub send: SendQueue,
    /// The receive queue.
    pub recv: RecvQueue,
    /// Receives come from a shared receive queue, and cannot be posted here.
    pub has_srq: bool,
    as_infiniband: AtomicBool,
    state: AtomicU8,
    /// A message waits for a receive.
    is_recv_awaited: AtomicBool,
}

impl QpQueues {
    /// Makes queues of the given sizes, in the state Idle.
    pub fn new(number: u32, capacity: &QpCapacity) -> Self {
        Self {
            number,
            stream: StreamId::unique(),
            extensions: true,
            send: SendQueue::new(capacity.send_wr, capacity.send_sge, capacity.inline),
            recv: RecvQueue::new(capacity.recv_wr, capacity.recv_sge),
            has_srq: false,
            as_infiniband: AtomicBool::new(false),
            state: AtomicU8::new(QpState::Idle as u8),
            is_recv_awaited: AtomicBool::new(false),
        }
    }

    /// Posts to the send queue, as far as the state allows.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post_send(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        self.post_sends(core::slice::from_ref(wr)).map_err(|(_none, error)| error)
    }

    /// Posts several requests, with one doorbell: all of them, or those before the first that is refused.
    ///
    /// # Errors
    /// The number of requests that were queued, and why the next one was not.
    #[inline]
    pub fn post_sends(&self, wrs: &[SendWr<'_>]) -> Result<(), (usize, PostError)> {
        let unknown = |wr: &SendWr<'_>| wr.opcode.is_extension() && !self.extensions;
        let known = wrs.iter().position(unknown).unwrap_or(wrs.len());
        if known > 0 && !self.as_infiniband() && !self.state().takes_sends() {
            return Err((0, PostError::InvalidState));
        }
        self.send.post_all(&wrs[..known])?;
        if known < wrs.len() { Err((known, PostError::Unsupported)) } else { Ok(()) }
    }

    /// Posts to the receive queue. Every state takes receives, and flushes them if no message can come any more.
    /// Returns whether the doorbell is to be rung: for a request that is to be flushed or awaited. Else the engine
    /// looks by itself when a message comes.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post_recv(&self, wr: &RecvWr<'_>) -> Result<bool, PostError> {
        let (rings, posted) = self.post_recvs(core::slice::from_ref(wr));
        posted.map(|()| rings).map_err(|(_none, error)| error)
    }

    /// As [`Self::post_recv`] for several requests: all of them, or those before the first that is refused. The answer
    /// about the doorbell is for those that were queued.
    ///
    /// # Errors
    /// The number of requests that were queued, and why the next one was not.
    pub fn post_recvs(&self, wrs: &[RecvWr<'_>]) -> (bool, Result<(), (usize, PostError)>) {
        if self.has_srq {
            return (false, Err((0, PostError::SharedQueue)));
        }
        let posted = self.recv.post_all(wrs);
        // The next look at the state must not see one from before the requests were there to be flushed.
        fence(Ordering::SeqCst);
        (self.state().flushes() || self.is_recv_awaited.load(Ordering::Relaxed), posted)
    }

    /// Returns whether it behaves as InfiniBand's. Then requests for the send queue are taken before there is a stream,
    /// and wait for it. A Write completes when the peer has it. And the application hears that the peer has gone only
    /// when a request needs the peer.
    #[inline]
    pub fn as_infiniband(&self) -> bool {
        self.as_infiniband.load(Ordering::Relaxed)
    }

    /// Sets whether it behaves so. The queue pair must have no stream.
    pub fn set_as_infiniband(&self, is: bool) {
        self.as_infiniband.store(is, Ordering::Relaxed);
    }

    pub(crate) fn await_recv(&self, is_awaited: bool) {
        self.is_recv_awaited.store(is_awaited, Ordering::Relaxed);
    }

    /// Returns what the queues hold. The receive queue holds nothing if a shared one takes its place.
    pub fn capacity(&self) -> QpCapacity {
        let entries = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let (recv_wr, recv_sge) =
            if self.has_srq { (0, 0) } else { (entries(self.recv.capacity()), self.recv.max_sge()) };
        QpCapacity {
            send_wr: entries(self.send.capacity()),
            recv_wr,
            send_sge: self.send.max_sge(),
            recv_sge,
            inline: self.send.max_inline(),
        }
    }

    /// Returns the state.
    #[inline]
    pub fn state(&self) -> QpState {
        QpState::from_code(self.state.load(Ordering::Acquire))
    }

    /// Moves the state by the table. Returns `false` if the event means nothing in this state.
    pub fn handle_event(&self, event: QpEvent) -> bool {
        let Some(next) = self.state().after(event) else { return false };
        self.state.store(next as u8, Ordering::Release);
        // The counterpart of the one in `post_recv`: either the poster sees the new state, or a flush sees the request.
        fence(Ordering::SeqCst);
        true
    }
}
