//! What queue pairs and completion queues count.

/// What a queue pair has done; the engine counts, under its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QpCounters {
    /// DDP messages whose last segment is in TCP, requests and answers of all kinds.
    pub messages_sent: u64,
    /// Octets behind the DDP headers of all segments sent.
    pub octets_sent: u64,
    /// DDP messages whose last segment has come.
    pub messages_received: u64,
    /// Octets behind the DDP headers of all segments received.
    pub octets_received: u64,
    /// Requests of the send queue that were taken up, to be sent or flushed.
    pub sends_started: u64,
    /// Requests of the receive queue that were taken, by a message or to be flushed.
    pub receives_started: u64,
    /// Messages that found no receive request.
    pub rnr: u64,
    /// Requests of both queues that ended, with or without a completion, by the number of their [`crate::Status`].
    pub completed: [u64; crate::Status::NUMBERS],
}

impl QpCounters {
    pub(crate) fn count_completed(&mut self, status: crate::Status) {
        self.completed[status as usize] += 1;
    }
}

/// What a completion queue has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CqCounters {
    /// Completions put in.
    pub completions: u64,
    /// Polls that found something.
    pub polls_found: u64,
    /// Polls that found nothing. Of polls by several threads at the same moment some may be missed.
    pub polls_empty: u64,
    /// Events due on its channel.
    pub events: u64,
    /// 1 once it has overrun.
    pub overruns: u64,
}

impl CqCounters {
    /// Adds those of another queue.
    pub const fn add(&mut self, other: &Self) {
        self.completions += other.completions;
        self.polls_found += other.polls_found;
        self.polls_empty += other.polls_empty;
        self.events += other.events;
        self.overruns += other.overruns;
    }
}
