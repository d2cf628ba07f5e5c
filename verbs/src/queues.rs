//! The half of a queue pair that the application holds: both queues and the state.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

use crate::{PostError, QpEvent, QpState, RecvQueue, RecvWr, SendQueue, SendWr};

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

/// Names the DDP Stream of one queue pair (RFC 5041 section 8.2). A number comes back with another queue pair; this does
/// not, so that memory bound to a stream is never another one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(u64);

impl StreamId {
    /// A name that nothing in this process has had before.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
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
    state: AtomicU8,
}

impl QpQueues {
    /// Queues of the given sizes; the state is Idle.
    pub fn new(number: u32, capacity: &QpCapacity) -> Self {
        Self {
            number,
            stream: StreamId::unique(),
            extensions: true,
            send: SendQueue::new(capacity.send_wr, capacity.send_sge, capacity.inline),
            recv: RecvQueue::new(capacity.recv_wr, capacity.recv_sge),
            state: AtomicU8::new(QpState::Idle as u8),
        }
    }

    /// Posts to the send queue, as far as the state allows.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post_send(&self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if wr.opcode.is_extension() && !self.extensions {
            return Err(PostError::Unsupported);
        }
        if self.state().takes_sends() { self.send.post(wr) } else { Err(PostError::InvalidState) }
    }

    /// Posts to the receive queue; every state takes receives, and flushes them where no message can come any more.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued then.
    pub fn post_recv(&self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        self.recv.post(wr)?;
        // Whoever looks at the state next must not see one from before the request was there to be flushed.
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// The state.
    pub fn state(&self) -> QpState {
        QpState::from_code(self.state.load(Ordering::Acquire))
    }

    /// Moves the state by the table; `false` when the event means nothing in this state.
    pub fn handle_event(&self, event: QpEvent) -> bool {
        let Some(next) = self.state().after(event) else { return false };
        self.state.store(next as u8, Ordering::Release);
        // The counterpart of the one in `post_recv`: either the poster sees the new state, or a flush sees the request.
        fence(Ordering::SeqCst);
        true
    }
}
