//! The queue of connections that wait to ask for a neighbor's MAC address.
//!
//! smoltcp sends one question a second, for the connection that comes first, and refuses all others. Every connection
//! tries again after a second. So a connection with an absent neighbor would keep the others from asking for as long
//! as it lives. Therefore the refused connections form a queue, with one entry for each neighbor. A connection that
//! waits for another neighbor lets the first in the queue go, and gets a place at the end.

use core::net::IpAddr;
use std::collections::VecDeque;

use smoltcp::time::{Duration, Instant};

use super::Sockets;
use crate::table::ConnectionId;

/// The connections that were refused.
#[derive(Debug, Default)]
pub(super) struct Asking {
    queue: VecDeque<(ConnectionId, IpAddr)>,
    /// The time since which the first of them is the first.
    since: Option<Instant>,
}

impl Sockets {
    /// Returns true if the connection, which waits for a neighbor, has to let another one go first.
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

    /// Returns the station whose MAC address the connection needs, or `None` if the connection is gone.
    pub(super) fn next_hop(&self, id: ConnectionId) -> Option<IpAddr> {
        self.table.get(id).and_then(|connection| self.config.ip.next_hop(connection.remote().ip()))
    }

    /// Notes that the connection wanted to ask. `asked` is true if it has done so, false if it has to wait.
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

/// The time after which a connection that has let others go first tries again.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// The first connection tries again within a second. If it does not, it wants no address any more.
const PATIENCE: Duration = Duration::from_secs(3);
