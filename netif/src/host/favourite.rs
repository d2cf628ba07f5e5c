//! The connection that is read without a question whether there is something to read.

use core::cell::Cell;

use crate::table::ConnectionId;

/// Who polls while one connection is busy, as in a round trip, saves the question by reading that one. The others are asked after
/// every [`LOOKS`] polls, and after a sleep that this one has not ended; as soon as one of them has news there is no favourite
/// any more.
#[derive(Debug, Default)]
pub(super) struct Favourite {
    /// The only connection that has had news, and how often in a row.
    last: Option<(ConnectionId, u32)>,
    looks: u32,
    /// Somebody is about to sleep on the descriptor, which stays readable until it is asked or what it tells of is read.
    sleeps: Cell<bool>,
}

/// A connection to be read instead of asking after all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) id: ConnectionId,
    /// Somebody has slept, so that all have to be asked after if this one has nothing.
    pub(super) is_after_sleep: bool,
}

impl Favourite {
    /// The connection to read instead of asking after all; none when it is time to ask.
    pub(super) fn next_look(&mut self) -> Option<Look> {
        let is_after_sleep = self.sleeps.take();
        let (id, _) = self.last.filter(|&(_, events)| events >= EVENTS)?;
        self.looks = (self.looks + 1) % LOOKS;
        (self.looks != 0).then_some(Look { id, is_after_sleep })
    }

    /// The kernel has told of a connection.
    pub(super) fn note_event(&mut self, id: ConnectionId) {
        self.last = match self.last {
            Some((last, events)) if last == id => Some((id, events.saturating_add(1))),
            _ => Some((id, 1)),
        };
    }

    pub(super) fn note_sleep(&self) {
        self.sleeps.set(true);
    }

    pub(super) fn forget(&mut self) {
        (self.last, self.looks) = (None, 0);
    }
}

/// Polls until the kernel is asked after all connections: so many readings at most does a message of another one wait.
const LOOKS: u32 = 64;
/// News of one connection in a row that make it the favourite.
const EVENTS: u32 = 3;
