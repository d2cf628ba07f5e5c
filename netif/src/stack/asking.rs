//! Whose turn it is to ask for a neighbor's MAC address.
//!
//! smoltcp asks for one neighbor a second, whichever connection comes first, and refuses all others. As every
//! connection tries again after a second, one whose neighbor is not there would keep the rest from asking for as long
//! as it lives. So the refused connections form a queue, one for each neighbor. A connection that waits for another
//! neighbor lets the first in the queue go, and stands at the end.

use core::net::IpAddr;
use std::collections::VecDeque;

use smoltcp::time::{Duration, Instant};

use super::Stack;
use crate::table::ConnectionId;

/// The connections that were refused.
#[derive(Debug, Default)]
pub(super) struct Asking {
    queue: VecDeque<(ConnectionId, IpAddr)>,
    /// Since when the first of them is the first.
    since: Option<Instant>,
}

impl Stack {
    /// Whether the connection, which waits for a neighbor, has to let another one go first.
    pub(super) fn yields(&mut self, now: Instant, id: ConnectionId) -> bool {
        let Some(connection) = self.table.get(id).filter(|connection| connection.is_waiting) else {
            return false;
        };
        let own = self.config.ip.next_hop(connection.remote().ip());
        while let Some(&(first, ip)) = self.asking.queue.front() {
            let since = *self.asking.since.get_or_insert(now);
            let is_there = self.table.get(first).is_some_and(|connection| !connection.is_over());
            if is_there && now < since + PATIENCE {
                let is_turn = first == id || own == Some(ip);
                if !is_turn {
                    self.note_question(id, false);
                }
                return !is_turn;
            }
            self.asking.pop();
        }
        false
    }

    /// The station whose MAC address the connection needs; none when the connection is gone.
    pub(super) fn next_hop(&self, id: ConnectionId) -> Option<IpAddr> {
        self.table.get(id).and_then(|connection| self.config.ip.next_hop(connection.remote().ip()))
    }

    /// The connection wanted to ask, and has done so or has to wait.
    pub(super) fn note_question(&mut self, id: ConnectionId, asked: bool) {
        let Some(ip) = self.next_hop(id) else { return };
        let place = self.asking.queue.iter().position(|&(_, other)| other == ip);
        match place {
            Some(0) if asked => self.asking.pop(),
            Some(place) if asked => drop(self.asking.queue.remove(place)),
            None if !asked => self.asking.queue.push_back((id, ip)),
            _ => {}
        }
    }
}

impl Asking {
    fn pop(&mut self) {
        self.queue.pop_front();
        self.since = None;
    }
}

/// When a connection that has let others go first tries again.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// The first tries again within a second; if it does not, it wants nothing any more.
const PATIENCE: Duration = Duration::from_secs(3);
