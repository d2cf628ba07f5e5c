//! When each socket has something to do.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// The times of sockets, one for each at most.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    order: BTreeSet<(Duration, u64)>,
    times: HashMap<u64, Duration>,
}

impl Timers {
    /// Sets the time of a socket, or removes it. Returns whether it is now the first of all.
    pub(crate) fn set(&mut self, id: u64, at: Option<Duration>) -> bool {
        if self.times.get(&id).copied() == at {
            return false;
        }
        if let Some(before) = self.times.remove(&id) {
            self.order.remove(&(before, id));
        }
        let Some(at) = at else { return false };
        self.times.insert(id, at);
        self.order.insert((at, id));
        self.order.first() == Some(&(at, id))
    }

    /// Takes a socket whose time has come.
    pub(crate) fn take(&mut self, now: Duration) -> Option<u64> {
        let &(at, id) = self.order.first().filter(|(at, _)| *at <= now)?;
        self.order.remove(&(at, id));
        self.times.remove(&id);
        Some(id)
    }

    /// Returns the first time.
    pub(crate) fn first(&self) -> Option<Duration> {
        self.order.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_in_order_and_each_socket_has_one() {
        let at = |millis| Some(Duration::from_millis(millis));
        let mut timers = Timers::default();
        assert!(timers.set(1, at(50)) && timers.set(2, at(20)) && !timers.set(3, at(30)));
        assert!(!timers.set(2, at(20)), "nothing has changed");
        assert!(!timers.set(2, at(60)) && timers.set(1, at(10)) && !timers.set(3, None));
        assert_eq!(timers.first(), at(10));
        let mut take = |millis| timers.take(Duration::from_millis(millis));
        assert_eq!((take(9), take(10), take(59), take(60), take(99)), (None, Some(1), None, Some(2), None));
        assert_eq!(timers.first(), None);
    }
}
