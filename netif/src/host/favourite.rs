//! The connection that is read without a question to epoll.

use core::cell::Cell;

use crate::table::ConnectionId;

/// While only one connection is busy, as in a round trip, a poll reads that one and saves the question to epoll.
/// epoll is asked every [`LOOKS`] polls, and after a sleep that this connection has not ended. As soon as another
/// connection has news there is no favourite.
#[derive(Debug, Default)]
pub(super) struct Favourite {
    /// The only connection that has had news, and how often in a row.
    last: Option<(ConnectionId, u32)>,
    looks: u32,
    /// A thread may sleep on the descriptor, which stays readable until epoll is asked or the octets are read.
    sleeps: Cell<bool>,
}

/// A connection that is read instead of a question to epoll.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) id: ConnectionId,
    /// A thread has slept. So epoll has to be asked if this connection has nothing.
    pub(super) is_after_sleep: bool,
}

impl Favourite {
    /// Returns the connection to read instead of a question to epoll; `None` if it is time to ask.
    pub(super) fn next_look(&mut self) -> Option<Look> {
        let is_after_sleep = self.sleeps.take();
        let (id, _) = self.last.filter(|&(_, events)| events >= EVENTS)?;
        self.looks = (self.looks + 1) % LOOKS;
        (self.looks != 0).then_some(Look { id, is_after_sleep })
    }

    /// Notes that epoll has reported a connection.
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

/// Polls between two questions to epoll. A message of another connection waits for at most so many polls.
const LOOKS: u32 = 64;
/// So many reports of one connection in a row make it the favourite.
const EVENTS: u32 = 3;
