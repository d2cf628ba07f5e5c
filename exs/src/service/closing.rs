//! How all sockets of a context are closed, before a program ends.

use std::sync::Arc;
use std::time::Duration;

use super::{LOOK, Service};
use crate::link::Link;

impl Service {
    /// Closes all sockets, and waits until nothing of them is left to be sent, at most for so long. Those that are late
    /// are given up. Returns how many.
    pub(crate) fn close_all(self: &Arc<Self>, patience: Duration) -> usize {
        let until = self.agenda.now().saturating_add(patience);
        let mut open: Vec<_> = self.table().sockets.values().map(Arc::clone).collect();
        open.iter().for_each(|socket| socket.with(|link, now| link.close(now, None)));
        loop {
            self.turn();
            open.retain(|socket| !socket.ask(Link::has_left));
            if open.is_empty() || self.agenda.now() >= until {
                break;
            }
            std::thread::sleep(LOOK);
        }
        open.iter().for_each(|socket| socket.with(Link::give_up));
        open.len()
    }
}
