//! The sessions of a server, for threads that do not serve.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::control::SessionStatus;

/// A session of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RosterEntry {
    /// What the control plane tells of it.
    pub status: SessionStatus,
    /// The number of its queue pair IN, which takes one receive for each slot.
    pub qp_num: u32,
}

/// The sessions of a server. Any thread can look at them at any time, and the thread of the server does nothing for that.
#[derive(Clone, Debug, Default)]
pub struct Roster(Arc<Mutex<Vec<RosterEntry>>>);

impl Roster {
    /// Returns the sessions as the thread of the server has left them, those of the oldest control connection first.
    pub fn sessions(&self) -> Vec<RosterEntry> {
        self.lock().clone()
    }

    pub(super) fn set(&self, sessions: impl Iterator<Item = RosterEntry>) {
        let mut list = self.lock();
        list.clear();
        list.extend(sessions);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RosterEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
