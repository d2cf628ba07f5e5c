//! What queue pairs and completion queues count.

use crate::completion::Status;

/// Declares counters. Those in front of the `;` are of interest for each object: `list` gives their names and values,
/// and `weft stat` takes them from there. Those behind it are only summed up.
macro_rules! counters {
    ($(#[$about:meta])* $name:ident {
        $($(#[$meaning:meta])* $counter:ident,)*
        ;
        $($(#[$summed_meaning:meta])* $summed:ident: $kind:ty,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$meaning])* pub $counter: u64,)*
            $($(#[$summed_meaning])* pub $summed: $kind,)*
        }

        impl $name {
            /// The names of the counters of [`Self::list`].
            pub const NAMES: &'static [&'static str] = &[$(stringify!($counter)),*];

            /// Returns the counters that `weft stat` tells of each object, with their names.
            pub fn list(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($counter), self.$counter)),*].into_iter()
            }
        }
    };
}

counters! {
    /// What a queue pair has done; the engine counts, under its lock.
    QpCounters {
        /// DDP messages whose last segment is in TCP, requests and answers of all kinds.
        messages_sent,
        /// Octets behind the DDP headers of all segments sent.
        octets_sent,
        /// DDP messages whose last segment has come.
        messages_received,
        /// Octets behind the DDP headers of all segments received.
        octets_received,
        ;
        /// Requests of the send queue that were taken up, to be sent or flushed.
        sends_started: u64,
        /// Requests of the receive queue that were taken, by a message or to be flushed.
        receives_started: u64,
        /// Messages that found no receive request.
        rnr: u64,
        /// Requests of both queues that ended, with or without a completion, by the number of their [`Status`].
        completed: [u64; Status::NUMBERS],
    }
}

counters! {
    /// What a completion queue has done.
    CqCounters {
        /// Completions put in.
        completions,
        /// Events due on its channel.
        events,
        /// Polls that found something.
        polls_found,
        /// Polls that found nothing. If several threads poll at the same moment, some may be missed.
        polls_empty,
        ;
        /// 1 once it has overrun.
        overruns: u64,
    }
}

impl QpCounters {
    pub(crate) fn count_completed(&mut self, status: Status) {
        self.completed[status as usize] += 1;
    }
}

impl CqCounters {
    /// Adds those of another queue.
    pub const fn add(&mut self, other: &Self) {
        let Self { completions, events, polls_found, polls_empty, overruns } = *other;
        self.completions += completions;
        self.events += events;
        self.polls_found += polls_found;
        self.polls_empty += polls_empty;
        self.overruns += overruns;
    }
}
